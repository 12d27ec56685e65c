//! What policies without any understanding earn at most at a desk: the table in docs/environments.md. Triage has floors
//! of its own in `tests/triage/floors.rs`.
#![expect(clippy::unwrap_used, reason = "tests")]

use hone_arena::registry::{EnvSpec, Environment};
use hone_arena::rewards::{Case, TOTAL};
use hone_trace::{Action, Content, Message, Task, ToolCall, TurnRecord};
use serde_json::{Map, Value, json};

/// What it does next, given what was last said to it and how often it has acted.
type Policy = fn(&str, usize) -> Action;

const FILLER: &str = "Thank you for your patience. I understand your concern and have looked into it. Everything has been \
taken care of, all items, orders, flights and refunds of $10, $100 and $1000 included.";

const POLICIES: [(&str, Policy); 4] = [
    ("says that it is done", |_, _| Action::Reply("Done.".into())),
    ("repeats what it hears", |heard, _| Action::Reply(heard.to_owned())),
    ("says something long and kind", |_, _| Action::Reply(FILLER.into())),
    ("hands over at once", |_, _| call("transfer_to_human_agents", json!({"summary": "The user needs help."}))),
];

/// Cancels the first thing with an id that it hears of.
fn cancel(heard: &str, acted: usize) -> Action {
    let words = || heard.split([' ', '.', ':', ',']);
    let order = words().find(|word| word.starts_with("#W"));
    let trip =
        words().find(|word| word.len() == 6 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()));
    match (acted, order, trip) {
        (0, Some(id), _) => call("cancel_pending_order", json!({"order_id": id, "reason": "no longer needed"})),
        (0, None, Some(id)) => call("cancel_reservation", json!({"reservation_id": id})),
        _ => Action::Reply("Done.".into()),
    }
}

fn call(name: &str, arguments: Value) -> Action {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Action::Calls(vec![ToolCall::new(name, arguments)])
}

fn text(messages: &[Message]) -> Option<String> {
    messages.iter().rev().find_map(Message::content).map(Content::text)
}

/// The total of one episode, which ends by itself or after a dozen turns.
async fn earned(environment: &Environment, task: &Task, policy: Policy) -> f64 {
    let mut episode = environment.arena.open(task, 0).await.unwrap();
    let mut heard = text(&episode.first).unwrap();
    let mut turns = Vec::new();
    for acted in 0..12 {
        let action = policy(&heard, acted);
        let calls = if let Action::Calls(calls) = &action { calls.clone() } else { Vec::new() };
        let turn = episode.env.step(action).await.unwrap();
        turns.push(TurnRecord { calls, failed: turn.failed, ..TurnRecord::default() });
        heard = text(&turn.messages).unwrap_or(heard);
        if turn.done {
            break;
        }
    }
    let mut case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
    case.turns = Some(turns);
    environment.rubric.score_case(&case).await.total.value().unwrap_or_else(|| panic!("{}: no {TOTAL}", task.key))
}

/// The mean over the tasks of three seeds.
async fn mean(name: &str, policy: Policy) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for seed in [1, 2, 3] {
        let mut table: Map<String, Value> =
            json!({"name": name, "seed": seed, "tasks": 90, "held_out": 0}).as_object().unwrap().clone();
        if name != "shop" {
            table.insert("customers".into(), 100.into());
        }
        let environment = EnvSpec::read(table).unwrap().open().unwrap();
        for task in environment.splits["train"].iter() {
            sum += earned(&environment, task, policy).await;
            count += 1.0;
        }
    }
    sum / count
}

#[tokio::test]
async fn who_does_nothing_useful_earns_nothing() {
    for name in ["shop", "retail", "airline"] {
        for (policy, act) in POLICIES {
            assert_eq!(mean(name, act).await, 0.0, "{name}: {policy}");
        }
    }
}

#[tokio::test]
async fn who_cancels_whatever_it_hears_of_stays_under_the_floor() {
    for (name, floor) in [("shop", 0.0), ("retail", 0.1), ("airline", 0.15)] {
        let earned = mean(name, cancel).await;
        println!("{name}: {earned:.3} (floor {floor})");
        assert!(earned <= floor, "{name}: {earned:.3} is over its floor {floor}");
    }
}
