//! Fleet against a test server with faults: none of them gives a reward, and every instance is deleted.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use common::{Served, documented};
use hone_arena::registry::Environment;
use hone_arena::rewards::{Case, Measure, Rubric, Term};
use hone_remote::supervise::cleanup;
use hone_trace::{Action, Message, Outcome, ToolCall, Verdict};
use hone_worlds::registry::EnvSpec;
use serde_json::{Map, Value, json};

/// A variable that cargo sets for tests; its value is the key.
const KEY: &str = "CARGO_PKG_NAME";

/// An exit releases the resources of all tests in this process: one test at a time.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Injected faults, with counts.
#[derive(Default)]
struct Faults {
    /// Creations answered with 503.
    create_5xx: AtomicU32,
    /// Polls of a new instance before it runs.
    slow_start: AtomicU32,
    /// Tool calls answered with 502.
    dead_calls: AtomicU32,
    /// Runs of the verifier that do not succeed.
    verifier_down: AtomicU32,
    /// Runs that end with a judge's error.
    judge_errors: AtomicU32,
    /// Runs of the verifier, and tool calls, that are never answered.
    verifier_hangs: AtomicU32,
    hanging_calls: AtomicU32,
    /// Deletions of an instance that are answered and not made.
    kept: AtomicU32,
}

fn takes(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// The platform: instances by id, with their run.
#[derive(Default)]
struct Fleet {
    root: Mutex<String>,
    instances: Mutex<HashMap<String, Value>>,
    created: AtomicU32,
    verified: Mutex<Vec<Value>>,
    faults: Faults,
}

fn json_reply(status: StatusCode, body: &Value) -> Response {
    let reply = Response::builder().status(status).header("content-type", "application/json");
    reply.body(Body::from(body.to_string())).unwrap()
}

async fn handle(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Value = serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap_or_default();
    if parts.headers.get("authorization").is_none_or(|key| key != "Bearer hone-remote") {
        return json_reply(StatusCode::UNAUTHORIZED, &json!({"detail": "no key"}));
    }
    let path = parts.uri.path().trim_start_matches('/').to_owned();
    let segments: Vec<&str> = path.split('/').collect();
    match (&parts.method, segments.as_slice()) {
        (&Method::POST, ["v1", "env", "instances"]) => fleet.create(&body),
        (&Method::DELETE, ["v1", "env", "instances", "batch"]) => {
            let run = parts.uri.query().unwrap().strip_prefix("run_id=").unwrap().to_owned();
            fleet.instances.lock().unwrap().retain(|_, instance| instance["run_id"] != run);
            json_reply(StatusCode::OK, &json!([]))
        }
        (&Method::GET, ["v1", "env", "instances"]) => {
            let run = parts.uri.query().unwrap().strip_prefix("run_id=").unwrap();
            let instances = fleet.instances.lock().unwrap();
            let own: Vec<&Value> = instances.values().filter(|instance| instance["run_id"] == run).collect();
            json_reply(StatusCode::OK, &json!(own))
        }
        (&Method::GET, ["v1", "env", "instances", id]) => fleet.look(id),
        (&Method::DELETE, ["v1", "env", "instances", id]) => {
            if !takes(&fleet.faults.kept) {
                fleet.instances.lock().unwrap().remove(*id);
            }
            json_reply(StatusCode::OK, &json!({}))
        }
        (_, ["instance", _, rest @ ..]) => {
            let calls = body["method"] == "tools/call";
            if rest.ends_with(&["execute_verifier_function"]) && takes(&fleet.faults.verifier_hangs)
                || calls && takes(&fleet.faults.hanging_calls)
            {
                std::future::pending::<()>().await;
            }
            fleet.instance(rest, &parts.headers, &body)
        }
        _ => json_reply(StatusCode::NOT_FOUND, &json!({"detail": "Not Found"})),
    }
}

impl Fleet {
    fn create(&self, body: &Value) -> Response {
        if takes(&self.faults.create_5xx) {
            return json_reply(StatusCode::SERVICE_UNAVAILABLE, &json!({"detail": "temporarily unavailable"}));
        }
        assert_eq!(body["env_variables"]["CURRENT_DATE"], "2026-01-01", "variables reach the instance");
        let id = format!("i{}", self.created.fetch_add(1, Ordering::SeqCst));
        let instance = json!({
            "instance_id": id,
            "run_id": body["run_id"],
            "status": "pending",
            "urls": {"root": format!("{}/instance/{id}/", self.root.lock().unwrap())},
        });
        self.instances.lock().unwrap().insert(id.clone(), instance);
        self.look(&id)
    }

    fn look(&self, id: &str) -> Response {
        let mut instances = self.instances.lock().unwrap();
        let Some(instance) = instances.get_mut(id) else { return json_reply(StatusCode::NOT_FOUND, &json!({})) };
        if !takes(&self.faults.slow_start) {
            instance["status"] = "running".into();
        }
        json_reply(StatusCode::OK, instance)
    }

    fn instance(&self, path: &[&str], headers: &HeaderMap, body: &Value) -> Response {
        match path {
            ["mcp"] => self.mcp(headers, body, &["book", "computer"]),
            ["api", "v1", "mcp"] => self.mcp(headers, body, &["book", "search"]),
            ["api", "v1", "env", "reset"] => json_reply(StatusCode::OK, &json!({})),
            ["api", "v1", "env", "execute_verifier_function"] => {
                self.verified.lock().unwrap().push(body.clone());
                if takes(&self.faults.verifier_down) {
                    let error = json!({"type": "Timeout", "message": "timed out"});
                    return json_reply(StatusCode::OK, &json!({"success": false, "result": 0, "error": error}));
                }
                if takes(&self.faults.judge_errors) {
                    let stdout = "JUDGE ERROR: 503 from the judge\n";
                    return json_reply(StatusCode::OK, &json!({"success": true, "result": 0, "stdout": stdout}));
                }
                let right = body["text_solution"] == "42";
                json_reply(StatusCode::OK, &json!({"success": true, "result": u8::from(right), "stdout": ""}))
            }
            _ => json_reply(StatusCode::NOT_FOUND, &json!({})),
        }
    }

    fn mcp(&self, headers: &HeaderMap, body: &Value, tools: &[&str]) -> Response {
        assert!(headers.get("accept").unwrap().to_str().unwrap().contains("text/event-stream"));
        let result = match body["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}),
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {}});
                let tool = |name: &&str| json!({"name": name, "description": "d", "inputSchema": schema});
                json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})
            }
            "tools/call" if takes(&self.faults.dead_calls) => {
                return json_reply(StatusCode::BAD_GATEWAY, &json!({"detail": "upstream"}));
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "booked"}]}),
            _ => return json_reply(StatusCode::ACCEPTED, &json!({})),
        };
        json_reply(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
    }

    fn left(&self) -> usize {
        self.instances.lock().unwrap().len()
    }
}

struct Bench {
    fleet: Arc<Fleet>,
    served: Served,
    _directory: tempfile::TempDir,
    table: Map<String, Value>,
}

async fn bench(faults: Faults) -> Bench {
    let fleet = Arc::new(Fleet { faults, ..Fleet::default() });
    let served = Served::of(Router::new().fallback(handle).with_state(Arc::clone(&fleet))).await;
    fleet.root.lock().unwrap().clone_from(&served.url);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tasks.json");
    let task = |at: usize| {
        json!({
            "task_key": format!("t{at}"), "prompt": "Book it, then submit_final_answer.", "env_key": "booking", "difficulty": 1,
            "env_variables": "{\"CURRENT_DATE\": \"2026-01-01\"}", "verifier_code": "def validate(env, final_answer=None):\n  return 1",
        })
    };
    std::fs::write(&file, json!({"tasks": (0..4).map(task).collect::<Vec<_>>()}).to_string()).unwrap();
    let table = json!({
        "kind": "fleet", "url": served.url, "task_file": file, "held_out": 1, "key_env": KEY,
        "verifier_attempts": 1, "create_deadline_s": 30.0, "deadline_s": 2.0, "verifier_deadline_s": 0.2,
    });
    Bench { fleet, served, _directory: directory, table: table.as_object().unwrap().clone() }
}

impl Bench {
    fn open(&self) -> Environment {
        EnvSpec::read(self.table.clone()).unwrap().open().unwrap()
    }
}

fn call(name: &str, arguments: Value) -> Action {
    Action::Calls(vec![ToolCall::new(name, arguments.as_object().unwrap().clone())])
}

/// Plays an episode that submits an answer; returns its score, or why there is none.
async fn play(environment: &Environment, answer: &str) -> Result<Option<f64>, String> {
    let task = &environment.splits["train"][0];
    let mut episode = environment.arena.open(task, 0).await.map_err(|fault| fault.to_string())?;
    let turn = episode.env.step(call("book", json!({}))).await.map_err(|fault| fault.to_string())?;
    assert_eq!(turn.messages, [Message::tool("book", "booked")]);
    let turn = episode.env.step(call("submit_final_answer", json!({"answer": answer}))).await.unwrap();
    assert!(turn.done);
    episode.env.finish().await.unwrap();
    let mut case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
    case.outcome = Some(Outcome::Finished);
    Ok(environment.rubric.score_case(&case).await.total.value())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_is_played_judged_and_given_back() {
    let _one = ONE_AT_A_TIME.lock().await;
    let bench = bench(Faults { slow_start: 1.into(), ..Faults::default() }).await;
    let environment = bench.open();
    let task = &environment.splits["train"][0];
    assert_eq!(task.variables["CURRENT_DATE"], "2026-01-01", "variables reach the prompt");
    let episode = environment.arena.open(task, 0).await.unwrap();
    let names: Vec<&str> = episode.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["book", "search", "submit_final_answer"], "both endpoints, no `computer`");
    drop(episode);
    assert_eq!(play(&environment, "42").await, Ok(Some(1.0)));
    assert_eq!(play(&environment, "41").await, Ok(Some(0.0)));
    let verified = bench.fleet.verified.lock().unwrap().clone();
    assert_eq!((&verified[0]["text_solution"], &verified[0]["function_name"]), (&json!("42"), &json!("validate")));
    drop(environment);
    assert_eq!(bench.fleet.left(), 0);
}

/// The platform's own count of the run's instances, beside the episodes that are open.
#[tokio::test(flavor = "multi_thread")]
async fn instances_that_are_left_are_counted() {
    let _one = ONE_AT_A_TIME.lock().await;
    let bench = bench(Faults { kept: 1.into(), ..Faults::default() }).await;
    let environment = bench.open();
    for expected in [1, 2] {
        let episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
        let open = environment.arena.holds().await.remove(0);
        assert_eq!((open.kind, open.count, open.in_use), ("instances", expected, Some(1)));
        drop(episode);
        // Given back behind the episode's end.
        for _ in 0..100 {
            if environment.arena.holds().await[0].in_use == Some(0) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let left = environment.arena.holds().await.remove(0);
        assert_eq!((left.count, left.in_use), (1, Some(0)), "the first one was kept, the second was not");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_example_is_played() {
    let _one = ONE_AT_A_TIME.lock().await;
    let bench = bench(Faults::default()).await;
    let own = json!({"url": bench.served.url, "key_env": KEY, "held_out": 1, "task_file": bench.table["task_file"]});
    let table = documented("Fleet", &own);
    let environment = EnvSpec::read(table).unwrap().open().unwrap();
    assert_eq!(play(&environment, "42").await, Ok(Some(1.0)));
    drop(environment);
    assert_eq!(bench.fleet.left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fault_gives_a_reward() {
    let _one = ONE_AT_A_TIME.lock().await;
    for (faults, expected) in [
        (Faults { create_5xx: 2.into(), ..Faults::default() }, Ok(Some(1.0))),
        (Faults { dead_calls: 1.into(), ..Faults::default() }, Err("502")),
        (Faults { hanging_calls: 1.into(), ..Faults::default() }, Err("no answer within 2.0 s")),
        (Faults { verifier_hangs: 1.into(), ..Faults::default() }, Ok(None)),
        (Faults { verifier_down: 9.into(), ..Faults::default() }, Ok(None)),
        (Faults { judge_errors: 9.into(), ..Faults::default() }, Ok(None)),
    ] {
        let bench = bench(faults).await;
        let environment = bench.open();
        match (play(&environment, "42").await, expected) {
            (Err(fault), Err(words)) => assert!(fault.contains(words), "{fault}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned)),
        }
        drop(environment);
        assert_eq!(bench.fleet.left(), 0, "every instance is given back");
    }
}

struct Panics;

impl Measure for Panics {
    fn measure(&self, _: &Case) -> Verdict {
        panic!("a scorer")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_deleted_after_a_panic_and_at_an_exit() {
    let _one = ONE_AT_A_TIME.lock().await;
    let bench = bench(Faults::default()).await;
    let environment = bench.open();
    let episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
    assert_eq!(bench.fleet.left(), 1);
    // The scorer of a whole episode panics, in the task that plays it.
    let playing = tokio::spawn(async move {
        let mut episode = episode;
        let rubric = Rubric::new(vec![Term::new("broken", 1.0, Panics)], Vec::new()).unwrap();
        episode.env.step(call("book", json!({}))).await.unwrap();
        let case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
        let card = rubric.score_case(&case).await;
        drop((episode, environment));
        card
    });
    assert!(playing.await.unwrap_err().is_panic());
    assert_eq!(bench.fleet.left(), 0);

    // The same on a thread without a runtime.
    let environment = bench.open();
    let episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
    let thread = std::thread::spawn(move || {
        let _held = (episode, environment);
        Panics.measure(&Case::default())
    });
    assert!(thread.join().is_err());
    assert_eq!(bench.fleet.left(), 0);

    let environment = bench.open();
    let episode = environment.arena.open(&environment.splits["train"][1], 0).await.unwrap();
    assert_eq!(bench.fleet.left(), 1);
    // An exit that runs no destructors.
    std::mem::forget((episode, environment));
    tokio::task::spawn_blocking(cleanup::release_all).await.unwrap();
    assert_eq!(bench.fleet.left(), 0);
    drop(bench.served);
}
