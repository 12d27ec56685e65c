//! The shop: every task is solvable, needs its calls, cannot be solved by doing nothing, and held-out means held out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::{BTreeMap, HashSet};

use hone_trace::{Action, Arena, EndState, Task, ToolCall};
use hone_worlds::shop::{Kit, NAME, Shop, TRAINED_PAIRS, TaskSpec, Tool, Vocabulary, World};
use serde_json::json;

fn spec(words: Vocabulary, difficulty: u8) -> TaskSpec {
    TaskSpec { words, difficulty, pairs: TRAINED_PAIRS, novice: false }
}

fn training(seed: u64, count: usize, difficulty: u8) -> Vec<Task> {
    spec(Vocabulary::Training, difficulty).tasks("train", seed, count)
}

fn held_out(seed: u64, count: usize) -> Vec<Task> {
    spec(Vocabulary::HeldOut, 3).tasks("held-out", seed, count)
}

fn kit(task: &Task) -> Kit {
    let words = serde_json::from_value(task.extra["words"].clone()).unwrap();
    Kit::new(task.extra["world"].as_u64().unwrap(), words)
}

async fn play(task: &Task, calls: &[ToolCall]) -> (EndState, u32) {
    let mut episode = Shop.open(task, 0).await.unwrap();
    let mut failed = 0;
    for call in calls {
        failed += episode.env.step(Action::Calls(vec![call.clone()])).await.unwrap().failed;
    }
    assert!(episode.env.step(Action::Reply("Done.".into())).await.unwrap().done);
    (episode.env.end(), failed)
}

async fn solves(task: &Task, calls: &[ToolCall]) -> bool {
    play(task, calls).await.0.facts["db_match"].as_bool().unwrap()
}

#[tokio::test]
async fn the_oracle_succeeds_and_nothing_less_does() {
    for difficulty in [1, 2, 3] {
        for task in training(u64::from(difficulty), 150, difficulty).iter().chain(&held_out(1, 50)) {
            assert_eq!(task.env, NAME);
            let reference = task.reference.clone().unwrap();
            assert!((3..=9).contains(&reference.len()), "{}", task.key);
            let (end, failed) = play(task, &reference).await;
            assert!(end.facts["db_match"].as_bool().unwrap(), "{}", task.key);
            // Only the planned errors occur.
            assert_eq!(failed > 0, task.key.ends_with("-busy") || task.key.ends_with("-moved"), "{}", task.key);
            // No write can be omitted, and neither can the first try of one that is busy.
            let kit = kit(task);
            for (at, call) in reference.iter().enumerate() {
                let tool = kit.tool(&call.name).unwrap();
                if matches!(tool, Tool::CancelOrder | Tool::ReturnItem | Tool::ExchangeItem | Tool::ChangeCity) {
                    let mut fewer = reference.clone();
                    fewer.remove(at);
                    let moved = task.key.ends_with("-moved")
                        && reference.get(at + 1).is_some_and(|next| next.name == call.name);
                    assert_eq!(solves(task, &fewer).await, moved, "{} without call {at}", task.key);
                }
            }
            assert!(!solves(task, &[]).await);
        }
    }
}

#[tokio::test]
async fn each_call_needs_the_answer_of_an_earlier_one() {
    for task in training(5, 200, 3) {
        let mut known = task.prompt.clone();
        let mut episode = Shop.open(&task, 0).await.unwrap();
        for call in task.reference.as_ref().unwrap() {
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

#[test]
fn every_tool_is_needed_and_names_tell_nothing() {
    let tasks = training(3, 400, 3);
    let mut uses: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    for task in &tasks {
        let kit = kit(task);
        for call in task.reference.as_ref().unwrap() {
            uses.entry(format!("{:?}", kit.tool(&call.name).unwrap())).or_default().insert(call.name.clone());
        }
    }
    assert_eq!(uses.len(), Tool::ALL.len(), "{uses:?}");
    // Each tool has (nearly) every code name: a name says nothing about what it does.
    assert!(uses.values().all(|names| names.len() > 30), "{uses:?}");
    // Offered in any order: each place in the list has held every tool.
    for place in 0..8 {
        let tools: HashSet<_> = tasks
            .iter()
            .map(|task| {
                let specs = kit(task).specs().unwrap();
                kit(task).tool(&specs[place].name).unwrap()
            })
            .collect();
        assert_eq!(tools.len(), 8);
    }
}

#[test]
fn held_out_tasks_share_no_words_phrasings_or_code_names_with_training() {
    let (training, held_out) = (training(1, 2000, 3), held_out(1, 500));
    let quoted = |tasks: &[Task]| -> HashSet<String> {
        let words = |task: &Task| task.prompt.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        tasks.iter().flat_map(words).flat_map(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let colours: HashSet<String> =
        ["red", "blue", "green", "black", "white", "gold", "grey", "pink"].map(str::to_owned).into();
    let shared: HashSet<String> = quoted(&training).intersection(&quoted(&held_out)).cloned().collect();
    assert!(shared.is_subset(&colours), "{shared:?}");
    // A prompt without its quoted parts is its phrasing.
    let phrasing = |task: &Task| task.prompt.split('"').step_by(2).collect::<Vec<_>>().join("_");
    let known: HashSet<String> = training.iter().map(phrasing).collect();
    assert!(known.len() > 200 && held_out.iter().all(|task| !known.contains(&phrasing(task))));
    let names = |tasks: &[Task]| -> HashSet<String> {
        tasks
            .iter()
            .flat_map(|task| kit(task).specs().unwrap().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>())
            .collect()
    };
    assert!(names(&training).is_disjoint(&names(&held_out)));
    // Combinations of goals: all those of training and one more.
    let pairs = |tasks: &[Task]| -> HashSet<Vec<String>> {
        let goals = |task: &Task| {
            let mut goals: Vec<String> = task
                .key
                .split('-')
                .nth(if task.key.starts_with("held") { 4 } else { 3 })
                .unwrap()
                .split('+')
                .map(str::to_owned)
                .collect();
            goals.sort();
            goals
        };
        tasks.iter().map(goals).filter(|goals| goals.len() == 2).collect()
    };
    let (known, new) = (pairs(&training), pairs(&held_out));
    assert_eq!((known.len(), new.len()), (6, 7), "{known:?} {new:?}");
    assert!(known.is_subset(&new));
}

#[test]
fn the_words_of_a_request_name_one_customer_and_one_item_each() {
    for task in training(2, 300, 3).iter().chain(&held_out(2, 100)) {
        let words = serde_json::from_value(task.extra["words"].clone()).unwrap();
        let world = World::new(task.extra["world"].as_u64().unwrap(), words);
        let quoted: Vec<&str> = task.prompt.split('"').skip(1).step_by(2).collect();
        let named = world.customers.values().filter(|customer| quoted.contains(&customer.name.as_str())).count();
        let items =
            world.orders.values().flat_map(|order| order.items.keys()).filter(|item| quoted.contains(&item.as_str()));
        let items: Vec<_> = items.collect();
        assert_eq!((named, items.len()), (1, items.iter().collect::<HashSet<_>>().len()), "{}", task.key);
        assert_eq!(items.len(), 1 + usize::from(task.key.contains('+')), "{}", task.key);
    }
}

#[tokio::test]
async fn wrong_calls_are_answered_and_change_nothing() {
    let task = training(1, 1, 1).remove(0);
    let kit = kit(&task);
    let name = |tool: Tool| {
        let specs = kit.specs().unwrap();
        specs.iter().map(|spec| spec.name.clone()).find(|name| kit.tool(name) == Some(tool)).unwrap()
    };
    let call = |name: String, arguments: serde_json::Value| ToolCall::new(name, arguments.as_object().unwrap().clone());
    let reference = task.reference.clone().unwrap();
    let order = reference.last().unwrap().arguments["order"].clone();
    let wrong = [
        call(name(Tool::FindCustomer), json!({"name": "Nobody"})),
        call(name(Tool::CancelOrder), json!({"order": "0"})),
        call(name(Tool::CancelOrder), json!({"order": 7})),
        call(name(Tool::ReturnItem), json!({})),
        call(name(Tool::ReturnItem), json!({"order": order, "item": "moon"})),
        call(name(Tool::ChangeCity), json!({"order": order, "city": "lamp"})),
        call("cancel_order".into(), json!({"order": order})),
    ];
    let (end, failed) = play(&task, &wrong).await;
    assert_eq!(failed, 7);
    assert_eq!(end.facts["changes"]["made"], json!([]));
}

#[tokio::test]
async fn the_novice_is_wrong_more_often_than_right_where_care_is_called_for() {
    let spec = TaskSpec { novice: true, ..spec(Vocabulary::Training, 3) };
    let (mut careless, mut called_for, mut plain, mut solved) = (0, 0, 0, 0);
    for task in spec.tasks("train", 4, 600) {
        let calls: Vec<ToolCall> = serde_json::from_value(task.extra["demonstration"].clone()).unwrap();
        let good = solves(&task, &calls).await;
        let care = task.key.contains('+')
            || task.key.contains("give_up")
            || task.key.ends_with("-busy")
            || task.key.ends_with("-moved");
        if care {
            called_for += 1;
            careless += usize::from(!good);
        } else {
            plain += 1;
            solved += usize::from(good);
        }
    }
    assert_eq!(solved, plain, "a plain wish it fulfils");
    let share = f64::from(careless as u32) / f64::from(called_for as u32);
    assert!((0.55..0.85).contains(&share), "{share}");
}

#[test]
fn tasks_are_reproducible_distinct_and_apart_by_split() {
    let first = training(1, 300, 3);
    assert_eq!(first, training(1, 300, 3));
    let worlds =
        |tasks: &[Task]| tasks.iter().map(|task| task.extra["world"].clone().to_string()).collect::<HashSet<_>>();
    assert_eq!(worlds(&first).len(), 300);
    assert!(worlds(&first).is_disjoint(&worlds(&held_out(1, 300))));
}
