//! MCP servers as environments: our own over HTTP, a few lines of Python over stdio.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use common::{Served, documented, host};
use hone_arena::registry::Environment;
use hone_arena::rewards::Case;
use hone_remote::serve::Options;
use hone_trace::{Action, Boundary, FaultKind, ToolCall};
use hone_worlds::registry::EnvSpec;
use serde_json::{Value, json};

fn open(table: &Value) -> Environment {
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

fn call(name: &str, arguments: Value) -> Action {
    Action::Calls(vec![ToolCall::new(name, arguments.as_object().unwrap().clone())])
}

#[tokio::test]
async fn our_server_is_an_mcp_server() {
    let served = Served::start(host("shop", Options { sessions: 2, ..Options::default() })).await;
    let url = format!("{}/mcp?seed=3", served.url);
    let there = open(&json!({"kind": "mcp", "url": url, "verify": "rubric", "tasks": 1, "held_out": 1, "sessions": 1}));
    // More episodes than the server has room for: each ends its session.
    for _ in 0..4 {
        let mut episode = there.arena.open(&there.splits["train"][0], 0).await.unwrap();
        assert!(!episode.system.is_empty(), "the instructions of the server");
        assert!(episode.tools.get("respond").is_some() && episode.tools.len() > 2);
        let turn = episode.env.step(call("no_such_tool", json!({}))).await.unwrap();
        assert!(turn.failed == 1 && turn.messages[0].content().unwrap().text().contains("Unknown tool"));
        let turn = episode.env.step(call("respond", json!({"content": "done"}))).await.unwrap();
        assert_eq!(turn.failed, 0);
    }
}

/// A session that is deleted is gone at our server; one that ignores the deletion is told by what it still answers.
#[tokio::test]
async fn a_session_that_outlives_its_end() {
    let served = Served::start(host("shop", Options { sessions: 2, ..Options::default() })).await;
    let ours = format!("{}/mcp?seed=3", served.url);
    let answer = |body: Value, session: bool| {
        let reply = Response::builder().header("content-type", "application/json");
        let reply = if session { reply.header("mcp-session-id", "s1") } else { reply };
        reply.body(Body::from(body.to_string())).unwrap()
    };
    let handle = move |headers: HeaderMap, body: String| async move {
        let ask: Value = serde_json::from_str(&body).unwrap_or_default();
        let result =
            |result: Value, session| answer(json!({"jsonrpc": "2.0", "id": ask["id"], "result": result}), session);
        match ask["method"].as_str() {
            Some("initialize") => result(json!({"protocolVersion": "2025-06-18", "capabilities": {}}), true),
            _ if headers.get("mcp-session-id").is_none_or(|id| id != "s1") => {
                Response::builder().status(404).body(Body::empty()).unwrap()
            }
            Some("tools/list") => {
                result(json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}), false)
            }
            _ => answer(json!({}), false),
        }
    };
    let ended = || async { StatusCode::OK };
    let keeps = Served::of(Router::new().route("/mcp", post(handle).delete(ended))).await;
    for (url, outlives) in [(ours, false), (format!("{}/mcp", keeps.url), true)] {
        let there = open(&json!({"kind": "mcp", "url": url, "verify": "rubric", "tasks": 1, "held_out": 1}));
        let mut episode = there.arena.open(&there.splits["train"][0], 0).await.unwrap();
        assert_eq!(episode.env.outlives_close(call("look", json!({}))).await, Some(outlives), "{url}");
    }
}

/// A counter: MCP over stdio, with a notification, a request from the server and a stray line in between.
const COUNTER: &str = r#"
import json, sys
count = 0
def send(message): print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)
schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
for line in sys.stdin:
    ask = json.loads(line)
    method, id = ask.get("method"), ask.get("id")
    if method == "initialize":
        print("a stray line", flush=True)
        send({"method": "notifications/message", "params": {}})
        send({"id": "theirs", "method": "ping"})
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "instructions": "Count."}})
    elif method == "tools/list":
        page = ask["params"].get("cursor")
        names = ["total", "hang", "die"] if page else ["add"]
        send({"id": id, "result": {"tools": [{"name": name, "inputSchema": schema} for name in names],
              **({} if page else {"nextCursor": "2"})}})
    elif method == "tools/call":
        name, n = ask["params"]["name"], ask["params"]["arguments"].get("n")
        if name == "die": sys.exit(1)
        if name == "hang": continue
        if name == "add" and not isinstance(n, int):
            send({"id": id, "result": {"content": [{"type": "text", "text": "n is a number"}], "isError": True}})
            continue
        count += n or 0
        send({"id": id, "result": {"content": [{"type": "text", "text": str(count)}], "structuredContent": {"count": count}}})
"#;

fn counter(directory: &tempfile::TempDir) -> Environment {
    let (program, tasks) = (directory.path().join("counter.py"), directory.path().join("tasks.jsonl"));
    std::fs::write(&program, COUNTER).unwrap();
    let line = |at| json!({"key": format!("t{at}"), "prompt": "Make it 5.", "expected": {"count": 5}}).to_string();
    std::fs::write(&tasks, [line(0), line(1)].join("\n")).unwrap();
    open(&json!({
        "kind": "mcp", "name": "counter", "command": ["python3", program], "task_file": tasks, "held_out": 1,
        "verify": "state", "state_tool": "total", "system": "Be exact.", "deadline_s": 2.0,
    }))
}

#[tokio::test]
async fn a_program_is_judged_by_its_state_however_the_episode_ended() {
    let directory = tempfile::tempdir().unwrap();
    let environment = counter(&directory);
    for (numbers, replies, correct) in [(&[2, 3][..], true, true), (&[2], true, false), (&[5], false, true)] {
        let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
        assert_eq!(episode.system, "Be exact.\n\nCount.");
        let names: Vec<&str> = episode.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["add", "hang", "die"], "both pages, without the tool that judges");
        for n in numbers {
            episode.env.step(call("add", json!({"n": n}))).await.unwrap();
        }
        let turn = episode.env.step(call("add", json!({"n": "x"}))).await.unwrap();
        assert_eq!((turn.failed, turn.messages[0].content().unwrap().text().as_str()), (1, "Error: n is a number"));
        if replies {
            assert!(episode.env.step(Action::Reply("done".into())).await.unwrap().done);
        }
        episode.env.finish().await.unwrap();
        let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
        assert_eq!(case.correct, Some(correct));
        assert_eq!(environment.rubric.score_case(&case).await.total.value(), Some(f64::from(correct)));
    }
}

#[tokio::test]
async fn a_program_that_hangs_or_dies_is_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let environment = counter(&directory);
    for (tool, words, kind) in
        [("hang", "no answer within 2.0 s", FaultKind::ServerLate), ("die", "the program ended", FaultKind::Ended)]
    {
        let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
        let fault = episode.env.step(call(tool, json!({}))).await.unwrap_err();
        assert!(fault.transient && fault.what.contains(words) && fault.kind == kind, "{fault}");
        let fault = episode.env.finish().await.unwrap_err();
        assert!(
            fault.boundary == Boundary::Verifier && fault.what.contains("gone"),
            "no verdict, and no zero: {fault}"
        );
    }
}

/// A graph with the tools that the documented example names.
const GRAPH: &str = r#"
import json, sys
graph = {"entities": [], "relations": []}
for line in sys.stdin:
    ask = json.loads(line)
    method, result = ask.get("method"), {"protocolVersion": "2025-06-18", "capabilities": {}}
    if "id" not in ask: continue
    if method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("create_relations", "delete_entities", "read_graph")]}
    elif method == "tools/call":
        graph["relations"] += ask["params"]["arguments"].get("relations", [])
        result = {"content": [{"type": "text", "text": json.dumps(graph)}], "structuredContent": graph}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn the_documented_example_is_played() {
    let directory = tempfile::tempdir().unwrap();
    let (program, tasks) = (directory.path().join("graph.py"), directory.path().join("notes.jsonl"));
    std::fs::write(&program, GRAPH).unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remote-environments.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.split("A line of `notes.jsonl`: `").nth(1).unwrap().split("`.\n").next().unwrap();
    std::fs::write(&tasks, format!("{line}\n{}\n", line.replace("\"n1\"", "\"n2\""))).unwrap();
    let own = json!({"command": ["python3", program], "task_file": tasks, "held_out": 1});
    let environment = EnvSpec::read(documented("MCP", &own)).unwrap().open().unwrap();
    for (from, correct) in [("Ada", true), ("Eve", false)] {
        let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
        assert_eq!(episode.system, "You keep a knowledge graph.");
        let names: Vec<&str> = episode.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["create_relations"], "what is hidden and what judges is not offered");
        let relation = json!({"relations": [{"from": from, "to": "Bob", "relationType": "knows"}]});
        episode.env.step(call("create_relations", relation)).await.unwrap();
        assert!(episode.env.step(Action::Reply("noted".into())).await.unwrap().done);
        episode.env.finish().await.unwrap();
        let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
        assert_eq!(case.correct, Some(correct));
    }
}

#[test]
fn what_is_right_must_be_known() {
    for (table, words) in [
        (json!({"kind": "mcp"}), "`url` or `command`"),
        (json!({"kind": "mcp", "url": "http://h", "command": ["x"]}), "one of the two"),
        (json!({"kind": "mcp", "url": "http://h"}), "`task_file`"),
        (json!({"kind": "mcp", "url": "http://h", "verify": "state"}), "`state_tool`"),
        (json!({"kind": "mcp", "url": "http://h", "verify": "guess"}), "`answer`"),
    ] {
        let opened = EnvSpec::read(table.as_object().unwrap().clone()).and_then(|spec| spec.open());
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(words), "{table}: {error}");
    }
}

/// The end of a program's stderr is part of its failure.
#[tokio::test]
async fn a_program_that_does_not_start_is_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let (program, tasks) = (directory.path().join("server.py"), directory.path().join("tasks.jsonl"));
    std::fs::write(&program, "import sys\nprint('x' * 9000, file=sys.stderr)\nsys.exit('set NOTES_FILE first')\n")
        .unwrap();
    std::fs::write(&tasks, "{\"key\": \"a\", \"prompt\": \"p\"}\n{\"key\": \"b\", \"prompt\": \"p\"}\n").unwrap();
    let table = json!({"kind": "mcp", "command": ["python3", program], "task_file": tasks, "held_out": 1});
    let environment = open(&table);
    let fault = environment.arena.open(&environment.splits["train"][0], 0).await.err().unwrap();
    assert!(fault.what.contains("exit status: 1") && fault.what.contains("set NOTES_FILE first"), "{fault}");
    assert!(fault.what.len() < 1000, "{fault}");
}

/// An MCP server whose tool is answered by `answer`, given the request's id.
async fn answering(answer: fn(u64) -> (u16, Value)) -> Served {
    let handler = async move |body: String| {
        let ask: Value = serde_json::from_str(&body).unwrap();
        let Some(id) = ask["id"].as_u64() else { return (axum::http::StatusCode::ACCEPTED, String::new()) };
        let result = match ask["method"].as_str() {
            Some("tools/list") => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => {
                let (status, body) = answer(id);
                let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                return (axum::http::StatusCode::from_u16(status).unwrap(), text);
            }
            _ => json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
        };
        (axum::http::StatusCode::OK, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    };
    Served::of(axum::Router::new().route("/mcp", axum::routing::post(handler))).await
}

#[tokio::test]
async fn only_what_the_tool_itself_says_reaches_the_agent() {
    // The tool's answer, and what the agent reads; `None` if the server is at fault.
    type Case = (fn(u64) -> (u16, Value), Option<&'static str>);
    let cases: [Case; 8] = [
        (
            |id| {
                (200, json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "a plant"}]}}))
            },
            Some("a plant"),
        ),
        (
            |id| (200, json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no such plant"}})),
            Some("Error: no such plant (-32000)"),
        ),
        (
            |id| (400, json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "which?"}})),
            Some("Error: which? (-32602)"),
        ),
        (
            |id| {
                (
                    200,
                    json!({"jsonrpc": "2.0", "id": id + 7, "result": {"content": [{"type": "text", "text": "another's"}]}}),
                )
            },
            None,
        ),
        (|_| (200, json!([])), None),
        (|_| (200, json!("<html>")), None),
        (|_| (401, json!("no")), None),
        (|id| (200, json!({"jsonrpc": "2.0", "id": id})), None),
    ];
    for (at, (answer, read)) in cases.into_iter().enumerate() {
        let served = answering(answer).await;
        let url = format!("{}/mcp", served.url);
        let there =
            open(&json!({"kind": "mcp", "url": url, "verify": "rubric", "tasks": 1, "held_out": 1, "deadline_s": 5.0}));
        let mut episode = there.arena.open(&there.splits[0][0], 0).await.unwrap();
        match (episode.env.step(call("look", json!({}))).await, read) {
            (Ok(turn), Some(wanted)) => assert_eq!(turn.messages[0].content().unwrap().text(), wanted, "case {at}"),
            (Err(fault), None) => assert!(fault.boundary == Boundary::Environment, "case {at}: {fault}"),
            (found, wanted) => panic!("case {at}: {found:?}, not {wanted:?}"),
        }
    }
}
