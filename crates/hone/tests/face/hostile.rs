//! Foreign text and the terminal: whatever environments, models, templates and files contain, no command passes
//! terminal control sequences on.

use std::path::Path;

use serde_json::{Value, json};

use crate::{hone, input, run};

/// OSC 52 (the clipboard), a CSI of C1, a bell, a backspace, a carriage return, a direction override, a delete.
const HOSTILE: &str = "x\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{8}\r\u{202e}evil\u{2066}\u{7f}\u{1b}[2Jy";

/// Answers `open` and `step` as its argument says.
const PROGRAM: &str = r#"
import json, sys
mode, words = sys.argv[1], json.loads(sys.argv[2])
tool = {"name": words if mode == "name" else "go", "description": words,
        "parameters": {"type": "object", "properties": {words: {"type": "string"}}}}
for line in sys.stdin:
    ask = json.loads(line)
    answer = {"id": ask.get("id")}
    if ask["op"] == "close":
        continue
    if mode == "error" or (mode == "step" and ask["op"] == "step"):
        print(words, file=sys.stderr, flush=True)
        answer |= {"error": words}
    elif ask["op"] == "open":
        answer |= {"system": words, "tools": [tool], "messages": [{"role": "user", "content": words}]}
    else:
        answer |= {"messages": [{"role": "tool", "name": "go", "content": words}], "done": True, "facts": {"correct": True}}
    print(json.dumps(answer), flush=True)
"#;

/// Fails if the output contains terminal control sequences.
#[track_caller]
fn harmless(shown: &str) {
    let bad = shown.chars().find(|&c| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    assert!(bad.is_none(), "{bad:?} reached the terminal: {shown:?}");
}

fn program(directory: &Path, mode: &str) -> String {
    std::fs::write(directory.join("env.py"), PROGRAM).unwrap();
    let program = directory.join("env.py").display().to_string();
    let words = ["python3".to_owned(), program, mode.to_owned(), json!(HOSTILE).to_string()];
    format!("command={}", toml::Value::from(words.to_vec()))
}

#[test]
fn an_environment_cannot_write_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    for mode in ["plain", "name", "error", "step"] {
        let command = program(directory.path(), mode);
        for arguments in
            [&["env", "show", "mine", "--set", &command][..], &["env", "show", "mine", "--json", "--set", &command]]
        {
            harmless(&run(directory.path(), arguments, ""));
        }
        harmless(&run(directory.path(), &["env", "play", "mine", "--set", &command], "go {}\n"));
        let recipe = format!("[env]\nname = \"mine\"\n{}\n", command.replacen('=', " = ", 1));
        std::fs::write(directory.path().join("mine.toml"), recipe).unwrap();
    }
    let shown =
        run(directory.path(), &["env", "show", "mine", "--json", "--set", &program(directory.path(), "plain")], "");
    let line = shown.lines().find(|line| line.starts_with('{')).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["system"], HOSTILE, "the value is what was said");
    let said = run(directory.path(), &["env", "show", "mine", "--set", &program(directory.path(), "error")], "");
    assert!(said.contains("\\u{1b}]52"), "shown visibly: {said}");
}

#[test]
fn a_dry_run_of_a_broken_environment_quotes_it_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let command = program(directory.path(), "step").replacen('=', " = ", 1);
    let recipe = format!(
        "[policy]\nmodel = \"model\"\n[env]\nname = \"mine\"\n{command}\ntasks = 4\nheld_out = 2\n[sampling]\nmax_new_tokens = 4\n[rollout]\nattempts = 1\n\
         max_turns = 2\n[[rubric.component]]\nkind = \"correct\"\n[train]\ngroups = 2\ngroup_size = 2\n[eval]\ntasks = 2\n"
    );
    std::fs::write(directory.path().join("mine.toml"), recipe).unwrap();
    let small = ["--hidden", "32", "--layers", "1", "--heads", "2", "--kv-heads", "1"];
    assert!(run(directory.path(), &[&["model", "new", "model"], &small[..]].concat(), "").starts_with("exit code 0\n"));
    let said = run(directory.path(), &["train", "mine.toml", "--dry-run"], "");
    harmless(&said);
    assert!(
        said.starts_with("exit code 1\n") && said.contains("the first step of an episode breaks: environment: step by"),
        "{said}"
    );
}

#[test]
fn models_and_files_cannot_write_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tools = input("tools.json");
    let lines = format!("{}\n{}\nnot json \u{9b}\n", json!({"id": HOSTILE, "text": HOSTILE}), json!({"id": HOSTILE}));
    for (arguments, stdin) in [
        (&["parse", "--tools", &tools, "-"][..], HOSTILE.to_owned()),
        (
            &["parse", "--tools", &tools, "--explain", "-"],
            format!("<tool_call>{{\"name\": {}}}</tool_call>", json!(HOSTILE)),
        ),
        (&["parse", "--tools", &tools, "--jsonl", "-"], lines.clone()),
        (
            &["score", "--reward", "rouge_l", "-"],
            format!("{}\nnot json {HOSTILE}\n", json!({"id": HOSTILE, "completion": HOSTILE, "reference": HOSTILE})),
        ),
        (&["score", "--reward", HOSTILE, "-"], String::new()),
        (&["env", "show", "shop", "--task", HOSTILE], String::new()),
    ] {
        // No argument may hold a NUL; these hold none.
        harmless(&run(directory.path(), arguments, &stdin));
    }
    let raises = file("raises.jinja", "{{ raise_exception(messages[0].content) }}");
    let broken = file("broken.jinja", &format!("{{{{ {HOSTILE} }}}}"));
    let messages = file("messages.json", &json!([{"role": "user", "content": HOSTILE}]).to_string());
    for template in [&raises, &broken] {
        harmless(&hone(&["render", "--template", template, &messages]));
    }
    harmless(&hone(&["render", "--json", "--template", &file("say.jinja", "{{ messages[0].content }}"), &messages]));
    let data = hone_testdata::committed("tau/retail").display().to_string();
    let calls = file(
        "calls.jsonl",
        &format!("{}\n{HOSTILE}\n", json!({"id": HOSTILE, "actions": [{"name": HOSTILE, "kwargs": {}}]})),
    );
    harmless(&hone(&["replay", "--domain", "retail", "--data", &data, &calls]));
}

#[test]
fn task_sets_and_command_lines_cannot_write_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let task = |at: usize| json!({"key": format!("{HOSTILE}{at}"), "env": HOSTILE, "prompt": format!("{HOSTILE} {at}"), "provenance": HOSTILE});
    let lines: String = (0..4).map(|at| format!("{}\n", task(at))).collect();
    std::fs::write(directory.path().join("tasks.jsonl"), format!("{lines}{{\"broken\": \"{HOSTILE}\n")).unwrap();
    std::fs::write(directory.path().join("other.jsonl"), format!("{}\n", task(9))).unwrap();
    for arguments in [
        &["data", "stats", "tasks.jsonl"][..],
        &["data", "stats", "tasks.jsonl", "--json"],
        &["data", "stats", "tasks.jsonl", "--markdown"],
        &["data", "diff", "tasks.jsonl", "other.jsonl"],
        &["data", "diff", "tasks.jsonl", "other.jsonl", "--json"],
        &["data", "split", "tasks.jsonl", "--out", "split"],
        &["data", "split", "tasks.jsonl", "--out", "split-json", "--json"],
        &["data", "validate", "tasks.jsonl", "--out", "kept"],
        &[HOSTILE],
        &["bench", HOSTILE],
        &["train", "--no-such\u{202e}\u{9b}2J"],
    ] {
        harmless(&run(directory.path(), arguments, ""));
    }
}

/// Foreign text has one way out: commands that write directly write nothing foreign, and are listed here.
#[test]
fn commands_write_through_the_cleaner() {
    let own = ["recipe.rs", "dry_run.rs", "serve.rs", "import.rs", "show.rs", "render.rs"];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let raw = ["io::stdout()", "anstream::println!", "anstream::eprintln!"]
                .into_iter()
                .find(|raw| text.contains(raw));
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(raw.is_none() || own.contains(&name.as_str()), "{}: {raw:?}; see output.rs", path.display());
        }
    }
}

#[test]
fn a_run_cannot_write_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("run");
    std::fs::create_dir_all(copy.join("traces")).unwrap();
    for name in ["recipe.toml", "metrics.jsonl", "events.jsonl", "traces/00000.jsonl.zst", "traces/index"] {
        std::fs::copy(input(&format!("run/{name}")), copy.join(name)).unwrap();
    }
    let recipe = std::fs::read_to_string(copy.join("recipe.toml")).unwrap();
    let escaped = "name = \"x\\u001b]52;c;aGk=\\u0007\\u009b2J\\u202e\"";
    std::fs::write(copy.join("recipe.toml"), recipe.replacen("name = \"small\"", escaped, 1)).unwrap();
    let mut events = std::fs::read_to_string(copy.join("events.jsonl")).unwrap();
    let counted = json!({"episodes": 3, "first": HOSTILE});
    let faults = json!({"event": "faults", "step": 1, "episodes": 16, "faults": {"environment": counted}, "unscored": {HOSTILE: counted}, "skipped_optimizer_steps": [HOSTILE]});
    events.push_str(&format!("{faults}\n"));
    std::fs::write(copy.join("events.jsonl"), events).unwrap();
    let copy = copy.display().to_string();
    for arguments in
        [&["report", &copy][..], &["report", "--json", &copy], &["doctor", &copy], &["doctor", "--json", &copy]]
    {
        harmless(&hone(arguments));
    }
    let said = hone(&["report", &copy]);
    assert!(said.contains("3 training episodes broke, in 1 steps") && said.contains("\\u{1b}]52"), "{said}");
}

#[test]
fn lines_name_no_template_outside_of_the_given_directory() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("templates");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("mine.jinja"), "{{ messages[0].content }}").unwrap();
    std::fs::write(directory.path().join("secret"), "{{ broken").unwrap();
    let line = |template: &str| json!({"messages": [{"role": "user", "content": "hi"}], "template": template});
    let outside = directory.path().join("secret").display().to_string();
    let lines = format!("{}\n{}\n{}\n", line("mine.jinja"), line("../secret"), line(&outside));
    let said = run(directory.path(), &["render", "--jsonl", "--template", "templates", "-"], &lines);
    assert!(said.contains(r#""text":"hi""#), "{said}");
    assert_eq!(said.matches("lies outside of templates").count(), 2, "{said}");
    assert!(!said.contains("broken"), "{said}");
}
