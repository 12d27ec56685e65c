//! Tasks of tau-bench and tau2-bench data directories, as [`Task`]s.

use std::path::Path;

use hone_trace::{Task, ToolCall};
use serde_json::{Map, Value, json};

use super::Kind;

/// Why tasks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TasksError {
    #[error("cannot read {path}; a split is a file tasks_SPLIT.json, or listed in split_tasks.json")]
    Read { path: String, source: std::io::Error },
    #[error("{path} is not JSON")]
    Json { path: String, source: serde_json::Error },
    #[error("{path}: task {at}: {what}")]
    Shape { path: String, at: usize, what: String },
    #[error("task {key}: {what}; a reward without it would be another one, so take the task out of its split")]
    Unplayable { key: String, what: String },
    #[error("{path} has no split {split:?}; it has {known}")]
    Split { path: String, split: String, known: String },
}

/// The tasks of one split.
///
/// A v1 directory has `tasks_{split}.json`; a tau2 directory `tasks.json` with `split_tasks.json` (train, test, base).
pub fn load(kind: Kind, directory: &Path, split: &str) -> Result<Vec<Task>, TasksError> {
    let v1 = directory.join(format!("tasks_{split}.json"));
    if v1.exists() || !directory.join("tasks.json").exists() {
        return read(&v1, |at, task| tau1(kind, split, at, task));
    }
    let ids = split_ids(directory, split)?;
    let mut tasks = read(&directory.join("tasks.json"), |_, task| tau2(kind, task))?;
    tasks.retain(|task| ids.iter().any(|id| task.key.rsplit('/').next() == Some(id)));
    for task in &tasks {
        playable(task).map_err(|what| TasksError::Unplayable { key: task.key.clone(), what })?;
    }
    Ok(tasks)
}

fn read_json(path: &Path) -> Result<Value, TasksError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| TasksError::Read { path: shown.clone(), source })?;
    serde_json::from_str(&text).map_err(|source| TasksError::Json { path: shown, source })
}

fn read(path: &Path, task: impl Fn(usize, &Value) -> Result<Task, String>) -> Result<Vec<Task>, TasksError> {
    let listed = read_json(path)?;
    let listed = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let shape = |at, what| TasksError::Shape { path: path.display().to_string(), at, what };
    listed.iter().enumerate().map(|(at, value)| task(at, value).map_err(|what| shape(at, what))).collect()
}

fn split_ids(directory: &Path, split: &str) -> Result<Vec<String>, TasksError> {
    let path = directory.join("split_tasks.json");
    let splits = read_json(&path)?;
    let known = || splits.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
    let ids = splits.get(split).and_then(Value::as_array).ok_or_else(|| TasksError::Split {
        path: path.display().to_string(),
        split: split.to_owned(),
        known: known(),
    })?;
    Ok(ids.iter().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned)).collect())
}

/// A task of tau-bench: `{user_id, actions: [{name, kwargs}], instruction, outputs}`.
pub fn tau1(kind: Kind, split: &str, at: usize, value: &Value) -> Result<Task, String> {
    let env = kind.name();
    let text = |name: &str| value.get(name).and_then(Value::as_str).ok_or_else(|| format!("no {name:?}"));
    let mut task = Task::new(format!("{env}/{split}/{at}"), env, text("instruction")?);
    task.reference = Some(calls(value.get("actions"), "kwargs")?);
    task.outputs = texts(value.get("outputs"));
    task.verifier = Some(json!({ "kind": "tau", "basis": ["DB", "COMMUNICATE"] }));
    task.provenance = Some(format!("tau-bench {env} {split} {at}"));
    task.extra.insert("user_id".into(), text("user_id")?.into());
    Ok(task)
}

/// A task of tau2-bench: `{id, user_scenario, initial_state, evaluation_criteria: {actions, communicate_info, nl_assertions,
/// reward_basis}}`.
pub fn tau2(kind: Kind, value: &Value) -> Result<Task, String> {
    let env = kind.name();
    let id = match value.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(id @ Value::Number(_)) => id.to_string(),
        _ => return Err("no \"id\"".into()),
    };
    let scenario = value.get("user_scenario").ok_or("no \"user_scenario\"")?;
    let mut task = Task::new(format!("tau2/{env}/{id}"), env, scenario_text(scenario));
    let criteria = value.get("evaluation_criteria").cloned().unwrap_or_default();
    // The calls of a simulated user with tools of its own are not the agent's solution; these domains have none.
    task.reference = Some(calls(criteria.get("actions"), "arguments")?);
    task.outputs = texts(criteria.get("communicate_info"));
    task.verifier = Some(json!({
        "kind": "tau2",
        "basis": criteria.get("reward_basis").cloned().unwrap_or_else(|| json!(["DB", "COMMUNICATE"])),
        "nl_assertions": criteria.get("nl_assertions").cloned().unwrap_or_default(),
    }));
    task.provenance = Some(format!("tau2-bench {env} {id}"));
    let kept = ["user_scenario", "initial_state", "description"];
    task.extra.extend(kept.iter().filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone()))));
    Ok(task)
}

/// Refuses a task of which a part would be passed over: a state that is not set up, a reward that nobody computes.
pub(super) fn playable(task: &Task) -> Result<(), String> {
    const DECIDED: [&str; 3] = ["DB", "COMMUNICATE", "NL_ASSERTION"];
    let basis = task.verifier.as_ref().and_then(|verifier| verifier.get("basis")?.as_array()).into_iter().flatten();
    for part in basis {
        if !part.as_str().is_some_and(|part| DECIDED.contains(&part)) {
            return Err(format!("{part} of its reward_basis is not evaluated here ({} are)", DECIDED.join(", ")));
        }
    }
    let state = task.extra.get("initial_state").and_then(Value::as_object);
    let set = state.into_iter().flatten().find(|(_, value)| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    set.map_or(Ok(()), |(name, _)| Err(format!("{name} of its initial_state is not set up here")))
}

/// The scenario in the words tau2's user simulator is given.
fn scenario_text(scenario: &Value) -> String {
    let indent = |text: &str| {
        let lines = text.split_inclusive('\n');
        lines.map(|line| if line.trim().is_empty() { line.to_owned() } else { format!("\t{line}") }).collect::<String>()
    };
    let instructions =
        match scenario.get("instructions") {
            Some(Value::String(text)) => text.clone(),
            Some(fields) => {
                let headings = [
                    ("reason_for_call", "Reason for call"),
                    ("known_info", "Known info"),
                    ("unknown_info", "Unknown info"),
                    ("task_instructions", "Task instructions"),
                ];
                let mut lines =
                    vec![format!("Domain: {}", fields.get("domain").and_then(Value::as_str).unwrap_or_default())];
                lines.extend(headings.iter().filter_map(|(name, heading)| {
                    Some(format!("{heading}:\n{}", indent(fields.get(*name)?.as_str()?)))
                }));
                lines.join("\n")
            }
            None => String::new(),
        };
    let persona = scenario.get("persona").and_then(Value::as_str);
    let persona = persona.map(|persona| format!("Persona:\n{}\n", indent(persona))).unwrap_or_default();
    format!("{persona}Instructions:\n{}", indent(&instructions))
}

fn calls(actions: Option<&Value>, arguments: &str) -> Result<Vec<ToolCall>, String> {
    let actions = actions.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let call = |action: &Value| {
        let name = action.get("name").and_then(Value::as_str).ok_or("an action has no \"name\"")?;
        let given = action.get(arguments).and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
        Ok(ToolCall::new(name, given))
    };
    actions.iter().map(call).collect()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
