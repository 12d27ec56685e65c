//! Typical beginner mistakes: each error names its cause and what to do.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::run;

/// An environment over stdio, with a line of Python to run on `open`.
fn program(on_open: &str) -> String {
    format!(
        r#"import json, sys
sys.tracebacklimit = 0
TOOL = {{"name": "look", "description": "Look", "parameters": {{"type": "object", "properties": {{"at": {{"type": "string"}}}}, "required": ["at"]}}}}
for line in sys.stdin:
    ask = json.loads(line)
    answer = {{"id": ask.get("id")}}
    if ask["op"] == "open":
        {on_open}
    elif ask["op"] == "step":
        raise ValueError("no such state")
    elif ask["op"] == "close":
        continue
    print(json.dumps(answer), flush=True)
"#
    )
}

const OPENS: &str = r#"answer |= {"system": "s", "tools": [TOOL], "messages": [{"role": "user", "content": "Go."}]}"#;

/// A recipe for it.
const RECIPE: &str = "[env]\nname = \"mine\"\ncommand = [\"python3\", \"env.py\"]\ntasks = 32\nheld_out = 4\n\
                      start_deadline_s = 4.0\ndeadline_s = 4.0\n[[rubric.component]]\nkind = \"correct\"\n[eval]\ntasks = 4\n";

/// An environment whose every task can be solved by one call of `look`, and what a step with a call answers.
fn solvable(step: &str) -> String {
    program(OPENS).replace("raise ValueError(\"no such state\")", &format!("answer |= {step}"))
}

/// Tasks with solutions for it.
fn solved_tasks() -> String {
    let task = |n: u32| {
        let call = r#"{"name": "look", "arguments": {"at": "x"}}"#;
        format!("{{\"key\": \"t{n}\", \"prompt\": \"Go {n}.\", \"reference\": [{call}]}}\n")
    };
    (0..40).map(task).collect()
}

/// Command of a mistake, and the directory's files by name.
struct Mistake<'a> {
    what: &'a str,
    files: Vec<(&'a str, String)>,
    arguments: Vec<&'a str>,
    stdin: &'a str,
}

fn mistake<'a>(what: &'a str, arguments: &[&'a str], files: &[(&'a str, &str)]) -> Mistake<'a> {
    let files = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    Mistake { what, files, arguments: arguments.to_vec(), stdin: "" }
}

fn policy(name: &str) -> String {
    format!("{}/policies/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Removes local sizes and paths, and whole recipes.
fn plain(text: &str) -> String {
    let word = |word: &str, next: Option<&&str>| {
        let unit = next.map(|next| next.trim_end_matches([':', ';', ',', ')']));
        let size = matches!(unit, Some("GB" | "MB")) && word.parse::<f64>().is_ok();
        if size { "N".to_owned() } else { word.rsplit_once("/python3:").map_or(word, |_| "python3:").to_owned() }
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        words.iter().enumerate().map(|(at, one)| word(one, words.get(at + 1))).collect::<Vec<_>>().join(" ")
    };
    // What fits depends on free memory.
    let fitting = |line: String| match line.split_once("that fits: train.batch_tokens = ") {
        Some((before, number)) if number.parse::<u64>().is_ok() => format!("{before}that fits: train.batch_tokens = N"),
        _ => line,
    };
    let lines: Vec<String> = text.lines().map(line).map(fitting).collect();
    match (lines.iter().position(|line| line == "── stdout"), lines.iter().position(|line| line == "── stderr"))
    {
        (Some(out), Some(aside)) if aside > out + 40 => [&lines[..=out], &["…".to_owned()], &lines[aside..]].concat(),
        _ => lines,
    }
    .join("\n")
}

fn page(mistakes: &[Mistake<'_>]) -> String {
    let mut page = String::new();
    for Mistake { what, files, arguments, stdin } in mistakes {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let began = Instant::now();
        let said = run(directory.path(), arguments, stdin).replace(&policy(""), "POLICIES/");
        // Shown by `cargo test -p hone --test face mistakes -- --nocapture`; an answer should take under 5 s.
        eprintln!("{:5.1} s  {what}", began.elapsed().as_secs_f64());
        assert!(!said.starts_with("exit code 0\n"), "{what}: {said}");
        writeln!(page, "════ {what}\n{}\n", plain(&said)).unwrap();
    }
    page
}

#[test]
fn with_the_model() {
    let shop = policy("shop");
    let shop = format!("policy.model={shop}");
    let own = ("env.py", &*program(OPENS));
    let (mine, other) = (("mine.toml", RECIPE), policy("triage-reader"));
    let mixed = tempfile::tempdir().unwrap();
    for (from, file) in
        [(policy("shop"), "config.json"), (policy("shop"), "model.safetensors"), (other, "tokenizer.json")]
    {
        std::fs::copy(Path::new(&from).join(file), mixed.path().join(file)).unwrap();
    }
    let mixed = mixed.path().display().to_string();
    let page = page(&[
        mistake("no model, a built-in environment", &["train", "retail"], &[]),
        mistake("no model, an environment of one's own", &["train", "mine.toml"], &[mine, own]),
        mistake("a model that is not there", &["train", "mine.toml", "--set", "policy.model=modell"], &[mine, own]),
        mistake("a model that is none", &["train", "mine.toml", "--set", "policy.model=."], &[mine, own]),
        mistake("the tokenizer of another model", &["model", "info", &mixed], &[]),
        mistake("more memory than there is", &["train", "--dry-run", "--set", "train.batch_tokens=500000000"], &[]),
        mistake(
            "a window that the first prompt fills",
            &["train", "mine.toml", "--set", &shop, "--set", "rollout.window=16"],
            &[mine, own],
        ),
        mistake("tasks without solutions to imitate", &["sft", "mine.toml", "--out", "policy"], &[mine, own]),
        mistake("a talk with nobody", &["chat", "nowhere"], &[]),
        mistake(
            "an evaluation whose episodes all break",
            &["eval", "--recipe", "mine.toml", "--set", &shop, "--only", "greedy", "--out", "e"],
            &[mine, ("env.py", &program("raise ValueError('no world')"))],
        ),
        mistake("prompts that are no JSON", &["generate", &policy("shop"), "p.jsonl"], &[("p.jsonl", "Hello\n")]),
    ]);
    insta::assert_snapshot!(page.replace(&mixed, "MIXED"));
}

#[test]
fn with_the_recipe() {
    let with = |text: &str| format!("{RECIPE}{text}");
    let misspelt = RECIPE.replace("\"correct\"", "\"corect\"");
    insta::assert_snapshot!(page(&[
        mistake("no such file", &["train", "recipe.toml"], &[]),
        mistake("no such recipe", &["train", "quickstrat"], &[]),
        mistake(
            "a key that is misspelt",
            &["train", "mine.toml"],
            &[("mine.toml", &with("[train]\nlearning_rte = 1\n"))]
        ),
        mistake(
            "a key of another tool",
            &["train", "mine.toml"],
            &[("mine.toml", &with("[train]\nnum_generations = 8\n"))]
        ),
        mistake("text for a number", &["train", "mine.toml"], &[("mine.toml", &with("[train]\nsteps = \"many\"\n"))]),
        mistake("a component that is misspelt", &["train", "mine.toml"], &[("mine.toml", &misspelt)]),
        mistake("a success that is no component", &["train", "--set", "eval.success=reward"], &[]),
        mistake("an environment that is misspelt", &["train", "--set", "env.name=shp"], &[]),
        mistake("greedy training", &["train", "--set", "sampling.temperature=0"], &[]),
        mistake("one episode a task", &["train", "--set", "train.group_size=1"], &[]),
        mistake("JSON where TOML is meant", &["env", "show", "mine", "--set", "user={\"model\": 1}"], &[]),
        mistake("going on with nothing", &["train", "--resume", "runs/none"], &[]),
        mistake("going on with a recipe", &["train", "--resume", "mine.toml"], &[("mine.toml", RECIPE)]),
        mistake("a directory for its recipe", &["train", "."], &[("recipe.toml", RECIPE)]),
        mistake("a directory without one", &["check", "."], &[]),
        mistake("a key as a flag", &["train", "mine.toml", "--steps", "3"], &[("mine.toml", RECIPE)]),
        mistake("a key outside of its table", &["train", "--set", "steps=3"], &[]),
        mistake("a key of another table", &["train", "--set", "train.temperature=1"], &[]),
        mistake("a key without a value", &["train", "--set", "policy.model"], &[]),
        mistake("a number with a letter", &["train", "--set", "train.learning_rate=3e-4x"], &[]),
        mistake("more tasks than are held out", &["train", "--set", "eval.tasks=999"], &[]),
        mistake("a program without its list", &["train", "--set", "env.command=python3 env.py"], &[]),
        mistake("no step at all", &["train", "--set", "train.steps=0"], &[]),
    ]));
}

#[test]
fn with_the_environment() {
    let own = program(OPENS);
    let (mine, show) = (("mine.toml", RECIPE), ["env", "show", "mine.toml"]);
    let crashing = program("raise ValueError('no world for this task')");
    let printing = program("print('debug: opening'); raise ValueError('no world')");
    let toolless = program(&OPENS.replace("[TOOL]", "[]"));
    let schema = program(&OPENS.replace("[TOOL]", "[{**TOOL, 'parameters': {'type': 'objekt'}}]"));
    let silent = program("continue");
    let slow = RECIPE.replace("4.0", "0.3");
    let filed = RECIPE.replace("tasks = 32", "task_file = \"tasks.jsonl\"");
    let mut play = mistake("a step that raises", &["env", "play", "mine.toml"], &[mine, ("env.py", &own)]);
    play.stdin = "look there\n";
    insta::assert_snapshot!(page(&[
        mistake("a script that is not there", &show, &[mine]),
        mistake("a program that is not there", &show, &[("mine.toml", &RECIPE.replace("python3", "pyhton3"))]),
        mistake("an exception when it opens", &show, &[mine, ("env.py", &crashing)]),
        mistake("a debug print on stdout, then an exception", &show, &[mine, ("env.py", &printing)]),
        mistake("no tools", &show, &[mine, ("env.py", &toolless)]),
        mistake("a schema that is none", &show, &[mine, ("env.py", &schema)]),
        mistake("no answer", &show, &[("mine.toml", &slow), ("env.py", &silent)]),
        mistake("no task file", &show, &[("mine.toml", &filed), ("env.py", &own)]),
        mistake(
            "a task that is no JSON",
            &show,
            &[("mine.toml", &filed), ("env.py", &own), ("tasks.jsonl", "hello\n")]
        ),
        mistake(
            "fewer tasks than are held out",
            &show,
            &[("mine.toml", &filed), ("env.py", &own), ("tasks.jsonl", "{\"key\": \"a\", \"prompt\": \"b\"}\n")],
        ),
        play,
        mistake("a program for an environment", &["env", "show", "env.py"], &[("env.py", &own)]),
        mistake(
            "a server that is not there",
            &["env", "show", "x", "--set", "kind=openenv", "--set", "url=http://127.0.0.1:1"],
            &[]
        ),
        mistake("a project over a file", &["init", "env.py"], &[("env.py", &own)]),
        mistake(
            "an oracle without a solution",
            &["env", "play", "mine.toml", "--as", "oracle"],
            &[mine, ("env.py", &own)]
        ),
    ]));
}

/// Faults of an environment that only its answers show: a run is refused before it trains on them.
#[test]
fn with_the_environments_answers() {
    let tasks = solved_tasks();
    let recipe =
        RECIPE.replace("tasks = 32", "task_file = \"tasks.jsonl\"").replace("4.0", "60.0") + "[sft]\nsteps = 1\n";
    let recipe = recipe.replace("kind = \"correct\"\n", "kind = \"correct\"\notherwise = 0\n");
    let shop = format!("policy.model={}", policy("shop"));
    let train = ["train", "mine.toml", "--set", &shop];
    let files = |env: &str| -> Vec<(&'static str, String)> {
        vec![("mine.toml", recipe.clone()), ("tasks.jsonl", tasks.clone()), ("env.py", env.to_owned())]
    };
    let one = |what: &'static str, env: &str| Mistake { what, files: files(env), arguments: train.to_vec(), stdin: "" };
    let correct =
        r#"{"messages": [{"role": "tool", "name": "look", "content": "x"}], "done": True, "facts": {"correct": True}}"#;
    let unflushed = solvable(correct).replace(", flush=True", "");
    insta::assert_snapshot!(page(&[
        one("an answer with a misspelt key", &solvable(&correct.replace("messages", "mesages"))),
        one("messages that are a text", &solvable(r#"{"messages": "hi"}"#)),
        one("a step that raises", &program(OPENS)),
        one("a fact that is misspelt", &solvable(&correct.replace("correct", "corect"))),
        one("a fact that is a text", &solvable(&correct.replace("True}", "\"yes\"}"))),
        one("an answer that is not flushed", &unflushed),
    ]));
}

/// A policy that fits the recipe, or the command that makes one.
#[test]
fn with_the_policy() {
    insta::assert_snapshot!(page(&[
        mistake("a policy inside for other options", &["train", "desk-small"], &[]),
        mistake("a setting that changes the environment", &["train", "--set", "env.name=telecom"], &[]),
        mistake("a name of the hub", &["train", "retail", "--set", "policy.model=Qwen/Qwen3-0.6B"], &[]),
        mistake(
            "a name of the hub to imitate with",
            &["sft", "retail", "--set", "policy.model=Qwen/Qwen3-0.6B", "--out", "x"],
            &[]
        ),
    ]));
}

/// A run has one writer.
#[test]
fn two_runs_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let _writer =
        hone_trace::rundir::RunDir::create(&directory.path().join("x"), "[env]\nname = \"shop\"\ndifficulty = 3\n")
            .unwrap();
    let said = run(directory.path(), &["train", "--resume", "x"], "");
    assert!(!said.starts_with("exit code 0\n"), "{said}");
    insta::assert_snapshot!(plain(&said));
}

/// Paths in a recipe are relative to it, for `hone eval` too.
#[test]
fn a_recipe_elsewhere_is_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let ends = "answer |= {\"done\": True, \"facts\": {\"correct\": True}}";
    let text = program(OPENS).replace("raise ValueError(\"no such state\")", ends);
    std::fs::write(there.join("env.py"), text).unwrap();
    let recipe = RECIPE.replace("tasks = 32\nheld_out = 4", "task_file = \"tasks.jsonl\"\nheld_out = 4");
    std::fs::write(there.join("mine.toml"), recipe).unwrap();
    let task = |n: u32| {
        format!(
            "{{\"key\": \"t{n}\", \"prompt\": \"Go.\", \"reference\": [{{\"name\": \"look\", \"arguments\": {{\"at\": \"x\"}}}}]}}\n"
        )
    };
    std::fs::write(there.join("tasks.jsonl"), (0..8).map(task).collect::<String>()).unwrap();
    let said = run(directory.path(), &["eval", "oracle", "--recipe", "there/mine.toml"], "");
    assert!(said.starts_with("exit code 0\n") && said.contains("4 of 4"), "{said}");
}
