//! tau2's telecom: recordings of upstream's tools, functions and rewards in a world of our own, and its own tasks.

use std::path::Path;
use std::sync::Arc;

use hone_arena::solution::{Move, solution};
use hone_testdata::{committed, third_party};
use hone_trace::{Action, Arena as _, Message, Task, ToolCall};
use hone_worlds::domains::grade::grade;
use hone_worlds::domains::py::{self, dict_from};
use hone_worlds::domains::service::{Service, scripted_users};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Desk, Domain, Kind, Profile, Requestor, tasks};
use serde_json::Value;

use crate::lines;

const NOTHING: &[&str] = &[];

fn load(directory: &Path) -> Domain {
    Domain::load(Kind::Telecom, Profile::Tau2, directory).unwrap()
}

fn requestor(value: &Value) -> Requestor {
    serde_json::from_value(value.clone()).unwrap()
}

/// Runs a recorded step; returns its answer and the recorded one.
fn step(desk: &mut Desk, step: &Value) -> (Value, Value) {
    let arguments = dict_from(step["kwargs"].as_object().unwrap());
    if let Some(name) = step.get("function").and_then(Value::as_str) {
        let answer = match desk.scenario(requestor(&step["of"]), name, arguments) {
            Ok(py::Value::Bool(flag)) => Value::Bool(flag),
            Ok(_) => Value::Null,
            Err(what) => what.into(),
        };
        let recorded = step.get("raised").or_else(|| step.get("value")).cloned().unwrap_or_default();
        return (answer, recorded);
    }
    let reply = desk.invoke_by(requestor(&step["by"]), step["name"].as_str().unwrap(), &arguments).unwrap();
    (reply.text.into(), step["observation"].clone())
}

#[test]
fn every_step_is_as_recorded() {
    let directory = committed("tau/telecom");
    let domain = Arc::new(load(&directory));
    let mut steps = 0;
    for (line, episode) in lines(&directory.join("tau2.jsonl")).iter().enumerate() {
        let mut desk = domain.open();
        for recorded in episode["steps"].as_array().unwrap() {
            let (answer, wanted) = step(&mut desk, recorded);
            assert_eq!(answer, wanted, "line {line}, step {steps}: {recorded}");
            assert_eq!(desk.state_hash().to_string(), recorded["state_sha256"], "line {line}: {recorded}");
            let user = desk.user_state_hash().unwrap().to_string();
            assert_eq!(user, recorded["user_state_sha256"], "line {line}: {recorded}");
            steps += 1;
        }
    }
    assert!(steps > 1000, "{steps} steps");
}

#[test]
fn rewards_are_as_recorded() {
    let directory = committed("tau/telecom");
    let domain = Arc::new(load(&directory));
    for (file, least) in [("results.json", 50), ("results_solo.json", 50)] {
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        let graded = grade(&domain, &serde_json::from_str(&text).unwrap()).unwrap();
        assert!(graded.len() >= least, "{file} has {} episodes", graded.len());
        for episode in graded {
            assert_eq!(episode.agrees(), Some(true), "{file}: {episode:#?}");
        }
    }
}

/// Plays a task by its solution, with a user who does what the agent names; the facts at the end.
async fn play(service: &Service, task: &Task) -> serde_json::Map<String, Value> {
    let mut episode = service.open(task, 1).await.unwrap();
    for act in solution(task).unwrap() {
        let action = match act {
            Move::Call(call) => Action::Calls(vec![call]),
            Move::Say(text) => Action::Reply(text),
        };
        if episode.env.step(action).await.unwrap().done {
            break;
        }
    }
    episode.env.end().facts
}

/// True when the facts earn tau's reward.
fn earns(facts: &serde_json::Map<String, Value>) -> bool {
    let all = |name: &str| facts.get(name).and_then(Value::as_object).into_iter().flatten().all(|(_, met)| met == true);
    facts["db_match"] == true && all("outputs_said") && all("conditions")
}

/// Every task is solved by its solution, with a user and in solo mode, and not by doing nothing.
async fn tasks_are_won_by_their_solutions(directory: &Path, split: &str, free: &[&str]) -> usize {
    let domain = Arc::new(load(directory));
    let alone = Arc::new(load(directory).solo());
    let service = Service::new(domain.clone(), scripted_users()).unwrap().with_texts_of(directory);
    let solo = Service::new(alone.clone(), scripted_users()).unwrap().with_texts_of(directory);
    let listed = tasks::load(Kind::Telecom, directory, split).unwrap();
    tasks::check(&domain, &listed).unwrap();
    for task in &listed {
        let id = task.key.strip_prefix("tau2/telecom/").unwrap();
        let mut before = service.open(task, 1).await.unwrap();
        assert_eq!(earns(&before.env.end().facts), free.contains(&id), "{id}: doing nothing");
        assert!(earns(&play(&service, task).await), "{id}: its solution");
        // Nobody speaks in solo mode, before the episode or in it.
        if task.outputs.is_empty() && task.extra["initial_state"].get("message_history").is_none_or(Value::is_null) {
            let task = tasks::solo(task.clone()).unwrap();
            assert!(earns(&play(&solo, &task).await), "{id}: its solution, alone");
        }
    }
    listed.len()
}

#[tokio::test]
async fn our_tasks_are_won_by_their_solutions() {
    let directory = committed("tau/telecom");
    // One task has no criteria.
    let count = tasks_are_won_by_their_solutions(&directory, "base", &["no_criteria"]).await;
    assert!(count > 15, "{count} tasks");
}

/// tau2-bench's own tasks: 20 small ones, and those of its splits if the whole file is present.
#[tokio::test]
#[ignore = "needs tau2-bench's data: CONTRIBUTING.md says how to get it"]
async fn upstreams_tasks_are_won_by_their_solutions() {
    let directory = third_party("data/tau").join("tau2-bench/telecom");
    assert_eq!(tasks_are_won_by_their_solutions(&directory, "small", &[]).await, 20);
    if directory.join("tasks.json").exists() {
        for (split, count) in [("train", 74), ("test", 40), ("base", 114), ("full", 2285)] {
            assert_eq!(tasks_are_won_by_their_solutions(&directory, split, &[]).await, count, "{split}");
        }
    }
}

#[tokio::test]
async fn prompts_are_framed_as_tau2_frames_them() {
    let directory = committed("tau/telecom");
    let listed = tasks::load(Kind::Telecom, &directory, "base").unwrap();
    let task = listed.iter().find(|task| task.key.ends_with("/history")).unwrap();
    let service = Service::new(Arc::new(load(&directory)), scripted_users()).unwrap();
    let episode = service.open(&listed[0], 1).await.unwrap();
    assert!(episode.system.starts_with("<instructions>\n") && episode.system.ends_with("\n</policy>"));
    assert_eq!(episode.first[0], Message::assistant("Hi! How can I help you today?"));
    assert!(episode.tools.iter().all(|tool| tool.name != "toggle_data"));
    // The agent reads a conversation before the episode.
    let roles: Vec<_> = service.open(task, 1).await.unwrap().first.iter().map(Message::role).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);

    let solo = Service::new(Arc::new(load(&directory).solo()), scripted_users()).unwrap();
    let mut episode = solo.open(&listed[0], 1).await.unwrap();
    assert!(episode.system.ends_with("does not work (airplane).\n</ticket>"), "{}", episode.system);
    assert!(episode.first.is_empty());
    assert!(["toggle_data", "done"].iter().all(|name| episode.tools.iter().any(|tool| tool.name == *name)));
    let reply = episode.env.step(Action::Reply("hello".into())).await.unwrap();
    assert!(reply.failed == 1 && !reply.done);
    // A message that stops does nothing else.
    let call = |name: &str| ToolCall::new(name, serde_json::Map::new());
    let turn = episode.env.step(Action::Calls(vec![call("toggle_airplane_mode"), call("done")])).await.unwrap();
    assert!(turn.done && turn.messages.is_empty());
    assert!(!earns(&episode.env.end().facts));
}

/// Functions and records that a task names and the domain lacks are refused by name.
#[test]
fn a_beginning_that_cannot_be_is_refused() {
    use serde_json::json;
    let domain = Arc::new(load(&committed("tau/telecom")));
    let named = |of: &str, name: &str| json!([{"env_type": of, "func_name": name, "arguments": {}}]);
    let user = json!({"role": "user", "content": "x"});
    let call = json!({"id": "1", "name": "enable_roaming", "arguments": {"customer_id": "C90", "line_id": "L90"}});
    let called = json!({"role": "assistant", "tool_calls": [call]});
    let other = json!({"role": "tool", "id": "1", "content": "Roaming is on"});
    for (state, said) in [
        (json!({"initialization_actions": named("user", "explode")}), "user has no function explode"),
        (json!({"initialization_actions": named("assistant", "toggle_data")}), "agent has no function toggle_data"),
        (json!({"initialization_actions": named("user", "set_user_info")}), "missing 2 required"),
        (json!({"initialization_actions": named("nobody", "x")}), "env_type"),
        (json!({"initialization_data": {"agent_data": {"orders": []}}}), "no table \"orders\""),
        (json!({"initialization_data": {"user_data": {"device": {"battery_level": "full"}}}}), "valid integer"),
        (json!({"message_history": [user, called]}), "before a call is answered"),
        (json!({"message_history": [called, other]}), "enable_roaming answers"),
        (json!({"message_history": [other]}), "nobody called"),
        (json!({"weather": "rain"}), "weather"),
    ] {
        let task = json!({"id": "0", "user_scenario": {"instructions": "x"}, "initial_state": state});
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("tasks_x.json"), json!([task]).to_string()).unwrap();
        let checked = tasks::load(Kind::Telecom, directory.path(), "x").and_then(|tasks| tasks::check(&domain, &tasks));
        let error = checked.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("tau2/telecom/0"), "{error}");
    }
    let error = Domain::load(Kind::Telecom, Profile::Strict, &committed("tau/telecom")).unwrap_err();
    assert!(error.to_string().contains("profile = \"tau2\""), "{error}");
}

/// Initial data is merged into the databases, and the models check it.
#[test]
fn initial_data_is_laid_over_the_databases() {
    use serde_json::json;
    let domain = Arc::new(load(&committed("tau/telecom")));
    let data = json!({"user_data": {"device": {"data_enabled": "no", "active_apn_settings": {"mms_port": 1}}}});
    let criteria = json!({
        "reward_basis": ["ENV_ASSERTION"],
        "env_assertions": [{"env_type": "user", "func_name": "assert_mobile_data_status", "arguments": {"expected_status": true}, "assert_value": false}],
    });
    let task = tasks::tau2(
        Kind::Telecom,
        &json!({"id": "0", "user_scenario": {"instructions": "x"}, "initial_state": {"initialization_data": data}, "evaluation_criteria": criteria}),
    )
    .unwrap();
    tasks::check(&domain, std::slice::from_ref(&task)).unwrap();
    // Without its initial state, data is on, and the assertion that it is off does not hold.
    assert_eq!(judge(&domain.open(), &task, NOTHING).reward(), Some(0.0));
}
