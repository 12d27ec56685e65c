//! The adapters, run with the local Python: two need no package, and tau2-bench has a stand-in of a few lines.
//! scripts/adapters_interop.py runs them with the packages themselves.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use hone_arena::rewards::Case;
use hone_arena::rewards::spec::RubricSpec;
use hone_trace::{Action, ToolCall};
use hone_worlds::registry::EnvSpec;
use serde_json::{Value, json};

fn adapter(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters").join(name).canonicalize().unwrap()
}

#[test]
fn adapters_are_short() {
    for name in ["gym_env.py", "reward_function.py", "tau2_env.py", "verifiers_env.py"] {
        let lines = std::fs::read_to_string(adapter(name)).unwrap().lines().count();
        assert!(lines < 100, "{name} has {lines} lines");
    }
}

const COUNTER: &str = r#"
class Counter:
    """Reach the target, which is the seed's last digit, one step at a time."""
    def reset(self, seed=None):
        self.at, self.target = 0, seed % 10
        return f"reach {self.target} from 0", {}
    def step(self, action):
        print("environments print")
        self.at += 1 if action == "up" else -1
        return f"at {self.at}", float(self.at == self.target), self.at == self.target, self.at > 20, {}
"#;

#[tokio::test]
async fn a_gymnasium_like_environment_is_played_to_its_reward() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("counter.py"), COUNTER).unwrap();
    let table = json!({
        "name": "counter", "command": ["python3", adapter("gym_env.py"), "counter:Counter"],
        "directory": directory.path(), "tasks": 1, "held_out": 1, "prompt": "Count.",
    });
    let environment = EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap();
    let mut task = environment.splits["train"][0].clone();
    task.extra.insert("reset".into(), json!({"seed": 13}));
    let mut episode = environment.arena.open(&task, 0).await.unwrap();
    assert!(episode.first[0].content().unwrap().text().contains("reach 3 from 0"));
    let left = Case::read(Value::Object(episode.env.end().facts)).unwrap().env_reward.unwrap();
    assert!(
        left.value.is_none() && !left.ended,
        "an episode that ends before its first step is unfinished, not unscored"
    );
    let mut step = async |calls: usize| {
        let up = ToolCall::new("act", json!({"action": "up"}).as_object().unwrap().clone());
        let turn = episode.env.step(Action::Calls(vec![up; calls])).await.unwrap();
        (turn, Case::read(Value::Object(episode.env.end().facts)).unwrap().env_reward.unwrap())
    };
    let (turn, given) = step(1).await;
    assert!(!turn.done && given.value.is_none() && !given.ended);
    let (turn, given) = step(2).await;
    assert!(turn.done && turn.messages.len() == 2);
    assert_eq!((given.value, given.ended), (Some(1.0), true));
}

/// Files that only `close` closes: something else keeps hold of them.
const KEEPER: &str = r#"
kept = []
class Keeper:
    def __init__(self): kept.append(open("/dev/null"))
    def reset(self, seed=None): return "go", {}
    def step(self, action): return "", 0.0, True, False, {}
    def close(self): kept.pop().close()
"#;

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_gymnasium_like_environment_is_closed_with_its_episode() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("keeper.py"), KEEPER).unwrap();
    let table = json!({
        "name": "keeper", "command": ["python3", adapter("gym_env.py"), "keeper:Keeper"],
        "directory": directory.path(), "tasks": 1, "held_out": 1,
    });
    let environment = EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap();
    let task = &environment.splits["train"][0];
    let mut files = Vec::new();
    for _ in 0..8 {
        // What was closed before is closed once this one is open.
        let _episode = environment.arena.open(task, 0).await.unwrap();
        let held = environment.arena.holds().await;
        files.push(held.iter().find(|held| held.kind == "open files").unwrap().count);
    }
    assert!(files.iter().all(|count| *count == files[0]), "{files:?}");
}

const REWARDS: &str = r#"
def right(completions, answer, **kwargs):
    print("reward functions print")
    return [None if one is None else float(one in said[-1]["content"]) for said, one in zip(completions, answer)]

def short(prompts, completions):
    return [1.0 / (1 + len(text)) for text in completions]

def broken(completions, **kwargs):
    raise ValueError("no")
"#;

#[tokio::test]
async fn a_trl_style_reward_function_is_a_component() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rewards.py");
    std::fs::write(&file, REWARDS).unwrap();
    let component = |name: &str, flags: &[&str]| {
        let mut command = vec!["python3".to_owned(), adapter("reward_function.py").display().to_string()];
        command.push(format!("{}:{name}", file.display()));
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let options = json!({"command": command});
        RubricSpec::single("stdio", options.as_object().unwrap().clone()).build().unwrap()
    };
    let case = json!({"completion": "it is 42", "question": "what is it?", "reference": "42", "correct": true});
    let case = Case::read(case).unwrap();
    for (name, flags, value) in
        [("short", &["--text"][..], Some(1.0 / 9.0)), ("broken", &[], None), ("right", &[], Some(1.0))]
    {
        let rubric = component(name, flags);
        assert_eq!(rubric.score_case(&case).await.total.value(), value, "{name}");
    }
}

/// Stand-in for the parts of tau2-bench that the adapter calls: a registry, and a simulation behind Gymnasium's reset and step.
const TAU2: [(&str, &str); 6] = [
    ("tau2/__init__.py", ""),
    ("tau2/gym/__init__.py", ""),
    ("tau2/utils/__init__.py", ""),
    (
        "tau2/utils/tools.py",
        r#"
import json
class Parsed: tool_calls = None
def parse_action_string(text):
    parsed = Parsed()
    if text.startswith("{"): parsed.tool_calls = [json.loads(text)]
    elif text.endswith(")"): parsed.tool_calls = [{"name": text.split("(")[0], "arguments": {}}]
    else: parsed.text = text
    return parsed
"#,
    ),
    (
        "tau2/registry.py",
        r#"
class Task:
    def __init__(self, id): self.id, self.ticket = id, "A ticket for " + id
class Registry:
    def get_task_splits_loader(self, domain): return lambda: {"train": ["one"], "test": ["two"]}
    def get_tasks_loader(self, domain): return lambda: [Task("one"), Task("two"), Task("three")]
registry = Registry()
"#,
    ),
    (
        "tau2/gym/gym_agent.py",
        r#"
import json
from tau2.registry import Task
from tau2.utils.tools import parse_action_string
class Tool:
    def __init__(self, name):
        self.openai_schema = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
class AgentGymEnv:
    def __init__(self, domain, task_id, solo_mode=False):
        self.task, self.solo_mode, self.asked = Task(task_id), solo_mode, 0
    def about(self, run):
        return {"task": self.task, "policy": "Be kind.", "simulation_run": json.dumps(run), "reward_info": self._get_reward()[1],
                "tools": [Tool("fix"), Tool("done")]}
    def _get_reward(self): return float(self.asked == 2), json.dumps({"reward_breakdown": {"DB": self.asked}})
    def reset(self): return "" if self.solo_mode else "user: Hello: help me", self.about({})
    def step(self, text):
        print("simulations print")
        parsed = parse_action_string(text)
        if parsed.tool_calls is None: return "user: I said: fix it", 0.0, False, False, self.about({})
        name = parsed.tool_calls[0]["name"]
        if name == "done": return "", self._get_reward()[0], True, False, self.about({"termination_reason": "agent_stop"})
        if name == "crash": return "", 0.0, True, False, self.about({})
        if name != "fix": return "tool: Error: no tool " + name, 0.0, False, False, self.about({})
        self.asked += 1
        return "tool: fixed: " + str(self.asked), 0.0, False, False, self.about({})
"#,
    ),
];

#[tokio::test]
async fn tau2_bench_is_played_through_its_own_simulation() {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in TAU2 {
        let path = directory.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let adapter = std::fs::read_to_string(adapter("tau2_env.py")).unwrap();
    std::fs::write(directory.path().join("tau2_env.py"), adapter).unwrap();
    let open = |options: &str| {
        let table = json!({
            "name": "desk", "command": ["python3", "tau2_env.py", "desk", options],
            "directory": directory.path(), "tasks": 1, "held_out": 1, "prompt": "",
        });
        EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
    };
    let calls =
        |names: &[&str]| Action::Calls(names.iter().map(|name| ToolCall::new(*name, serde_json::Map::new())).collect());
    let environment = open("{}");
    let mut episode = environment.arena.open(&environment.splits["train"][0], 0).await.unwrap();
    assert!(episode.system.ends_with("Be kind."), "{}", episode.system);
    assert_eq!(episode.first[0].content().unwrap().text(), "Hello: help me");
    let turn = episode.env.step(Action::Reply("What is it?".into())).await.unwrap();
    assert_eq!(turn.messages[0].content().unwrap().text(), "I said: fix it");
    let turn = episode.env.step(Action::Reply("fix()".into())).await.unwrap();
    assert!(
        turn.messages[0].content().unwrap().text().contains("Call tools as tools"),
        "a text is never run as a call"
    );
    let turn = episode.env.step(calls(&["fix", "break"])).await.unwrap();
    assert_eq!((turn.failed, turn.messages.len(), turn.done), (1, 2, false));
    assert_eq!(turn.messages[0], hone_trace::Message::tool("fix", "fixed: 1"));
    let turn = episode.env.step(calls(&["fix", "done", "fix"])).await.unwrap();
    assert!(turn.done);
    let given = Case::read(Value::Object(episode.env.end().facts)).unwrap().env_reward.unwrap();
    assert_eq!((given.value, given.ended), (Some(1.0), true));
    assert_eq!(given.why, "given: {'DB': 2}");

    // A broken simulation earns 0 there; here it is a fault.
    let environment = open(r#"{"solo_mode": true}"#);
    let mut episode = environment.arena.open(&environment.splits["held-out"][0], 0).await.unwrap();
    assert_eq!(episode.first[0].content().unwrap().text(), "A ticket for two");
    let fault = episode.env.step(calls(&["crash"])).await.unwrap_err();
    assert!(fault.transient && fault.what.contains("the simulation broke"), "{fault}");
}
