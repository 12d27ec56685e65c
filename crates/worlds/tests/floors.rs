//! Floors: the most that policies without any understanding earn; the table in docs/environments.md. They act through
//! the interface that evaluation uses; triage has further floors in `tests/triage/floors.rs`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use hone_arena::baseline::{Baseline, DoNothing, RandomCaller, everywhere, play};
use hone_arena::registry::Environment;
use hone_arena::rewards::TOTAL;
use hone_chat::parse::{Toolbox, parse};
use hone_trace::{Action, Message, Reward, Seed, ToolSet, ToolSpec};
use hone_worlds::{BUILTINS, EnvEntry, EnvSpec};
use serde_json::{Map, Value, json};

/// The environment with the options its floor was measured with.
fn environment(builtin: &EnvEntry, seed: u64) -> Environment {
    let mut table: Map<String, Value> =
        json!({"name": builtin.name, "seed": seed, "tasks": 90, "held_out": 0}).as_object().unwrap().clone();
    let floor = builtin.make.floor.unwrap_or_else(|| panic!("{} has no floor in its entry", builtin.name));
    table.extend(serde_json::from_str::<Map<String, Value>>(floor.options).unwrap());
    EnvSpec::read(table).unwrap().open().unwrap()
}

/// The mean total over the tasks of three seeds.
async fn mean(builtin: &EnvEntry, baseline: &dyn Baseline) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for seed in [1, 2, 3] {
        let environment = environment(builtin, seed);
        for task in environment.splits["train"].iter() {
            let seed = Seed::root(seed).with(&task.key);
            let rewards = play(&*environment.arena, &environment.rubric, task, baseline, 12, seed).await.unwrap();
            let total = rewards.iter().find(|reward| reward.component == TOTAL).and_then(Reward::value);
            sum += total.unwrap_or_else(|| panic!("{}: no {TOTAL}", task.key));
            count += 1.0;
        }
    }
    sum / count
}

#[tokio::test]
async fn scripted_policies_stay_under_the_floor_of_their_environment() {
    for builtin in BUILTINS {
        let (name, floor) = (builtin.name, builtin.make.floor.unwrap().at_most);
        let own = environment(builtin, 1).baselines;
        for baseline in everywhere().into_iter().chain(own) {
            let earned = mean(builtin, &*baseline).await;
            println!("{name}: {} earns {earned:.3} (floor {floor})", baseline.name());
            assert!(earned <= floor, "{name}: {} earns {earned:.3}, over the floor {floor}", baseline.name());
        }
    }
}

#[tokio::test]
async fn who_does_nothing_earns_nothing() {
    for builtin in BUILTINS {
        assert_eq!(mean(builtin, &DoNothing).await, 0.0, "{}", builtin.name);
    }
}

/// A floor means something only if the policy acts: every environment's own policies call tools that it offers.
#[tokio::test]
async fn policies_that_are_floors_act() {
    for builtin in BUILTINS {
        let environment = environment(builtin, 1);
        let task = &environment.splits["train"][0];
        let episode = environment.arena.open(task, 0).await.unwrap();
        let random: Arc<dyn Baseline> = Arc::new(RandomCaller::default());
        let mut callers = 0;
        for baseline in environment.baselines.iter().chain([&random]) {
            let mut calls = 0;
            for task in environment.splits["train"].iter().take(8) {
                calls += called(&environment, task, &**baseline).await;
            }
            callers += usize::from(calls > 0);
        }
        assert!(callers > usize::from(!environment.baselines.is_empty()), "{}: nobody acts", builtin.name);
        assert!(!episode.tools.is_empty());
    }
}

/// Calls of offered tools that an episode made.
async fn called(environment: &Environment, task: &hone_trace::Task, baseline: &dyn Baseline) -> usize {
    let mut episode = environment.arena.open(task, 0).await.unwrap();
    let mut said = vec![Message::system(episode.system)];
    said.append(&mut episode.first);
    let mut calls = 0;
    for turn in 0..12 {
        let action = baseline.act(&episode.tools, &said, Seed::root(turn));
        if let Action::Calls(made) = &action {
            calls += made.iter().filter(|call| episode.tools.get(&call.name).is_some()).count();
            said.push(Message::calls(made.clone()));
        } else {
            said.push(Message::assistant("…"));
        }
        let answer = episode.env.step(action).await.unwrap();
        said.extend(answer.messages);
        if answer.done {
            break;
        }
    }
    calls
}

/// The parser, which checks schemas, accepts the random caller's calls.
#[test]
fn random_calls_are_valid() {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "count": {"type": "integer", "minimum": 2, "maximum": 4},
            "items": {"type": "array", "minItems": 2, "items": {"type": "object", "properties": {
                "sku": {"type": "string"}, "gift": {"type": "boolean"}}, "required": ["sku"]}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "where": {"$ref": "#/$defs/place"}
        },
        "required": ["id", "kind", "count", "items", "where"],
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
        "additionalProperties": false
    });
    let tools = ToolSet::new(vec![ToolSpec::new("act", "", schema)]).unwrap();
    let toolbox = Toolbox::new(&tools).unwrap();
    let said = [Message::system("Say \"system\"."), Message::user("Order #W12 of \"Ann\", 3 items, please.")];
    let mut seen = std::collections::HashSet::new();
    let caller = RandomCaller::default();
    for seed in 0..200 {
        let Action::Calls(calls) = caller.act(&tools, &said, Seed::root(seed)) else {
            panic!("its first move is a call")
        };
        let call = json!({"name": calls[0].name, "arguments": calls[0].arguments});
        let parsed = parse(&format!("<tool_call>\n{call}\n</tool_call>"), &toolbox, None);
        assert!(parsed.error.is_none() && parsed.calls.len() == 1, "{call}: {:?}", parsed.error);
        seen.insert(calls[0].arguments["id"].as_str().unwrap().to_owned());
    }
    assert!(seen.contains("Ann") && seen.contains("#W12") && !seen.contains("system"), "{seen:?}");
    let mut talked = said.to_vec();
    talked.extend(vec![Message::assistant("…"); caller.calls]);
    assert!(matches!(caller.act(&tools, &talked, Seed::root(0)), Action::Reply(_)), "it stops");
}
