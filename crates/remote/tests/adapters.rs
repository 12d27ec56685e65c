//! The adapters, run with the Python there is: no package is needed for these two.
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
    for name in ["gym_env.py", "reward_function.py", "verifiers_env.py"] {
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
