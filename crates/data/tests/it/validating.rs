//! A small world with planted bad tasks: each is rejected for its own fault, and no good task is rejected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hone_arena::player::{Acted, Player};
use hone_arena::rewards::spec::RubricSpec;
use hone_data::validate::{Bench, Label, Lint, Reason, Rules, rejected_row};
use hone_data::{Place, Row};
use hone_trace::{
    Action, Arena, Boundary, EndState, Env, Episode, Fault, Message, Seed, Task, ToolCall, ToolSet, ToolSpec, Turn,
};
use serde_json::{Map, Value, json};

use crate::read;

/// A counter that `add` raises; the task's verifier says how it must end, and how the verifier misbehaves.
struct Counter {
    /// Verdicts given so far, by task.
    verdicts: Arc<Mutex<HashMap<String, Arc<AtomicU32>>>>,
}

struct Counting {
    task: Task,
    value: i64,
    verdicts: Arc<AtomicU32>,
}

#[async_trait]
impl Arena for Counter {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        if task.verifier.as_ref().is_some_and(|verifier| verifier["breaks"] == "open") {
            return Err(Fault::new(Boundary::Environment, "no such data"));
        }
        let schema = json!({"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]});
        let tools =
            ToolSet::new(vec![ToolSpec::new("add", "Adds.", schema.clone()), ToolSpec::new("look", "Looks.", schema)]);
        let verdicts = Arc::clone(self.verdicts.lock().unwrap().entry(task.key.clone()).or_default());
        Ok(Episode {
            tools: tools.unwrap(),
            system: String::new(),
            first: vec![Message::user(&task.prompt)],
            env: Box::new(Counting { task: task.clone(), value: 0, verdicts }),
        })
    }
}

#[async_trait]
impl Env for Counting {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        let Action::Calls(calls) = action else { return Ok(Turn { done: true, ..Turn::default() }) };
        let mut turn = Turn::default();
        for call in calls {
            let by = call.arguments.get("by").and_then(Value::as_i64);
            let text = match (call.name.as_str(), by) {
                ("add", Some(by)) if by > 0 => {
                    self.value += by;
                    "ok".to_owned()
                }
                ("look", Some(_)) => self.value.to_string(),
                _ => {
                    turn.failed += 1;
                    "Error: not a positive number".to_owned()
                }
            };
            turn.messages.push(Message::tool(call.name, text));
        }
        Ok(turn)
    }

    fn end(&mut self) -> EndState {
        let verifier = self.task.verifier.clone().unwrap_or_default();
        let given = self.verdicts.fetch_add(1, Ordering::Relaxed);
        let right = match verifier["kind"].as_str() {
            Some("always") => Some(true),
            Some("flaky") => Some(self.value == verifier["wants"] && given.is_multiple_of(2)),
            Some("raises") => None,
            Some("raises-later") => (self.value == 0).then_some(false),
            _ => Some(verifier["wants"] == self.value),
        };
        let made = if self.value == 0 { json!([]) } else { json!([{"path": "/value", "to": self.value}]) };
        let mut facts = Map::new();
        facts.insert("changes".into(), json!({"made": made, "wanted": []}));
        facts.insert("writes".into(), json!(["add"]));
        if let Some(right) = right {
            facts.insert("correct".into(), right.into());
        }
        EndState { facts }
    }
}

fn call(name: &str, by: i64) -> ToolCall {
    ToolCall::new(name, Map::from_iter([("by".to_owned(), by.into())]))
}

fn task(key: &str, verifier: Value, reference: Option<Vec<ToolCall>>) -> Task {
    let mut task = Task::new(key, "counter", format!("Count, for {key}."));
    task.variables.insert("CURRENT_DATE".into(), "2025-01-31".into());
    task.verifier = Some(verifier);
    task.reference = reference;
    task
}

fn planted() -> Vec<(Task, Option<Reason>)> {
    let wants = |value: i64| json!({ "wants": value });
    let good = |key: &str, by: i64| task(key, wants(by), Some(vec![call("look", 0), call("add", by)]));
    let mut undated = good("undated", 2);
    undated.variables.clear();
    let mut twin = good("good-1", 3);
    twin.key = "twin".into();
    vec![
        (good("good-1", 3), None),
        (good("good-2", 4), None),
        (task("no-op", wants(0), Some(vec![call("look", 1)])), None),
        (task("failing-call", wants(3), Some(vec![call("add", -1), call("add", 3)])), Some(Reason::ReferenceCallFails)),
        (task("passes-on-seed", json!({"kind": "always"}), Some(vec![call("add", 1)])), Some(Reason::PassesOnSeed)),
        (task("flaky", json!({"kind": "flaky", "wants": 3}), Some(vec![call("add", 3)])), Some(Reason::FlakyVerifier)),
        (task("raises", json!({"kind": "raises"}), Some(vec![call("add", 3)])), Some(Reason::VerifierException)),
        (task("broken", json!({"breaks": "open"}), Some(vec![call("add", 3)])), Some(Reason::EnvironmentFault)),
        (task("wrong-reference", wants(5), Some(vec![call("add", 3)])), Some(Reason::ReferenceDoesNotPass)),
        (task("unsolvable", wants(5), None), Some(Reason::Unsolvable)),
        (undated, Some(Reason::MissingDate)),
        (twin, Some(Reason::Duplicate)),
        (good("good-3", 5), None),
    ]
}

fn bench(rules: Rules) -> Bench {
    Bench {
        arena: Arc::new(Counter { verdicts: Arc::default() }),
        rubric: Arc::new(RubricSpec::single("correct", Map::new()).build().unwrap()),
        success: "correct".into(),
        teacher: None,
        rules,
    }
}

fn rows() -> Vec<Row> {
    let row = |(task, _)| Row { task, side: None, at: Place { file: Arc::from("t"), line: 1 } };
    planted().into_iter().map(row).collect()
}

#[tokio::test]
async fn planted_tasks_are_rejected_for_what_is_wrong_and_no_good_one_is() {
    let (bench, rows) = (bench(Rules::default()), rows());
    let lint = Lint::of(&rows);
    for (task, expected) in planted() {
        let (found, detail, labels, shown) = if let Some((reason, detail)) = lint.check(&task, &bench.rules) {
            (Some(reason), detail, Vec::new(), true)
        } else {
            let checked = bench.check(&task).await;
            (checked.finding.rejected, checked.finding.detail, checked.finding.labels, !checked.traces.is_empty())
        };
        assert_eq!(found, expected, "{}: {detail}", task.key);
        assert_eq!(found.is_some(), !detail.is_empty(), "{}", task.key);
        // Tasks rejected by playing have their traces; an unsolvable task has the trace of doing nothing.
        assert_eq!(found.is_some(), shown, "{}", task.key);
        assert_eq!(labels.contains(&Label::NoOp), task.key == "no-op");
    }
}

#[tokio::test]
async fn rules_filter_by_what_is_wanted() {
    let by_key = |key: &str| planted().into_iter().find(|(task, _)| task.key == key).unwrap().0;
    let rejected =
        |rules: Rules, key: &'static str| async move { bench(rules).check(&by_key(key)).await.finding.rejected };
    assert_eq!(rejected(Rules { drop_no_op: true, ..Rules::default() }, "no-op").await, Some(Reason::NoOp));
    let easy = Rules { teacher: 3, max_solved: 0.5, ..Rules::default() };
    assert_eq!(rejected(easy, "good-1").await, Some(Reason::TooEasy));
    let taught = bench(Rules { teacher: 3, ..Rules::default() }).check(&by_key("good-1")).await.finding;
    assert_eq!(
        (taught.rejected, taught.solved, taught.before, taught.after),
        (None, Some([3, 3]), Some(0.0), Some(1.0))
    );
    let required = Rules { require_variables: vec!["LOGGED_IN_USER".into()], ..Rules::default() };
    assert_eq!(
        Lint::of(&rows()).check(&by_key("good-1"), &required).map(|found| found.0),
        Some(Reason::MissingVariable)
    );
    // A failing read may be tolerated; a failing write may not.
    let mut read = by_key("good-1");
    read.reference.as_mut().unwrap().insert(0, ToolCall::new("look", Map::new()));
    let forgiving = Rules { failing_reads: true, ..Rules::default() };
    assert_eq!(bench(forgiving.clone()).check(&read).await.finding.rejected, None);
    assert_eq!(bench(Rules::default()).check(&read).await.finding.rejected, Some(Reason::ReferenceCallFails));
    assert_eq!(
        bench(forgiving).check(&by_key("failing-call")).await.finding.rejected,
        Some(Reason::ReferenceCallFails)
    );
}

/// A teacher that adds a given number, or cannot be reached.
struct Adds(Option<i64>);

#[async_trait]
impl Player for Adds {
    async fn act(&self, _tools: &ToolSet, said: &[Message], _seed: Seed) -> Result<Acted, Fault> {
        let by = self.0.ok_or_else(|| Fault::new(Boundary::Sampler, "status: 401"))?;
        let first = !said.iter().any(|message| matches!(message, Message::Assistant { .. }));
        let action = if first { Action::Calls(vec![call("add", by)]) } else { Action::Reply("Done.".into()) };
        Ok(action.into())
    }

    fn name(&self) -> String {
        "adds".into()
    }
}

#[tokio::test]
async fn a_teacher_that_is_down_and_a_verifier_that_raises_are_no_unsolvable_task() {
    let taught = |by: Option<i64>, verifier: Value| async move {
        let bench = Bench { teacher: Some(Arc::new(Adds(by))), ..bench(Rules::default()) };
        bench.check(&task("open", verifier, None)).await.finding
    };
    assert_eq!(taught(Some(5), json!({"wants": 5})).await.rejected, None);
    assert_eq!(taught(Some(4), json!({"wants": 5})).await.rejected, Some(Reason::Unsolvable));
    let raises = taught(Some(5), json!({"kind": "raises-later", "wants": 5})).await;
    assert_eq!(raises.rejected, Some(Reason::VerifierException), "{}", raises.detail);
    let down = taught(None, json!({"wants": 5})).await;
    assert_eq!(down.rejected, Some(Reason::TeacherFault), "{}", down.detail);
    assert!(Reason::TeacherFault.may_pass() && !Reason::Unsolvable.may_pass());
}

#[tokio::test]
async fn errors_on_the_way_are_accepted_where_the_rules_say_so() {
    let task = task("retry", json!({"wants": 3}), Some(vec![call("add", -1), call("add", 3)]));
    let strict = bench(Rules::default()).check(&task).await.finding;
    assert_eq!(strict.rejected, Some(Reason::ReferenceCallFails));
    assert!(strict.detail.contains("failing_calls"), "{}", strict.detail);
    let rules = Rules { failing_calls: true, ..Rules::default() };
    assert_eq!(bench(rules).check(&task).await.finding.rejected, None);
}

#[test]
fn tasks_that_differ_in_what_they_are_judged_by_are_no_duplicates() {
    let row = |key: &str, prompt: &str, wants: i64, team: &str| {
        let mut task = task(key, json!({"wants": wants, "verifier_id": key}), None);
        task.prompt = prompt.into();
        task.extra.insert("team_id".into(), team.into());
        Row { task, side: None, at: Place { file: Arc::from("t"), line: 1 } }
    };
    let rows = [
        row("a", "Guess the number.", 1, "x"),
        row("b", "Guess the number.", 2, "x"),
        row("c", "Guess  the\nnumber.", 1, "y"),
    ];
    let lint = Lint::of(&rows);
    let found = rows.each_ref().map(|row| lint.check(&row.task, &Rules::default()).map(|found| found.0));
    assert_eq!(found, [None, None, Some(Reason::Duplicate)]);
}

#[test]
fn rows_that_could_not_be_read_are_rejected_for_their_cause() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.jsonl");
    let lines = [
        r#"{"key": "a", "env_key": "e", "prompt": "One."}"#,
        r#"{"key": "a", "env_key": "e", "prompt": "One."}"#,
        r#"{"key": "a", "env_key": "e", "prompt": "Two."}"#,
        r#"{"key": "b", "env_key": "e", "prompt": 2}"#,
        "[]",
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let (rows, issues) = read(&[path.to_str().unwrap()], None);
    let reasons: Vec<_> = issues.iter().filter_map(|issue| rejected_row(issue).rejected).collect();
    let expected = [Reason::Duplicate, Reason::Duplicate, Reason::WrongSchema, Reason::WrongSchema];
    assert_eq!((rows.len(), reasons.as_slice()), (1, expected.as_slice()), "{issues:?}");
}
