//! Hostile messages on every route of the server: the documented error, no panic, no leaked session; and tokens.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::Duration;

use common::{Served, host};
use hone_remote::http::{Credentials, Http};
use hone_remote::openenv::socket::Socket;
use hone_remote::openenv::wire::Said;
use hone_remote::serve::Options;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("reset"),
            Just("step"),
            Just("state"),
            Just("mcp"),
            Just("call_tool"),
            Just("list_tools"),
            Just("2.0"),
            Just("tools/call")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let key = prop_oneof![
            Just("type".to_owned()),
            Just("data".to_owned()),
            Just("action".to_owned()),
            Just("tool_name".to_owned()),
            Just("arguments".to_owned()),
            Just("metadata".to_owned()),
            Just("seed".to_owned()),
            Just("split".to_owned()),
            Just("method".to_owned()),
            Just("params".to_owned()),
            Just("jsonrpc".to_owned()),
            Just("id".to_owned()),
            Just("name".to_owned()),
            Just("session_id".to_owned()),
            "\\PC{0,8}".prop_map(|text| text),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Messages that have the outer form right half of the time.
fn message() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![Just("reset"), Just("step"), Just("state"), Just("mcp")];
    prop_oneof![any_json(), (kind, any_json()).prop_map(|(kind, data)| json!({"type": kind, "data": data}))]
}

const CODES: [&str; 6] =
    ["UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR", "SESSION_ERROR", "INVALID_JSON", "FORBIDDEN"];

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() })
}

#[test]
fn any_message_gets_a_documented_answer_and_leaves_no_session() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(Served::start(host("shop", Options { sessions: 1, ..Options::default() })));
    let http = Http::new(&served.url, &Credentials::default()).unwrap();
    runner()
        .run(&prop::collection::vec(message(), 1..5), |messages| {
            runtime.block_on(async {
                let mut socket = Some(common::connected(&http).await);
                for message in &messages {
                    let Some(open) = socket.take() else { break };
                    let (open, said) = open.ask(message).await.unwrap();
                    if let Said::Error { code, .. } = &said {
                        assert!(CODES.contains(&code.as_str()), "{code}: {message}");
                        if code == "SESSION_ERROR" {
                            break;
                        }
                    }
                    socket = Some(open);
                }
                // One session in all: the next connection only gets in where this one has left nothing.
                if let Some(socket) = socket {
                    socket.close().await;
                }
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_body_gets_a_documented_status() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(Served::start(host("shop", Options::default())));
    let http = Http::new(&served.url, &Credentials::default()).unwrap();
    let paths = ["reset", "step", "mcp", "shop/tasks", "shop/task", "shop/task_range", "other/tasks", "nothing"];
    runner()
        .run(&(0..paths.len(), any_json()), |(at, body)| {
            let reply = runtime.block_on(http.send(Method::POST, paths[at], Some(&body), &[])).unwrap();
            let status = reply.status.as_u16();
            assert!([200, 400, 404, 405, 422, 500].contains(&status), "{status} for {body}");
            if paths[at] == "mcp" {
                let answer: Value = serde_json::from_slice(&reply.body).unwrap();
                assert_eq!((status, &answer["jsonrpc"]), (200, &json!("2.0")));
            }
            if status == 500 {
                assert_eq!(reply.body, b"Internal Server Error");
            }
            Ok(())
        })
        .unwrap();
}

/// Every route of the server, and one that does not exist.
const ROUTES: [&str; 18] = [
    "health",
    "metadata",
    "schema",
    "openapi.json",
    "docs",
    "redoc",
    "ws",
    "mcp",
    "reset",
    "step",
    "state",
    "list_environments",
    "shop/splits",
    "shop/tasks",
    "shop/num_tasks",
    "shop/task",
    "shop/task_range",
    "no/such/thing",
];

#[test]
fn any_bytes_by_any_method_on_any_route_get_a_documented_status() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(Served::start(host("shop", Options::default())));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let method = prop_oneof![
        Just(Method::GET),
        Just(Method::POST),
        Just(Method::PUT),
        Just(Method::DELETE),
        Just(Method::PATCH),
        Just(Method::OPTIONS)
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        any_json().prop_map(|value| value.to_string().into_bytes()),
        // Truncated, and nested extremely deep.
        any_json().prop_map(|value| value
            .to_string()
            .into_bytes()
            .split_last()
            .map_or(Vec::new(), |(_, most)| most.to_vec())),
        (1usize..5000).prop_map(|depth| "[".repeat(depth).into_bytes()),
    ];
    let query = prop_oneof![Just(String::new()), "(session_id|task|seed|split)=[a-z0-9%&=-]{0,24}"];
    runner()
        .run(&(0..ROUTES.len(), method, query, body, any::<bool>()), |(at, method, query, body, typed)| {
            runtime.block_on(async {
                let mut request = client.request(method.clone(), format!("{}/{}?{query}", served.url, ROUTES[at]));
                if typed {
                    request = request.header("content-type", "application/json");
                }
                let status = request.body(body).send().await.unwrap().status().as_u16();
                let documented = [200, 202, 204, 400, 404, 405, 415, 422, 426, 500];
                assert!(documented.contains(&status), "{status} for {method} {}", ROUTES[at]);
                let health = client.get(format!("{}/health", served.url)).send().await.unwrap();
                assert_eq!(health.status(), 200);
            });
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_bytes_on_a_socket_leave_no_session() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(Served::start(host("shop", Options { sessions: 1, ..Options::default() })));
    let http = Http::new(&served.url, &Credentials::default()).unwrap();
    let frames = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..4);
    runner()
        .run(&(any::<bool>(), frames), |(mcp, frames)| {
            runtime.block_on(async {
                let path = if mcp { "mcp" } else { "ws" };
                let (mut stream, _) = http.upgrade(path, "dGhlIHNhbXBsZSBub25jZQ==").await.unwrap();
                for frame in &frames {
                    // The server may have hung up on unreadable input.
                    let _ = stream.write_all(frame).await;
                }
                drop(stream);
                // One session in all: the next connection only gets in where this one has left nothing.
                let fresh = tokio::time::timeout(Duration::from_secs(10), common::connected(&http)).await;
                fresh.expect("the session of a broken socket is given back").close().await;
            });
            Ok(())
        })
        .unwrap();
}

/// Tokens of the tests, in variables that cargo sets.
const OPERATOR: &str = "CARGO_PKG_NAME";
const AGENT: &str = "CARGO_PKG_VERSION";

fn client(url: &str, variable: Option<&str>) -> Http {
    Http::new(url, &Credentials { bearer_env: variable, headers: None }).unwrap()
}

#[tokio::test]
async fn tokens_keep_strangers_out_and_agents_from_the_verifier() {
    let token = |name| Some(std::env::var(name).unwrap());
    let options = Options { token: token(OPERATOR), agent_token: token(AGENT), ..Options::default() };
    let served = Served::start(host("shop", options)).await;
    let (nobody, agent, operator) =
        (client(&served.url, None), client(&served.url, Some(AGENT)), client(&served.url, Some(OPERATOR)));
    assert_eq!(nobody.send(Method::GET, "health", None, &[]).await.unwrap().status, 200);
    for path in ["metadata", "schema", "openapi.json", "state", "list_environments", "shop/splits"] {
        assert_eq!(nobody.send(Method::GET, path, None, &[]).await.unwrap().status, 401, "{path}");
    }
    assert!(Socket::connect(&nobody, "ws").await.unwrap_err().what.contains("401"));
    for (method, path) in
        [(Method::POST, "reset"), (Method::POST, "step"), (Method::GET, "state"), (Method::POST, "shop/tasks")]
    {
        assert_eq!(agent.send(method, path, Some(&json!({})), &[]).await.unwrap().status, 403, "{path}");
    }
    // The operator opens a session and resets it; the agent acts in it.
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let created = operator.json(Method::POST, "mcp", Some(&rpc("openenv/session/create", json!({})))).await.unwrap();
    let session = created["result"]["session_id"].as_str().unwrap().to_owned();
    let path = format!("ws?session_id={session}");
    let (socket, _) = Socket::connect(&operator, &path).await.unwrap().ask(&json!({"type": "reset"})).await.unwrap();
    socket.close().await;
    let refused = agent.json(Method::POST, "mcp", Some(&rpc("openenv/session/create", json!({})))).await.unwrap();
    assert_eq!(refused["error"]["code"], -32001);
    let listed =
        agent.json(Method::POST, "mcp", Some(&rpc("tools/list", json!({"session_id": session})))).await.unwrap();
    assert!(listed["result"]["tools"].as_array().unwrap().len() > 1);
    let mut socket = common::attached(&agent, &path).await;
    for kind in ["reset", "state"] {
        let (kept, said) = socket.ask(&json!({"type": kind})).await.unwrap();
        assert!(matches!(said, Said::Error { ref code, .. } if code == "FORBIDDEN"), "{said:?}");
        socket = kept;
    }
    let done = json!({"type": "step", "data": {"tool_name": "respond", "arguments": {"content": "done"}}});
    let (_, said) = socket.ask(&done).await.unwrap();
    let Said::Observation(envelope) = said else { panic!("{said:?}") };
    assert!(envelope.done && envelope.reward.is_none(), "an agent sees no reward");
    assert_eq!(envelope.metadata["hone"].get("components"), None);
}

#[tokio::test]
async fn the_end_of_an_episode_says_how_and_is_the_end_on_request() {
    let options = Options { strict_end: true, max_steps: 2, ..Options::default() };
    let served = Served::start(host("shop", options)).await;
    let http = client(&served.url, None);
    let socket = Socket::connect(&http, "ws").await.unwrap();
    let (mut socket, _) = socket.ask(&json!({"type": "reset", "data": {"seed": 3}})).await.unwrap();
    let step = json!({"type": "step", "data": {"tool_name": "nothing"}});
    for last in [false, true] {
        let (kept, said) = socket.ask(&step).await.unwrap();
        let Said::Observation(envelope) = said else { panic!("{said:?}") };
        assert_eq!(envelope.done, last);
        if last {
            let own = &envelope.metadata["hone"];
            assert_eq!((&own["truncated"], &own["terminated"]), (&json!(true), &json!(false)));
            assert!(own["components"][0]["why"].is_string(), "{own}");
            assert_eq!(envelope.reward, Some(0.0));
        }
        socket = kept;
    }
    let (_, said) = socket.ask(&step).await.unwrap();
    assert!(matches!(said, Said::Error { ref code, .. } if code == "EXECUTION_ERROR"), "{said:?}");
}
