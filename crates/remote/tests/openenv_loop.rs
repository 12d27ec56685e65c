//! Our client against our server: every built-in environment gives the same results over the wire as locally.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Served, documented, host, small, solve};
use hone_arena::rewards::Case;
use hone_remote::serve::Options;
use hone_trace::{Action, Boundary, FaultKind, Message, ToolCall};
use hone_worlds::{BUILTINS, EnvSpec};
use serde_json::{Map, Value, json};

fn remote(url: &str, more: &Value) -> hone_arena::registry::Environment {
    let mut table = json!({"kind": "openenv", "url": url, "tasks": 4, "held_out": 1});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

#[tokio::test]
async fn a_solution_earns_over_the_wire_what_it_earns_here() {
    for builtin in BUILTINS {
        let served = Served::start(host(builtin.name, Options::default())).await;
        let here = small(builtin.name);
        let there = remote(&served.url, &json!({}));
        for (at, task) in here.splits[0].iter().take(3).enumerate() {
            let mut elsewhere = there.splits[0][at].clone();
            elsewhere.extra.insert("reset".into(), json!({"task": task.key, "split": "train"}));
            let mut episode = there.arena.open(&elsewhere, 1).await.unwrap();
            let own = here.arena.open(task, 0).await.unwrap();
            assert_eq!((&episode.system, &episode.first), (&own.system, &own.first), "{}", task.key);
            let turn = solve(&mut episode, task).await;
            assert!(turn.done, "{}: {:?}", task.key, turn.messages);
            let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
            let card = there.rubric.score_case(&case).await;
            assert_eq!(card.total.value(), Some(1.0), "{}: {:?}", task.key, card.components);
            assert!(card.components[0].why().starts_with("given: "), "{:?}", card.components);
        }
    }
}

/// Its token is a variable that cargo sets; the server asks for it.
#[tokio::test]
async fn the_documented_example_is_played() {
    let token = std::env::var("CARGO_PKG_NAME").unwrap();
    let served = Served::start(host("shop", Options { token: Some(token), ..Options::default() })).await;
    let table = documented("OpenEnv", &json!({"url": served.url, "bearer_env": "CARGO_PKG_NAME"}));
    let there = EnvSpec::read(table).unwrap().open().unwrap();
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    let done = ToolCall::new("respond", json!({"content": "done"}).as_object().unwrap().clone());
    assert!(episode.env.step(Action::Calls(vec![done])).await.unwrap().done);
    let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
    assert_eq!(there.rubric.score_case(&case).await.total.value(), Some(0.0));
}

#[tokio::test]
async fn a_reply_reaches_the_user_and_mistakes_are_answered() {
    let served = Served::start(host("retail", Options::default())).await;
    let there = remote(&served.url, &json!({}));
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    let turn = episode.env.step(Action::Reply("How can I help?".into())).await.unwrap();
    assert!(matches!(turn.messages[..], [Message::User { .. }]), "{:?}", turn.messages);
    let call = |name: &str| Action::Calls(vec![ToolCall::new(name, Map::new())]);
    for (name, words) in [("no_such_tool", "Unknown tool"), ("get_user_details", "user_id")] {
        let turn = episode.env.step(call(name)).await.unwrap();
        let text = turn.messages[0].content().unwrap().text();
        assert!(turn.failed == 1 && !turn.done && text.contains(words), "{name}: {text}");
    }
    let facts = episode.env.end().facts;
    assert_eq!(facts["env_reward"]["value"], Value::Null, "no reward yet is not 0");
}

#[tokio::test]
async fn a_full_server_is_waited_for_and_a_pool_keeps_to_what_there_is() {
    let options = Options { sessions: 2, ..Options::default() };
    let served = Served::start(host("shop", options)).await;
    let there = std::sync::Arc::new(remote(&served.url, &json!({"sessions": 16})));
    let episodes = (0..12).map(|at| {
        let there = std::sync::Arc::clone(&there);
        tokio::spawn(async move {
            let mut episode = there.arena.open(&there.splits[0][at % 4], at as u64).await?;
            episode.env.step(Action::Calls(vec![ToolCall::new("nothing", Map::new())])).await
        })
    });
    for episode in futures::future::join_all(episodes).await {
        assert_eq!(episode.unwrap().unwrap().failed, 1);
    }
}

#[tokio::test]
async fn a_server_that_hangs_costs_a_transient_fault_and_no_reward() {
    let served = Served::hanging(json!({"action": {"title": "MoveAction", "type": "object", "properties": {}}})).await;
    let there = remote(&served.url, &json!({"deadline_s": 0.2, "open_deadline_s": 5.0}));
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    assert_eq!(episode.tools[0].name, "move");
    let call = || Action::Calls(vec![ToolCall::new("move", Map::new())]);
    let fault = episode.env.step(call()).await.unwrap_err();
    assert!(fault.transient && fault.boundary == Boundary::Environment && fault.what.contains("0.2 s"), "{fault}");
    assert_eq!(fault.kind, FaultKind::ServerLate);
    // A late answer would be mistaken for the next one's: the socket is dropped.
    let fault = episode.env.step(call()).await.unwrap_err();
    assert!(fault.what.contains("the connection is gone"), "{fault}");
    let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
    assert_eq!(case.env_reward.unwrap().value, None);
}

#[tokio::test]
async fn plain_http_plays_environments_without_state() {
    let served = Served::start(host("shop", Options::default())).await;
    let there = remote(&served.url, &json!({"transport": "http"}));
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    assert!(episode.tools.len() > 1);
    let turn = episode.env.step(Action::Calls(vec![ToolCall::new("nothing", Map::new())])).await.unwrap();
    assert_eq!(turn.failed, 1);
}

#[tokio::test]
async fn tasks_come_from_the_task_api() {
    let served = Served::start(host("shop", Options::default())).await;
    let url = served.url.clone();
    let there = tokio::task::spawn_blocking(move || {
        remote(&url, &json!({"split": "train", "held_out_split": "held-out", "tasks": 3}))
    });
    let there = there.await.unwrap();
    assert_eq!(there.splits["train"].len(), 3);
    let task = &there.splits["held-out"][0];
    assert!(task.extra["reset"]["id"].as_str().unwrap().contains("held-out"), "{task:?}");
    assert!(there.arena.open(task, 0).await.is_ok());
}

#[tokio::test]
async fn mcp_messages_call_tools_without_rewards() {
    let served = Served::start(host("shop", Options::default())).await;
    let there = remote(&served.url, &json!({"tools": "mcp"}));
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    let turn = episode.env.step(Action::Calls(vec![ToolCall::new("nothing", Map::new())])).await.unwrap();
    assert!(turn.failed == 1 && turn.messages[0].content().unwrap().text().contains("Unknown tool"));
}

#[test]
fn a_credential_is_named_and_never_shown() {
    let error = EnvSpec::read(
        json!({"kind": "openenv", "url": "http://localhost:1", "bearer_env": "HONE_TEST_NO_SUCH_VARIABLE"})
            .as_object()
            .unwrap()
            .clone(),
    )
    .unwrap()
    .open()
    .unwrap_err()
    .to_string();
    assert!(error.contains("HONE_TEST_NO_SUCH_VARIABLE") && error.contains("set it"), "{error}");
    for (table, words) in [
        (json!({"kind": "openenv"}), "`url` is missing"),
        (json!({"kind": "openenv", "url": "localhost"}), "http://localhost:8000"),
        (json!({"kind": "openenv", "url": "http://h", "sessions": 0}), "between 1 and 4096"),
        (json!({"kind": "openenv", "name": "shop", "url": "http://h"}), "built-in"),
        (json!({"kind": "opnenv", "url": "http://h"}), "did you mean \"openenv\""),
        (json!({"kind": "openenv", "adress": "http://h"}), "`adress`"),
    ] {
        let opened = EnvSpec::read(table.as_object().unwrap().clone()).and_then(|spec| spec.open());
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(words), "{table}: {error}");
    }
}
