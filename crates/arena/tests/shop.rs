//! The shop: every task is solvable, needs its calls, and cannot be had for nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::HashSet;

use hone_arena::shop::{NAME, Shop, tasks, tools};
use hone_trace::{Action, Arena, EndState, Task, ToolCall};
use serde_json::json;

async fn play(task: &Task, calls: &[ToolCall]) -> (EndState, u32) {
    let mut episode = Shop.open(task, 0).await.unwrap();
    let mut failed = 0;
    for call in calls {
        failed += episode.env.step(Action::Calls(vec![call.clone()])).await.unwrap().failed;
    }
    assert!(episode.env.step(Action::Reply("Done.".into())).await.unwrap().done);
    (episode.env.end(), failed)
}

fn matches(end: &EndState) -> bool {
    end.facts["db_match"].as_bool().unwrap()
}

#[tokio::test]
async fn the_oracle_succeeds_and_nothing_less_does() {
    for (seed, difficulty) in [(1, 1), (2, 2), (3, 3)] {
        for task in tasks("train", seed, 200, difficulty) {
            assert_eq!(task.env, NAME);
            let reference = task.reference.clone().unwrap();
            assert!((3..=5).contains(&reference.len()), "{}", task.key);
            let (end, failed) = play(&task, &reference).await;
            assert!(matches(&end) && failed == 0, "{}", task.key);
            // Reads alone, nothing at all, and the write of another task change nothing the customer wanted.
            assert!(!matches(&play(&task, &reference[..reference.len() - 1]).await.0));
            assert!(!matches(&play(&task, &[]).await.0));
        }
    }
}

#[tokio::test]
async fn each_call_needs_the_answer_of_an_earlier_one() {
    for task in tasks("train", 5, 100, 3) {
        let reference = task.reference.clone().unwrap();
        let mut known = format!("{} find", task.prompt);
        let mut episode = Shop.open(&task, 0).await.unwrap();
        for call in &reference {
            for value in call.arguments.values() {
                assert!(known.contains(value.as_str().unwrap()), "{}: {value} comes from nowhere", task.key);
            }
            let ids = call.arguments.values().filter(|value| value.as_str().unwrap().parse::<u32>().is_ok());
            assert!(ids.into_iter().all(|id| !task.prompt.contains(id.as_str().unwrap())), "ids are looked up");
            let turn = episode.env.step(Action::Calls(vec![call.clone()])).await.unwrap();
            known.push_str(&serde_json::to_string(&turn.messages).unwrap());
        }
    }
}

#[tokio::test]
async fn wrong_calls_are_answered_and_change_nothing() {
    let task = tasks("train", 1, 1, 1).remove(0);
    let call = |name: &str, arguments: serde_json::Value| ToolCall::new(name, arguments.as_object().unwrap().clone());
    let wrong = [
        call("find_customer", json!({"name": "Nobody"})),
        call("cancel_order", json!({"order": "0"})),
        call("cancel_order", json!({"order": 7})),
        call("return_item", json!({})),
        call("no_such_tool", json!({})),
    ];
    let (end, failed) = play(&task, &wrong).await;
    assert_eq!(failed, 5);
    assert_eq!(end.facts["changes"]["made"], json!([]));
}

#[test]
fn tasks_are_reproducible_distinct_and_apart_by_split() {
    let first = tasks("train", 1, 300, 3);
    assert_eq!(first, tasks("train", 1, 300, 3));
    let worlds =
        |tasks: &[Task]| tasks.iter().map(|task| task.extra["world"].clone().to_string()).collect::<HashSet<_>>();
    assert_eq!(worlds(&first).len(), 300);
    assert!(worlds(&first).is_disjoint(&worlds(&tasks("held-out", 1, 300, 3))));
    assert!(tools().unwrap().len() >= 6);
}
