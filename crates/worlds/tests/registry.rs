//! Registry: every environment a recipe can name opens, its oracle succeeds, and an unavailable one is an error.
#![expect(clippy::unwrap_used, reason = "tests")]

use hone_arena::registry::World;
use hone_arena::rewards::Case;
use hone_arena::solution::{Move, solution};
use hone_trace::{Action, Arena, Task, TurnRecord};
use hone_worlds::{BUILTINS, EnvSpec, EnvSpecs};
use serde_json::{Value, json};

fn specs(tables: &Value) -> Result<EnvSpecs, String> {
    serde_json::from_value(tables.clone()).map_err(|error| error.to_string())
}

/// Plays a task's solution through the arena; the case a rubric would see.
async fn solved(arena: &dyn Arena, task: &Task) -> Case {
    let mut episode = arena.open(task, 0).await.unwrap();
    let (mut turns, mut done) = (Vec::new(), false);
    for step in solution(task).unwrap() {
        let (action, calls) = match step {
            Move::Call(call) => (Action::Calls(vec![call.clone()]), vec![call]),
            Move::Say(text) => (Action::Reply(text), Vec::new()),
        };
        let turn = episode.env.step(action).await.unwrap();
        assert_eq!(turn.failed, 0, "{}: {:?}", task.key, turn.messages);
        turns.push(TurnRecord { executed: calls.len() as u32, calls, ..TurnRecord::default() });
        done = turn.done;
        if done {
            break;
        }
    }
    assert!(done, "{}: the solution does not end the episode", task.key);
    let mut case = Case::read(Value::Object(episode.env.end().facts)).unwrap();
    case.turns = Some(turns);
    case.tools = Some(episode.tools);
    case
}

#[tokio::test]
async fn the_oracle_of_every_built_in_environment_scores_one_on_every_task_of_three_seeds() {
    for builtin in BUILTINS {
        for seed in [1, 2, 3] {
            let table = json!({"name": builtin.name, "seed": seed, "tasks": 60, "held_out": 20});
            let environment = EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap();
            let mut played = 0;
            for task in environment.splits.values().flat_map(|set| set.iter()) {
                assert_eq!(task.env, builtin.name);
                let case = solved(&*environment.arena, task).await;
                let won = case.correct.or(case.db_match).unwrap();
                let said = case.outputs_said.iter().flatten().all(|(_, said)| *said);
                assert!(won && said, "{}: {:?}", task.key, case.changes);
                played += 1;
            }
            assert!(played >= 80, "{}: {played} tasks", builtin.name);
        }
    }
}

#[tokio::test]
async fn several_environments_play_behind_one_arena() {
    let tables = json!([
        {"name": "shop", "tasks": 6, "held_out": 3},
        {"name": "retail", "tasks": 4, "held_out": 2, "customers": 40},
        {"name": "triage-reader", "tasks": 5, "held_out": 4},
    ]);
    let specs = specs(&tables).unwrap();
    assert_eq!((specs.tasks(), specs.held_out()), (15, 9));
    let world = World::open(&specs).unwrap();
    assert_eq!((world.tasks.len(), world.held_out.len()), (15, 9));
    let envs: Vec<&str> = world.held_out.iter().map(|task| task.env.as_str()).collect();
    assert_eq!(envs[..4], ["shop", "retail", "triage-reader", "shop"], "held-out tasks alternate");
    for task in world.tasks.iter().chain(&world.held_out) {
        solved(&*world.arena, task).await;
    }
    let stranger = Task::new("t", "airline", "");
    assert!(world.arena.open(&stranger, 0).await.unwrap_err().what.contains("does not open"));
}

#[test]
fn a_table_prints_back_as_it_was_read() {
    for table in [
        json!({"name": "retail", "difficulty": 2, "profile": "tau2"}),
        json!({"name": "airline", "user": {"strategy": "react", "url": "http://localhost:1/v1", "model": "m"}}),
        json!({"name": "triage-searcher", "size": "full", "held_out_from": "dev"}),
        json!({"command": ["python3", "env.py"], "workers": 3}),
        json!([{"name": "shop"}, {"name": "airline"}]),
    ] {
        let read = specs(&table).unwrap();
        let printed = serde_json::to_value(&read).unwrap();
        assert_eq!(printed.is_array(), table.is_array());
        assert_eq!(serde_json::to_value(specs(&printed).unwrap()).unwrap(), printed);
    }
}

#[test]
fn what_cannot_be_had_is_said_with_the_way_out() {
    for (table, words) in [
        (json!({"name": "retial"}), &["did you mean \"retail\"", "triage-searcher"][..]),
        (json!({"name": "shop", "documents": 3}), &["options of shop", "`documents`", "`difficulty`"]),
        (json!({"name": "triage-reader", "sise": "full"}), &["`sise`", "`size`"]),
        (json!({"name": "retail", "profile": "lenient"}), &["`compat`", "`strict`", "`tau2`"]),
        (json!({"name": "retail", "user": "nobody"}), &["\"scripted\"", "`url`"]),
        (json!({"name": "retail", "user": {"url": "u"}}), &["`model`"]),
        (json!({"name": "shop", "command": ["x"]}), &["built-in"]),
        (json!({"name": 3}), &["string"]),
        (json!([]), &["at least one"]),
        (json!("shop"), &["[[env]]"]),
    ] {
        let error = specs(&table).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{table}: {error}");
    }
    for (table, words) in [
        (json!([{"name": "shop"}, {"name": "shop"}]), &["two [[env]]"][..]),
        (json!({"name": "retail", "customers": 1, "tasks": 5}), &["retail world"]),
        (json!({"name": "airline", "difficulty": 7}), &["1, 2 or 3"]),
        (json!({"command": []}), &["command is empty"]),
        (json!({"command": ["x"], "task_file": "no/such.jsonl"}), &["no/such.jsonl"]),
    ] {
        let error = World::open(&specs(&table).unwrap()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{table}: {error}");
    }
}

#[test]
fn a_programs_tasks_come_from_a_file_or_are_numbered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.jsonl");
    let lines: Vec<String> =
        (0..10).map(|at| json!({"key": format!("k{at}"), "prompt": "p", "extra": at}).to_string()).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let table = json!({"command": ["x"], "name": "mine", "task_file": path, "tasks": 5, "held_out": 3});
    let world = World::open(&specs(&table).unwrap()).unwrap();
    assert_eq!((world.tasks.len(), world.held_out.len()), (5, 3));
    assert!(world.tasks.iter().all(|task| task.env == "mine" && !world.held_out.contains(task)));

    // As Windows writes it.
    std::fs::write(&path, format!("\u{feff}{}\r\n", lines.join("\r\n"))).unwrap();
    let same = World::open(&specs(&table).unwrap()).unwrap();
    assert_eq!((same.tasks, same.held_out), (world.tasks, world.held_out));

    std::fs::write(&path, "{\"key\": \"k\"}\n").unwrap();
    let error = World::open(&specs(&table).unwrap()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    std::fs::write(&path, "{\"key\": \"k\", \"prompt\": \"p\"}\n{\"key\": nil}\n").unwrap();
    let error = World::open(&specs(&table).unwrap()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        error.to_string().contains("line 2,") && cause == "expected ident at column 10",
        "one line is named: {cause}"
    );

    let numbered = World::open(&specs(&json!({"command": ["x"], "tasks": 2, "held_out": 1})).unwrap()).unwrap();
    let keys: Vec<&str> = numbered.tasks.iter().chain(&numbered.held_out).map(|task| task.key.as_str()).collect();
    assert_eq!(keys, ["stdio-train-1-0", "stdio-train-1-1", "stdio-held-out-1-0"]);
}

#[tokio::test]
#[ignore = "needs tau-bench's and tau2-bench's data: CONTRIBUTING.md says how to get it"]
async fn data_directories_train_on_train_and_hold_out_test() {
    for (name, place, profile, counts) in [
        ("retail", "tau-bench/retail", "compat", (500, 115)),
        ("retail", "tau2-bench/retail", "tau2", (74, 40)),
        ("airline", "tau2-bench/airline", "tau2", (30, 20)),
        // Recognised.
        ("retail", "tau2-bench/retail", "", (74, 40)),
    ] {
        let data = hone_testdata::third_party("data/tau").join(place);
        let mut table = json!({"name": name, "data": data});
        if !profile.is_empty() {
            table["profile"] = json!(profile);
        }
        let world = World::open(&specs(&table).unwrap()).unwrap();
        assert_eq!((world.tasks.len(), world.held_out.len()), counts, "{place}");
        for task in world.held_out.iter().take(10) {
            let mut episode = world.arena.open(task, 0).await.unwrap();
            let mut done = false;
            for step in solution(task).unwrap() {
                let action = match step {
                    Move::Call(call) => Action::Calls(vec![call]),
                    Move::Say(text) => Action::Reply(text),
                };
                done = episode.env.step(action).await.unwrap().done;
            }
            let facts = episode.env.end().facts;
            assert!(done && facts["db_match"] == true, "{}", task.key);
        }
    }
    let data = hone_testdata::third_party("data/tau/tau-bench/airline");
    let error = World::open(&specs(&json!({"name": "airline", "data": data})).unwrap()).unwrap_err().to_string();
    assert!(error.contains("no train tasks") && error.contains("Leave `data` out"), "{error}");
    let table = json!({"name": "airline", "data": data, "tasks": 0, "held_out": 50});
    assert_eq!(World::open(&specs(&table).unwrap()).unwrap().held_out.len(), 50, "to evaluate only");
}

/// Task files beside a lock of `hone data split`: its sides decide, and contradictions are refused.
#[test]
fn a_set_that_contradicts_its_lock_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, keys: &[&str]| {
        let lines: Vec<String> = keys.iter().map(|key| json!({"key": key, "prompt": "p"}).to_string()).collect();
        let path = directory.path().join(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    };
    let mut lock = hone_trace::SplitLock::new(json!({}), Vec::new());
    for (key, side) in [("a", hone_trace::Side::Train), ("b", hone_trace::Side::Train), ("c", hone_trace::Side::Eval)] {
        lock.set(key, "mine", side);
    }
    lock.write(&mut std::fs::File::create(directory.path().join(hone_trace::SPLIT_LOCK)).unwrap()).unwrap();
    let open = |train: &std::path::Path, held_out: Option<&std::path::Path>| {
        let mut table = json!({"command": ["x"], "name": "mine", "task_file": train});
        if let Some(path) = held_out {
            table["held_out_file"] = json!(path);
        }
        EnvSpec::read(table.as_object().cloned().unwrap()).unwrap().open()
    };
    let keys = |set: &hone_trace::TaskSet| {
        let mut keys: Vec<String> = set.iter().map(|task| task.key.clone()).collect();
        keys.sort();
        keys
    };
    let (train, eval) = (file("train.jsonl", &["a", "b"]), file("eval.jsonl", &["c"]));
    let both = open(&train, Some(&eval)).unwrap();
    assert_eq!(
        (keys(&both.splits["train"]), keys(&both.splits["held-out"])),
        (vec!["a".into(), "b".into()], vec!["c".into()])
    );
    let whole = open(&file("all.jsonl", &["a", "b", "c"]), None).unwrap();
    assert_eq!(
        (keys(&whole.splits["train"]), keys(&whole.splits["held-out"])),
        (vec!["a".into(), "b".into()], vec!["c".into()])
    );
    for (train, held_out, words) in [
        (file("leak.jsonl", &["a", "c"]), Some(&eval), "c is locked as eval"),
        (file("new.jsonl", &["a", "z"]), None, "z is unknown"),
        (train.clone(), None, "held_out_file"),
    ] {
        let error = open(&train, held_out.map(std::path::PathBuf::as_path)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A recipe's table with a model as the user, in tau-bench's world.
fn compat(data: &std::path::Path, url: &str) -> Value {
    json!({"name": "retail", "data": data, "profile": "compat", "user": {"url": url, "model": "user"}})
}

#[test]
fn a_compatible_user_without_its_prompts_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("retail");
    std::fs::create_dir(&data).unwrap();
    let why = || World::open(&specs(&compat(&data, "http://127.0.0.1:9/v1")).unwrap()).err().unwrap().to_string();
    assert!(
        why().contains("user_prompts.json is neither in ") && why().contains("tau_bench/envs/user.py"),
        "{}",
        why()
    );
    std::fs::write(root.path().join("user_prompts.json"), "{").unwrap();
    assert!(why().contains("user_prompts.json: "), "{}", why());
    // Once it is read, the missing world is the next error.
    std::fs::write(root.path().join("user_prompts.json"), "{\"llm_system\": \"x\"}").unwrap();
    assert!(!why().contains("user_prompts.json"), "{}", why());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
async fn a_compatible_user_is_told_tau_benchs_own_prompt() {
    use std::io::{BufRead as _, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut reader = std::io::BufReader::new(listener.accept().unwrap().0);
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            let lower = line.to_lowercase();
            length = lower.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer =
            json!({"choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]})
                .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        reader.into_inner().write_all((head + &answer).as_bytes()).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()
    });
    let data = hone_testdata::third_party("data/tau/tau-bench/retail");
    let world = World::open(&specs(&compat(&data, &url)).unwrap()).unwrap();
    let task = world.held_out.first().unwrap();
    drop(world.arena.open(task, 0).await.unwrap());
    let system = asked.join().unwrap()["messages"][0]["content"].as_str().unwrap().to_owned();
    let prompts = std::fs::read_to_string(data.parent().unwrap().join("user_prompts.json")).unwrap();
    let prompts: Value = serde_json::from_str(&prompts).unwrap();
    let instruction = format!("\n\nInstruction: {}\n", task.prompt);
    assert_eq!(system, prompts["llm_system"].as_str().unwrap().replace("{instruction_display}", &instruction));
}

#[test]
fn a_typo_in_the_users_table_is_shown_all_its_keys() {
    let table = json!({"name": "retail", "user": {"url": "http://localhost:1/v1", "model": "m", "stratgy": "llm"}});
    let error = EnvSpec::read(table.as_object().unwrap().clone()).unwrap_err().to_string();
    assert!(hone_trace::with_nearest(&error).contains("did you mean `strategy`?"), "{error}");
}
