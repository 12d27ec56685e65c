//! Peers that violate the protocol: clients that stall, servers that say too much or redirect.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use common::{Served, host};
use hone_remote::http::{Credentials, Http};
use hone_remote::openenv::socket::Socket;
use hone_remote::serve::Options;
use hone_trace::{Action, FaultKind, ToolCall};
use hone_worlds::EnvSpec;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn client(url: &str) -> Http {
    Http::new(url, &Credentials::default()).unwrap()
}

fn remote(url: &str) -> hone_arena::registry::Environment {
    let table = json!({"kind": "openenv", "url": url, "tasks": 4, "held_out": 1, "open_deadline_s": 20.0});
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

/// A typed server, with what answers at `/ws`.
async fn typed(ws: axum::routing::MethodRouter) -> Served {
    let schema = json!({"action": {"title": "MoveAction", "type": "object", "properties": {}}}).to_string();
    Served::of(Router::new().route("/schema", get(async move || schema)).route("/ws", ws)).await
}

/// A server that counts closed sessions as open has no room: its own count says so, and who gives up hears why.
#[tokio::test]
async fn sessions_that_a_server_does_not_end_are_counted() {
    let full = get(|upgrade: WebSocketUpgrade| async {
        upgrade.on_upgrade(|mut socket| async move {
            let data = json!({"code": "CAPACITY_REACHED", "message": "2/2", "active_sessions": 2, "max_sessions": 2});
            let _ = socket.send(Message::text(json!({"type": "error", "data": data}).to_string())).await;
        })
    });
    let served = typed(full).await;
    let there = remote(&served.url);
    assert!(there.arena.holds().await.is_empty() && there.arena.trouble().is_none());
    let opened = tokio::time::timeout(Duration::from_secs(1), there.arena.open(&there.splits["train"][0], 0)).await;
    assert!(opened.is_err(), "it waits for room");
    let held = there.arena.holds().await.remove(0);
    assert_eq!((held.kind, held.count, held.in_use, held.limit), ("sessions", 2, Some(0), Some(2)));
    assert!(there.arena.trouble().unwrap().contains("CAPACITY_REACHED"));
}

fn impatient() -> Options {
    Options { sessions: 1, patience: Duration::from_millis(300), ..Options::default() }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let served = Served::start(host("shop", impatient())).await;
    let mut stream = TcpStream::connect(served.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{").await.unwrap();
    let mut answer = vec![0; 1024];
    let length = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("did not come"), "{answer}");
}

/// Only one session: it is free again only if the client that reads nothing has lost it.
#[tokio::test]
async fn a_client_that_takes_no_answers_loses_its_session() {
    let served = Served::start(host("shop", impatient())).await;
    let http = client(&served.url);
    let (mut stuck, _) = http.upgrade("ws", "dGhlIHNhbXBsZSBub25jZQ==").await.unwrap();
    // A masked text frame, key 0: every answer is some kilobytes, and nobody reads them.
    let text = br#"{"type":"step","data":{"type":"list_tools"}}"#;
    let frame = [&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0], &text[..]].concat();
    let writer = tokio::spawn(async move {
        while stuck.write_all(&frame).await.is_ok() {}
        stuck
    });
    let fresh = tokio::time::timeout(Duration::from_mins(1), common::connected(&http)).await;
    fresh.expect("the session is given back").close().await;
    writer.abort();
}

#[tokio::test]
async fn a_reset_that_names_no_task_is_the_callers_mistake() {
    let served = Served::start(host("shop", Options::default())).await;
    let http = client(&served.url);
    for (path, body) in [
        ("reset", json!({"split": "trian"})),
        ("reset", json!({"task": "nowhere"})),
        ("reset", json!({"index": 999})),
        ("reset", json!({"index": -1})),
        ("reset", json!({"index": 0.5})),
        ("shop/task_range", json!({"split": "train", "start": -5})),
        ("shop/task_range", json!({"split": "train", "stop": "all"})),
    ] {
        let reply = http.send(Method::POST, path, Some(&body), &[]).await.unwrap();
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply.status, 422, "{path} {body}: {answer}");
        assert!(answer["detail"][0]["msg"].is_string(), "{answer}");
    }
    let good = http.send(Method::POST, "reset", Some(&json!({"split": "held-out", "index": 1})), &[]).await.unwrap();
    assert_eq!(good.status, 200);
}

/// Messages carry no id: the second of two answers would be mistaken for the next step's, with its reward.
#[tokio::test]
async fn an_answer_too_many_is_a_fault() {
    let served = typed(get(async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            let said = |reward: f64| {
                let data = json!({"observation": {}, "reward": reward, "done": false});
                Message::text(json!({"type": "observation", "data": data}).to_string())
            };
            while let Some(Ok(Message::Text(text))) = socket.recv().await {
                let _ = socket.send(said(0.0)).await;
                if text.contains("step") {
                    let _ = socket.send(said(9.0)).await;
                }
            }
        })
    }))
    .await;
    let there = remote(&served.url);
    let mut episode = there.arena.open(&there.splits[0][0], 1).await.unwrap();
    let call = || Action::Calls(vec![ToolCall::new("move", Map::new())]);
    episode.env.step(call()).await.unwrap();
    // Until the second answer has arrived.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let fault = episode.env.step(call()).await.unwrap_err();
    assert!(fault.what.contains("nothing had asked for") && !fault.transient, "{fault}");
    let facts = episode.env.end().facts;
    assert_eq!(facts["step_rewards"], json!([0.0]), "{facts:?}");
}

#[tokio::test]
async fn an_address_without_a_server_and_one_without_a_host_are_told_apart() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // A label of a host name has at most 63 characters, so this one is rejected without a DNS query.
    let unknown = format!("http://{}.example", "x".repeat(64));
    for (url, kind) in [(format!("http://{nobody}"), FaultKind::Unreachable), (unknown, FaultKind::UnknownHost)] {
        let json = client(&url).json(Method::GET, "schema", None).await.unwrap_err();
        let upgrade = client(&url).upgrade("ws", "dGhlIHNhbXBsZSBub25jZQ==").await.unwrap_err();
        assert_eq!((json.fault, upgrade.fault), (kind, kind), "{json}");
    }
}

#[tokio::test]
async fn a_redirect_is_refused_with_the_address_it_leads_to() {
    let served = typed(get(async || Redirect::temporary("http://elsewhere.example/ws"))).await;
    let failure = Socket::connect(&client(&served.url), "ws").await.unwrap_err();
    assert!(failure.what.contains("http://elsewhere.example/ws") && failure.what.contains("not followed"), "{failure}");
    let moved = Served::of(Router::new().route("/schema", get(async || Redirect::permanent("/v2/schema")))).await;
    let failure = client(&moved.url).json(Method::GET, "schema", None).await.unwrap_err();
    assert!(failure.what.contains("/v2/schema"), "{failure}");
}

/// The refusal never ends; reading all of it would wait for the deadline and fill the memory.
#[tokio::test]
async fn a_refusal_without_an_end_is_read_in_part() {
    let served = typed(get(async || -> Response {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 65_536]));
        (StatusCode::FORBIDDEN, Body::from_stream(chunks)).into_response()
    }))
    .await;
    let began = Instant::now();
    let failure = Socket::connect(&client(&served.url), "ws").await.unwrap_err();
    assert!(failure.what.contains("403") && failure.what.len() < 1000, "{failure}");
    assert!(began.elapsed() < Duration::from_secs(15));
}
