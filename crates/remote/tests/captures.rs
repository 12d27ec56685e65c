//! Recorded bytes of real OpenEnv servers, 0.3.0 and 0.10.0: read with their meaning preserved.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::PathBuf;

use common::Served;
use hone_remote::openenv::actions::{self, Actions};
use hone_remote::openenv::wire::{Envelope, Said, tool_result};
use hone_trace::{Action, ToolCall};
use hone_worlds::registry::EnvSpec;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn capture(path: &str) -> String {
    let file: PathBuf = hone_testdata::third_party("data/openenv").join(path);
    String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned()
}

/// The body of a recorded answer.
fn body(path: &str) -> String {
    let text = capture(path);
    let (_, answer) = text.split_once("<<< RESPONSE BYTES").unwrap();
    let (_, body) = answer.replace("\r\n", "\n").split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    body.trim().to_owned()
}

/// The text frames of a recorded session: whether the client sent it, and its text.
fn frames(path: &str) -> Vec<(bool, String)> {
    let text = capture(path);
    let mut lines = text.lines();
    let mut frames = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with(">>> CLIENT FRAME op=1") || line.starts_with("<<< SERVER FRAME op=1 ") {
            frames.push((line.starts_with('>'), lines.next().unwrap_or_default().to_owned()));
        }
    }
    frames
}

#[test]
#[ignore = "needs recordings of OpenEnv servers (see CONTRIBUTING.md)"]
fn every_recorded_message_is_read() {
    let mut read = 0;
    for version in ["v0.3.0_echo", "v0.10.0_echo", "v0.10.0_typed", "v0.10.0_production"] {
        for file in ["37_ws_main.txt", "38_ws_array_message.txt", "39_ws_binary_frame.txt", "40_ws_cap_1.txt"] {
            for (_, text) in frames(&format!("{version}/{file}")).iter().filter(|(sent, _)| !sent) {
                Said::read(text).unwrap_or_else(|why| panic!("{version}/{file}: {why}: {text}"));
                read += 1;
            }
        }
    }
    assert!(read > 60, "{read}");
    let full = frames("v0.10.0_echo/42_ws_cap_3_refused.txt");
    let Said::Error { code, details, .. } = Said::read(&full[0].1).unwrap() else { panic!("no error") };
    assert_eq!((code.as_str(), &details["max_sessions"]), ("CAPACITY_REACHED", &json!(2)));
}

#[test]
#[ignore = "needs recordings of OpenEnv servers (see CONTRIBUTING.md)"]
fn tools_are_the_same_in_both_spellings() {
    let mut lists = Vec::new();
    for version in ["v0.3.0_echo", "v0.10.0_echo"] {
        let listed: Value = serde_json::from_str(&body(&format!("{version}/20_mcp_tools_list.txt"))).unwrap();
        lists.push(actions::tools(&listed["result"]["tools"]).unwrap());
        let stepped: Value = serde_json::from_str(&body(&format!("{version}/09_post_step_A.txt"))).unwrap();
        lists.push(actions::tools(&Envelope::read(stepped).unwrap().observation["tools"]).unwrap());
        let called: Value = serde_json::from_str(&body(&format!("{version}/21_mcp_tools_call.txt"))).unwrap();
        assert_eq!(tool_result(&called["result"]), ("hi".to_owned(), false));
        let schema: Value = serde_json::from_str(&body(&format!("{version}/03_get_schema.txt"))).unwrap();
        assert_eq!(Actions::read(&schema["action"]).unwrap(), Actions::Mcp);
    }
    for list in &lists {
        let names: Vec<&str> = list.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["echo_message", "echo_with_length"]);
        assert_eq!(list[0].parameter_names().collect::<Vec<_>>(), ["message"]);
    }
    let typed: Value = serde_json::from_str(&body("v0.10.0_typed/03_get_schema.txt")).unwrap();
    let Actions::Typed(types) = Actions::read(&typed["action"]).unwrap() else { panic!("not typed") };
    assert_eq!(types[0].tool.name, "triage");
    assert_eq!(types[0].tool.parameter_names().collect::<Vec<_>>(), ["message"], "metadata is not the agent's");
}

/// Answers as the recorded server did, with its frame headers: each message of the client by the recorded reply to it.
async fn replay(mut stream: TcpStream, schema: String, session: Vec<(bool, String)>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    if head.starts_with("GET /schema") {
        let answer =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{schema}", schema.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    let key = head
        .lines()
        .find_map(|line| line.to_lowercase().starts_with("sec-websocket-key").then(|| line.split_once(": ").unwrap().1))
        .unwrap();
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.trim().as_bytes());
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(switch.as_bytes()).await.unwrap();
    while let Some(message) = read_frame(&mut stream).await {
        let asked: Value = serde_json::from_str(&message).unwrap();
        let is_asked = |recorded: &str| match serde_json::from_str::<Value>(recorded) {
            Ok(recorded) if asked["type"] == "reset" => recorded["type"] == "reset",
            Ok(recorded) => recorded == asked,
            Err(_) => false,
        };
        let Some(at) = session.iter().position(|(sent, text)| *sent && is_asked(text)) else { return };
        let reply = session[at + 1..].iter().find(|(sent, _)| !sent).unwrap().1.as_bytes();
        let mut frame = vec![0x81];
        match reply.len() {
            short @ 0..126 => frame.push(short as u8),
            long => frame.extend([126, (long >> 8) as u8, long as u8]),
        }
        frame.extend(reply);
        stream.write_all(&frame).await.unwrap();
    }
}

/// A masked text frame; `None` if the client disconnects.
async fn read_frame(stream: &mut TcpStream) -> Option<String> {
    let opcode = stream.read_u8().await.ok()? & 0xf;
    let length = match stream.read_u8().await.ok()? & 0x7f {
        126 => stream.read_u16().await.ok()? as usize,
        127 => stream.read_u64().await.ok()? as usize,
        short => short as usize,
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await.ok()?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.ok()?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    (opcode == 1).then(|| String::from_utf8(payload).unwrap())
}

async fn replayed(schema: &str, session: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (schema, session) = (body(schema), frames(session));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(replay(stream, schema.clone(), session.clone()));
        }
    });
    url
}

fn environment(url: &str) -> hone_arena::registry::Environment {
    let table = json!({"kind": "openenv", "url": url, "tasks": 1, "held_out": 1});
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

fn say(message: &str) -> Action {
    Action::Calls(vec![ToolCall::new("triage", json!({"message": message}).as_object().unwrap().clone())])
}

#[tokio::test]
#[ignore = "needs recordings of OpenEnv servers (see CONTRIBUTING.md)"]
async fn a_typed_server_with_odd_rewards_is_played_as_recorded() {
    let url = replayed("v0.10.0_typed/03_get_schema.txt", "v0.10.0_edge/09_ws_edge.txt").await;
    let environment = environment(&url);
    let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
    assert_eq!(episode.tools[0].name, "triage");
    for message in ["nan", "inf", "bool", "int", "none"] {
        assert!(!episode.env.step(say(message)).await.unwrap().done);
    }
    let turn = episode.env.step(say("done")).await.unwrap();
    assert!(turn.done && turn.messages[0].content().unwrap().text().contains("echoed_message"));
    let facts = episode.env.end().facts;
    assert_eq!(facts["step_rewards"], json!([null, null, 1.0, 3.0, null, 0.4]), "null is not 0");
    assert_eq!(facts["env_reward"]["value"], json!(4.4));
    // An exception in the environment is a fault that is reproduced on a fresh one, not an answer and not a zero.
    let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
    let fault = episode.env.step(say("boom")).await.unwrap_err();
    assert!(!fault.transient && fault.what.contains("boom happened"), "{fault}");
}

#[tokio::test]
#[ignore = "needs recordings of OpenEnv servers (see CONTRIBUTING.md)"]
async fn mcp_servers_of_both_versions_are_played_as_recorded() {
    for version in ["v0.3.0_echo", "v0.10.0_echo"] {
        let session = format!("{version}/37_ws_main.txt");
        let url = replayed(&format!("{version}/03_get_schema.txt"), &session).await;
        let environment = environment(&url);
        let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
        let names: Vec<&str> = episode.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["echo_message", "echo_with_length"]);
        let call =
            |name| Action::Calls(vec![ToolCall::new(name, json!({"message": "hi"}).as_object().unwrap().clone())]);
        let turn = episode.env.step(call("echo_message")).await.unwrap();
        assert_eq!(turn.messages[0].content().unwrap().text(), "hi", "{version}");
        let turn = episode.env.step(call("echo_with_length")).await.unwrap();
        assert_eq!(turn.messages[0].content().unwrap().text(), "{\"message\":\"hi\",\"length\":2}", "{version}");
        assert_eq!(episode.env.end().facts["env_reward"]["value"], Value::Null, "its rewards are null");
    }
}

#[tokio::test]
#[ignore = "needs recordings of OpenEnv servers (see CONTRIBUTING.md)"]
async fn our_server_answers_the_recorded_requests_as_the_recorded_server_did() {
    let served = Served::start(common::host("shop", hone_remote::serve::Options::default())).await;
    let http = hone_remote::http::Http::new(&served.url, &hone_remote::http::Credentials::default()).unwrap();
    // Answers that do not depend on the environment, byte for byte.
    for (file, path) in [
        ("08_post_reset_badseed.txt", "reset"),
        ("11_post_step_invalid_action.txt", "step"),
        ("12_post_step_missing_action.txt", "step"),
        ("25_mcp_tools_call_noname.txt", "mcp"),
        ("23_mcp_tools_call_unknown.txt", "mcp"),
        ("34_mcp_session_close_again.txt", "mcp"),
        ("35_mcp_session_close_noid.txt", "mcp"),
        ("36_mcp_unknown_session.txt", "mcp"),
    ] {
        let recorded = capture(&format!("v0.10.0_echo/{file}"));
        let (asked, _) = recorded.split_once("<<< RESPONSE BYTES").unwrap();
        let request: Value =
            serde_json::from_str(asked.lines().rev().find(|line| line.starts_with('{')).unwrap()).unwrap();
        let reply = http.send(reqwest::Method::POST, path, Some(&request), &[]).await.unwrap();
        assert_eq!(String::from_utf8(reply.body).unwrap(), body(&format!("v0.10.0_echo/{file}")), "{file}");
        assert!(recorded.contains(&format!("HTTP/1.1 {}", reply.status.as_u16())), "{file}: {}", reply.status);
    }
}
