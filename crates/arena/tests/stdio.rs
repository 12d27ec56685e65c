//! Environments and scorers as child processes: the documented examples, and every way a process can fail.
//!
//! Needs python3.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_arena::rewards::{Case, Component};
use hone_arena::stdio::{CommandSpec, StdioArena, StdioScorer};
use hone_trace::{Action, Arena, Boundary, Content, Episode, Fault, FaultKind, Message, Task, ToolCall, Turn, Verdict};
use serde_json::{Value, json};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn task() -> Task {
    Task::new("t", "guess", "Guess between 1 and 100.")
}

fn call(name: &str, arguments: Value) -> Action {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Action::Calls(vec![ToolCall::new(name, arguments)])
}

/// A Python environment whose `step` does what its call's name says. Deadlines are short where a hang is expected.
struct Script {
    _directory: tempfile::TempDir,
    spec: CommandSpec,
}

const LOOP: &str = r#"
import json, os, sys, time, threading
def answer(ask, **more):
    print(json.dumps({"id": ask["id"], **more}), flush=True)
def step(ask):
    calls = ask["action"].get("calls") or [{"name": "ok", "arguments": {}}]
    name = calls[0]["name"]
    if name == "ok": answer(ask, messages=[{"role": "tool", "content": ask["episode"]}])
    elif name == "crash": sys.stderr.write("Traceback: division by zero\n"); sys.stderr.flush(); os._exit(3)
    elif name == "hang": time.sleep(3600)
    elif name == "pid": answer(ask, messages=[{"role": "tool", "content": str(os.getpid())}])
    elif name == "huge": print('{"id": %d, "messages": "%s"}' % (ask["id"], "x" * 50_000_000), flush=True)
    elif name == "garbage": print('{"id": oops', flush=True)
    elif name == "list": print(json.dumps([{"role": "tool", "content": "ok"}]), flush=True)
    elif name == "form": answer(ask, messages=7)
    elif name == "error": answer(ask, error="out of quota", transient=True)
    elif name == "chatter": print("debug: here I am", flush=True); answer(ask, messages=[])
    elif name == "silent": print("debug: here I am", flush=True)
    elif name == "stderr": sys.stderr.write("a warning\n"); sys.stderr.flush(); time.sleep(0.2); answer(ask, done=True, facts={"x": 1})
    elif name == "fork":
        child = os.fork()
        if child == 0: time.sleep(3600)
        answer(ask, messages=[{"role": "tool", "content": str(child)}])
for line in sys.stdin:
    ask = json.loads(line)
    if ask["op"] == "open": answer(ask, messages=[{"role": "user", "content": str(os.getpid())}])
    elif ask["op"] == "step": RUN
    elif ask["op"] == "ping": answer(ask)
"#;

impl Script {
    /// Answers one request after the other.
    fn serial() -> Self {
        Self::new(&LOOP.replace("RUN", "step(ask)"))
    }

    /// Answers each request in a separate thread.
    fn threaded() -> Self {
        Self::new(&LOOP.replace("RUN", "threading.Thread(target=step, args=(ask,), daemon=True).start()"))
    }

    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env.py");
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let spec = CommandSpec::new(["python3", path.to_str().unwrap()]);
        Self { _directory: directory, spec }
    }

    fn arena(&self, deadline_s: f64) -> StdioArena {
        StdioArena::new(CommandSpec { deadline_s, ..self.spec.clone() }).unwrap()
    }
}

async fn open(arena: &StdioArena) -> Episode {
    arena.open(&task(), 0).await.unwrap()
}

async fn step(episode: &mut Episode, name: &str) -> Result<Turn, Fault> {
    episode.env.step(call(name, json!({}))).await
}

fn text(turn: &Turn) -> String {
    turn.messages[0].content().map(Content::text).unwrap()
}

async fn pid(episode: &mut Episode) -> i32 {
    text(&step(episode, "pid").await.unwrap()).parse().unwrap()
}

/// Waits until a process is gone, zombies included; the test's own time limit is the deadline.
async fn gone(pid: i32) {
    while Path::new(&format!("/proc/{pid}")).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_documented_environment_plays() {
    let script = docs().join("examples/guess_env.py");
    let arena = StdioArena::new(CommandSpec::new(["python3", script.to_str().unwrap()])).unwrap();
    let mut secrets = Vec::new();
    for (key, seed) in [("a", 1), ("a", 2), ("b", 1)] {
        let mut episode = arena.open(&Task { key: key.into(), ..task() }, seed).await.unwrap();
        assert_eq!(episode.first, [Message::user("Guess between 1 and 100.")]);
        assert_eq!(episode.tools[0].name, "guess");
        let nudge = episode.env.step(Action::Reply("50?".into())).await.unwrap();
        assert_eq!(nudge.messages, [Message::user("Please call guess.")]);
        let (mut low, mut high) = (1, 100);
        let secret = loop {
            let guess = i32::midpoint(low, high);
            let turn = episode.env.step(call("guess", json!({"n": guess}))).await.unwrap();
            match text(&turn).as_str() {
                "higher" => low = guess + 1,
                "lower" => high = guess - 1,
                "right" => break guess,
                other => panic!("{other}"),
            }
        };
        assert_eq!(episode.env.end().facts["correct"], true);
        secrets.push(secret);
    }
    assert!(secrets[0] == secrets[1] && secrets[1] != secrets[2], "the number is the task's: {secrets:?}");
}

#[tokio::test]
async fn the_documented_reward_scores() {
    let script = docs().join("examples/short_reward.py");
    let scorer = StdioScorer::new(CommandSpec::new(["python3", script.to_str().unwrap()])).unwrap();
    let case = Case { completion: Some("one two three".into()), ..Case::default() };
    let Verdict::Scored { value, why, .. } = scorer.verdict(&case).await else { panic!("unscored") };
    assert_eq!((value, why.as_str()), (1.0 / 1.06, "3 words"));
    let nothing = Verdict::NotApplicable { why: "no completion to measure".into() };
    assert_eq!(scorer.verdict(&Case::default()).await, nothing);
}

#[tokio::test]
async fn an_answer_that_is_no_score_is_told_the_form_of_one() {
    let program = "import json, sys\nfor line in sys.stdin:\n    ask = json.loads(line)\n    \
                   print(json.dumps({\"id\": ask[\"id\"], \"value\": \"high\"}), flush=True)\n";
    let script = Script::new(program);
    let verdict = StdioScorer::new(script.spec.clone()).unwrap().verdict(&Case::default()).await;
    assert!(verdict.why().contains("wrong form") && verdict.why().contains("{\"value\": 0.5,"), "{}", verdict.why());
}

/// The page shows exactly the files that the tests above ran.
#[test]
fn the_page_shows_the_examples() {
    let page = std::fs::read_to_string(docs().join("environments.md")).unwrap();
    for example in ["guess_env.py", "short_reward.py"] {
        let text = std::fs::read_to_string(docs().join("examples").join(example)).unwrap();
        assert!(page.contains(text.trim_end()), "docs/environments.md does not show docs/examples/{example}");
    }
}

#[tokio::test]
async fn many_episodes_share_a_process() {
    let arena = Script::serial();
    let arena = arena.arena(30.0);
    let mut episodes = futures::future::join_all((0..200).map(|_| open(&arena))).await;
    let turns = futures::future::join_all(episodes.iter_mut().map(|episode| step(episode, "ok"))).await;
    let mut names: Vec<String> = turns.into_iter().map(|turn| text(&turn.unwrap())).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 200, "every answer reached the episode it belongs to");
    let pids: Vec<_> = episodes.iter().map(|episode| episode.first.clone()).collect();
    assert!(pids.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_crash_costs_the_episodes_of_its_process_and_says_why() {
    let script = Script::serial();
    let arena = StdioArena::new(CommandSpec { workers: 2, ..script.spec.clone() }).unwrap();
    let (mut first, mut elsewhere, mut sibling) = (open(&arena).await, open(&arena).await, open(&arena).await);
    let dead = pid(&mut first).await;
    assert_eq!(dead, pid(&mut sibling).await);

    let fault = step(&mut first, "crash").await.unwrap_err();
    assert_eq!((fault.boundary, fault.transient), (Boundary::Environment, true));
    assert!(fault.what.contains("division by zero") && fault.what.contains("exit status: 3"), "{fault}");
    let fault = step(&mut sibling, "ok").await.unwrap_err();
    assert!(fault.transient && fault.what.contains("division by zero"), "{fault}");
    gone(dead).await;

    assert!(step(&mut elsewhere, "ok").await.is_ok(), "the other process plays on");
    let mut fresh = open(&arena).await;
    let mut fresh_too = open(&arena).await;
    assert!(step(&mut fresh, "ok").await.is_ok() && step(&mut fresh_too, "ok").await.is_ok());
}

#[tokio::test]
async fn a_hang_costs_its_episode_alone_while_the_process_lives() {
    let script = Script::threaded();
    let arena = script.arena(0.5);
    let (mut stuck, mut healthy) = (open(&arena).await, open(&arena).await);
    let before = pid(&mut healthy).await;
    let fault = step(&mut stuck, "hang").await.unwrap_err();
    assert!(fault.transient && fault.what.contains("no answer within 0.5 s"), "{fault}");
    assert_eq!(fault.kind, FaultKind::ProgramLate);
    // Proving that nothing happens takes waiting: longer than the probe that follows a missed deadline, whose own is no
    // longer than that one. The process answers the probe, so it lives on with its other episodes.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(pid(&mut healthy).await, before);
}

#[tokio::test]
async fn a_process_that_answers_nothing_is_replaced() {
    let script = Script::serial();
    let arena = script.arena(0.5);
    let (mut stuck, mut sibling) = (open(&arena).await, open(&arena).await);
    let dead = pid(&mut stuck).await;
    let fault = step(&mut stuck, "hang").await.unwrap_err();
    assert!(fault.transient, "{fault}");
    gone(dead).await;
    let fault = step(&mut sibling, "ok").await.unwrap_err();
    assert!(fault.transient && fault.what.contains("answered nothing any more"), "{fault}");
    let mut fresh = open(&arena).await;
    assert_ne!(pid(&mut fresh).await, dead);
}

/// A program without a flush is told from a slow one within seconds, whatever the deadline of a first answer.
#[tokio::test]
async fn an_answer_that_stays_in_a_buffer_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("env.py");
    let program = "import json, sys\nfor line in sys.stdin:\n    ask = json.loads(line)\n    \
                   print(json.dumps({\"id\": ask[\"id\"], \"messages\": []}))\n";
    std::fs::write(&path, program).unwrap();
    let arena = StdioArena::new(CommandSpec::new(["python3", path.to_str().unwrap()])).unwrap();
    let clock = std::time::Instant::now();
    let Err(fault) = arena.open(&task(), 0).await else { panic!("it opened") };
    assert!(fault.what.contains("flush=True") && !fault.transient, "{fault}");
    assert!(clock.elapsed() < Duration::from_secs(20), "{:?}", clock.elapsed());
}

#[tokio::test]
async fn bad_answers_are_named_and_cost_one_episode() {
    let script = Script::serial();
    let arena = script.arena(30.0);
    let mut sibling = open(&arena).await;
    let process = pid(&mut sibling).await;
    for (way, named) in [
        ("huge", "50000025 bytes in one line"),
        ("garbage", "it is not a JSON object"),
        ("list", "it is not an answer, which is one JSON object"),
        ("form", "wrong form"),
        ("error", "out of quota"),
    ] {
        let mut episode = open(&arena).await;
        let fault = step(&mut episode, way).await.unwrap_err();
        assert!(fault.what.contains(named), "{way}: {fault}");
        assert!(fault.what.len() < 8000, "{way}: {} bytes", fault.what.len());
        assert_eq!(fault.protocol, way == "form", "{way}: what the program reports itself is in the protocol");
        assert_eq!(pid(&mut sibling).await, process, "{way} costs nobody else");
    }
}

/// A program's own schemas are read as written: elsewhere `str` is taken for what it means.
#[tokio::test]
async fn an_invalid_schema_is_refused_with_its_place() {
    for (schema, said) in [
        (
            r#"{"type": "object", "properties": {"parcel": {"type": "str"}}}"#,
            "parameters.properties.parcel.type is \"str\"",
        ),
        (r##"{"$ref": "#"}"##, "leads back to itself"),
    ] {
        let tools = format!(r#"tools=[{{"name": "weigh", "parameters": {schema}}}], messages"#);
        let script = Script::new(&LOOP.replace("RUN", "step(ask)").replacen(
            "messages=[{\"role\": \"user\"",
            &(tools + "=[{\"role\": \"user\""),
            1,
        ));
        let Err(fault) = script.arena(30.0).open(&task(), 0).await else { panic!("it opened") };
        assert!(fault.what.contains(said) && fault.what.contains("weigh") && !fault.transient, "{fault}");
    }
}

#[tokio::test]
async fn stray_output_is_passed_over_and_quoted() {
    let script = Script::threaded();
    let arena = script.arena(0.5);
    let mut episode = open(&arena).await;
    assert!(step(&mut episode, "chatter").await.is_ok());
    let fault = step(&mut episode, "silent").await.unwrap_err();
    assert!(fault.what.contains("debug: here I am"), "{fault}");
}

#[tokio::test]
async fn stderr_is_kept_with_the_episode() {
    let script = Script::serial();
    let arena = script.arena(30.0);
    let mut episode = open(&arena).await;
    assert!(step(&mut episode, "stderr").await.unwrap().done);
    let facts = episode.env.end().facts;
    assert_eq!((&facts["x"], &facts["stderr"]), (&json!(1), &json!("a warning")));
}

#[tokio::test]
async fn nothing_outlives_the_arena() {
    let script = Script::serial();
    let arena = script.arena(30.0);
    let mut episode = open(&arena).await;
    let process = pid(&mut episode).await;
    let grandchild: i32 = text(&step(&mut episode, "fork").await.unwrap()).parse().unwrap();
    drop((episode, arena));
    gone(process).await;
    // Init reaps the grandchild; a zombie counts as gone.
    let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
    while !(state().is_empty() || state().contains(") Z ")) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_run_says_so() {
    let spec = CommandSpec::new(["/nonexistent/program"]);
    let fault = StdioArena::new(spec).unwrap().open(&task(), 0).await.unwrap_err();
    assert!(!fault.transient && fault.what.contains("/nonexistent/program"), "{fault}");
    assert_eq!(fault.kind, FaultKind::NotStarted);

    let spec = CommandSpec::new(["sh", "-c", "echo no such module >&2; exit 1"]);
    let arena = StdioArena::new(spec.clone()).unwrap();
    for _ in 0..2 {
        let fault = arena.open(&task(), 0).await.unwrap_err();
        assert!(fault.what.contains("no such module"), "{fault}");
        assert_eq!(fault.kind, FaultKind::Ended);
    }
    // Printed lines are the likelier mistake.
    let printing = StdioArena::new(CommandSpec::new(["sh", "-c", "echo hello; exit 1"])).unwrap();
    assert_eq!(printing.open(&task(), 0).await.unwrap_err().kind, FaultKind::Garbled);
    let astray = CommandSpec { directory: Some("/nonexistent".into()), ..spec.clone() };
    let fault = StdioArena::new(astray).unwrap().open(&task(), 0).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Other, "it carries its own advice: {fault}");
    let scorer = StdioScorer::new(spec).unwrap();
    let Verdict::Unscored { unscored, .. } = scorer.verdict(&Case::default()).await else {
        panic!("a fault is no score")
    };
    assert!(unscored.contains("no such module"), "{unscored}");
}

/// A child gets a clean set of variables and those that the recipe names; an unset name is reported at the start.
#[tokio::test]
async fn a_program_sees_the_variables_it_is_meant_to_see() {
    let text = LOOP.replace("RUN", "answer(ask, done=True, facts={'seen': dict(os.environ)})");
    let script = Script::new(&text);
    let seen = async |variables: &[&str]| {
        let variables = variables.iter().map(|&name| name.to_owned()).collect();
        let arena = StdioArena::new(CommandSpec { variables, ..script.spec.clone() }).unwrap();
        let mut episode = open(&arena).await;
        step(&mut episode, "ok").await.unwrap();
        let facts = episode.env.end().facts;
        facts["seen"].as_object().unwrap().keys().cloned().collect::<Vec<String>>()
    };
    // Cargo sets it for its tests: a stand-in for a key that only Hone is given.
    let secret = "CARGO_MANIFEST_DIR";
    let usual = seen(&[]).await;
    assert!(usual.iter().any(|name| name == "PATH") && !usual.iter().any(|name| name == secret), "{usual:?}");
    assert!(seen(&[secret]).await.iter().any(|name| name == secret));

    let variables = vec!["HONE_NO_SUCH_VARIABLE".to_owned()];
    let error = StdioArena::new(CommandSpec { variables, ..script.spec.clone() }).unwrap_err().to_string();
    assert!(error.contains("HONE_NO_SUCH_VARIABLE") && error.contains("not set"), "{error}");
}

/// An environment that exits takes its child processes with it.
#[tokio::test]
async fn nothing_a_dead_program_started_is_left() {
    let script = Script::serial();
    let arena = script.arena(10.0);
    let mut episode = open(&arena).await;
    let child: i32 = text(&step(&mut episode, "fork").await.unwrap()).parse().unwrap();
    assert!(step(&mut episode, "crash").await.unwrap_err().what.contains("division by zero"));
    gone(child).await;
}

/// Plays Hone in a separate process, for the next test: opens an environment whose program starts another, and waits to
/// be killed.
#[tokio::test]
#[ignore = "run by nothing_survives_hone_being_killed"]
async fn an_environment_with_a_grandchild_is_open() {
    let fifo = std::env::var("PATH_OF_FIFO").unwrap();
    let text = LOOP.replace(
        "RUN",
        "os.fork() or os.setsid(); held = open(sys.argv[1], 'w'); held.write('x'); held.flush(); time.sleep(3600)",
    );
    let mut script = Script::new(&text);
    script.spec.command.push(fifo);
    let arena = script.arena(3600.0);
    let mut episode = open(&arena).await;
    let _ = step(&mut episode, "ok").await;
}

/// Killed by SIGKILL, Hone leaves neither children nor grandchildren behind: the pipe they hold open is closed.
#[test]
fn nothing_survives_hone_being_killed() {
    use std::io::Read as _;
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("held");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut hone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_environment_with_a_grandchild_is_open", "--ignored"])
        .env("PATH_OF_FIFO", &fifo)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // One byte from the program and one from its child: both hold the other end.
    let mut held = std::fs::File::open(&fifo).unwrap();
    held.read_exact(&mut [0; 2]).unwrap();
    hone.kill().unwrap();
    hone.wait().unwrap();
    let mut rest = Vec::new();
    held.read_to_end(&mut rest).unwrap();
}
