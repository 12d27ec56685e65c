//! Servers for tests, on ports of the system's choice.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::routing::get;
use hone_arena::registry::Environment;
use hone_arena::solution::{Move, solution};
use hone_remote::http::Http;
use hone_remote::openenv::socket::Socket;
use hone_remote::openenv::wire::Said;
use hone_remote::serve::{Host, Options};
use hone_trace::{Action, Episode, Task, Turn};
use hone_worlds::registry::EnvSpec;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// A server that ends with the test.
pub(crate) struct Served {
    pub url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The `[env]` table of the example under a heading of docs/remote-environments.md, with some keys replaced by the
/// test's own.
pub(crate) fn documented(heading: &str, own: &Value) -> Map<String, Value> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remote-environments.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let recipe: toml::Table = example.parse().unwrap();
    assert!(recipe["rubric"]["component"].is_array(), "{example}");
    let mut table = serde_json::to_value(&recipe["env"]).unwrap().as_object().unwrap().clone();
    for (key, value) in own.as_object().unwrap() {
        assert!(
            key == "held_out" || key == "key_env" || key == "url" || table.contains_key(key),
            "the example has no {key}"
        );
        table.insert(key.clone(), value.clone());
    }
    table
}

/// A built-in environment with a few tasks.
pub(crate) fn small(name: &str) -> Environment {
    let table = json!({"name": name, "tasks": 6, "held_out": 4});
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

pub(crate) fn host(name: &str, options: Options) -> Host {
    Host::new(small(name), "an environment of the tests", options)
}

impl Served {
    pub(crate) async fn start(host: Host) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { hone_remote::serve::serve(listener, Arc::new(host)).await.unwrap() });
        Self { url, task }
    }

    pub(crate) async fn of(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, task }
    }

    /// Answers a reset and nothing else.
    pub(crate) async fn hanging(schema: Value) -> Self {
        let schema = schema.to_string();
        let ws = get(async |upgrade: WebSocketUpgrade| {
            upgrade.on_upgrade(async |mut socket| {
                let observation = json!({"observation": {}, "reward": 0.0, "done": false});
                while let Some(Ok(message)) = socket.recv().await {
                    if message.to_text().is_ok_and(|text| text.contains("reset")) {
                        let answer = json!({"type": "observation", "data": observation});
                        let _ = socket.send(Message::text(answer.to_string())).await;
                    }
                }
            })
        });
        Self::of(Router::new().route("/schema", get(async move || schema)).route("/ws", ws)).await
    }
}

/// Plays a task's solution; the last turn.
pub(crate) async fn solve(episode: &mut Episode, task: &Task) -> Turn {
    let mut last = Turn::default();
    for step in solution(task).unwrap() {
        let action = match step {
            Move::Call(call) => Action::Calls(vec![call]),
            Move::Say(text) => Action::Reply(text),
        };
        last = episode.env.step(action).await.unwrap();
        assert_eq!(last.failed, 0, "{}: {:?}", task.key, last.messages);
        if last.done {
            break;
        }
    }
    last
}

/// A connection with a session, however long the server takes to notice that the previous one is gone.
pub(crate) async fn connected(http: &Http) -> Socket {
    attached(http, "ws").await
}

/// A connection to a session that another has just left.
pub(crate) async fn attached(http: &Http, path: &str) -> Socket {
    loop {
        let socket = Socket::connect(http, path).await.unwrap();
        if let Ok((socket, said)) = socket.ask(&json!({"type": "nothing"})).await
            && matches!(said, Said::Error { ref code, .. } if code == "UNKNOWN_TYPE")
        {
            return socket;
        }
        tokio::task::yield_now().await;
    }
}
