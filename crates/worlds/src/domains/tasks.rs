//! Tasks of tau-bench and tau2-bench data directories, as [`Task`]s.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use hone_arena::solution::{DONE, SAYS, Say};
use hone_trace::{Task, ToolCall};
use serde_json::{Map, Value, json};

use super::initial::Named;
use super::{Domain, Kind};

/// Reason why tasks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TasksError {
    #[error("cannot read {path}; a split is a file tasks_SPLIT.json, or listed in split_tasks.json")]
    Read { path: String, source: std::io::Error },
    #[error("{path} is not JSON; restore it from the data set")]
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
/// A v1 directory has `tasks_{split}.json`; a tau2 directory has `tasks.json` with `split_tasks.json` (train, test,
/// base). A separate file may also hold tau2's tasks, as telecom's `tasks_small.json` does.
pub fn load(kind: Kind, directory: &Path, split: &str) -> Result<Vec<Task>, TasksError> {
    let own = directory.join(format!("tasks_{split}.json"));
    let tasks = if own.exists() || !directory.join("tasks.json").exists() {
        read(&own, |at, task| match task.get("user_scenario") {
            Some(_) => tau2(kind, task),
            None => tau1(kind, split, at, task),
        })?
    } else {
        let ids = split_ids(directory, split)?;
        let mut tasks = read(&directory.join("tasks.json"), |_, task| tau2(kind, task))?;
        let start = format!("tau2/{}/", kind.name());
        tasks.retain(|task| task.key.strip_prefix(&start).is_some_and(|id| ids.contains(id)));
        tasks
    };
    for task in &tasks {
        playable(kind, task).map_err(|what| TasksError::Unplayable { key: task.key.clone(), what })?;
    }
    Ok(tasks)
}

/// Sets up every task's initial state once, so that an invalid one is found before a run.
pub fn check(domain: &Arc<Domain>, tasks: &[Task]) -> Result<(), TasksError> {
    for task in tasks {
        domain.begin(task).map_err(|what| TasksError::Unplayable { key: task.key.clone(), what })?;
    }
    Ok(())
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

fn split_ids(directory: &Path, split: &str) -> Result<HashSet<String>, TasksError> {
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
    let part = |name: &str| value.get("evaluation_criteria").and_then(|criteria| criteria.get(name));
    let acts = acts(part("actions"))?;
    let says = says(&acts);
    task.reference = Some(acts.into_iter().filter(|(by, _)| !by).map(|(_, call)| call).collect());
    task.outputs = texts(part("communicate_info"));
    // A task without criteria always succeeds.
    let none = value.get("evaluation_criteria").is_none_or(Value::is_null);
    let basis = if none { json!([]) } else { json!(["DB", "COMMUNICATE"]) };
    task.verifier = Some(json!({
        "kind": "tau2",
        "basis": part("reward_basis").cloned().unwrap_or(basis),
        "actions": part("actions").cloned().unwrap_or_default(),
        "env_assertions": part("env_assertions").cloned().unwrap_or_default(),
        "nl_assertions": part("nl_assertions").cloned().unwrap_or_default(),
    }));
    task.provenance = Some(format!("tau2-bench {env} {id}"));
    let kept = ["user_scenario", "initial_state", "description", "ticket", "user_tools"];
    task.extra.extend(kept.iter().filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone()))));
    if let Some(says) = says {
        task.extra.insert(SAYS.into(), json!(says));
    }
    Ok(task)
}

/// Task for an agent that also has the user's tools: the user's part of the solution becomes the agent's, and there is
/// nobody to talk to.
pub fn solo(mut task: Task) -> Result<Task, String> {
    if task.extra.get("ticket").and_then(Value::as_str).is_none() {
        return Err("it has no ticket, which is all that an agent in solo mode is told".into());
    }
    let actions = task.verifier.as_ref().and_then(|verifier| verifier.get("actions"));
    let mut calls: Vec<_> = acts(actions)?.into_iter().map(|(_, call)| call).collect();
    calls.push(ToolCall::new(super::service::STOP, Map::new()));
    task.reference = Some(calls);
    task.extra.insert(SAYS.into(), json!([]));
    Ok(task)
}

/// Calls of a reference, each with a flag: true for the user's.
fn acts(actions: Option<&Value>) -> Result<Vec<(bool, ToolCall)>, String> {
    let users = actions.and_then(Value::as_array).into_iter().flatten();
    let users = users.map(|action| action.get("requestor").and_then(Value::as_str) == Some("user"));
    Ok(users.zip(calls(actions, "arguments")?).collect())
}

/// The agent's words in a solution that involves the user's tools: it asks for each of them by name.
fn says(acts: &[(bool, ToolCall)]) -> Option<Vec<Say>> {
    if acts.iter().all(|(by_user, _)| !by_user) {
        return None;
    }
    let (mut says, mut before) = (Vec::new(), 0);
    for (by_user, call) in acts {
        if *by_user {
            let arguments = if call.arguments.is_empty() { String::new() } else { json!(call.arguments).to_string() };
            says.push(Say { before, text: format!("Please use {}({arguments}) on your phone.", call.name) });
        } else {
            before += 1;
        }
    }
    says.push(Say { before, text: DONE.into() });
    Some(says)
}

/// Refuses a task of which a part would be ignored: an unknown function, or a reward part that is not computed.
pub(super) fn playable(kind: Kind, task: &Task) -> Result<(), String> {
    const DECIDED: [&str; 5] = ["DB", "COMMUNICATE", "NL_ASSERTION", "ACTION", "ENV_ASSERTION"];
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let verifier = |name: &str| list(task.verifier.as_ref().and_then(|verifier| verifier.get(name)));
    for part in verifier("basis") {
        if !part.as_str().is_some_and(|part| DECIDED.contains(&part)) {
            return Err(format!("{part} of its reward_basis is not evaluated here ({} are)", DECIDED.join(", ")));
        }
    }
    let state = task.extra.get("initial_state").filter(|state| !state.is_null());
    let parts = ["initialization_data", "initialization_actions", "message_history"];
    let known = |name: &&String| !parts.contains(&name.as_str());
    if let Some(name) = state.and_then(Value::as_object).and_then(|state| state.keys().find(known)) {
        return Err(format!("{name} of its initial_state is not set up here ({} are)", parts.join(", ")));
    }
    for action in list(state.and_then(|state| state.get("initialization_actions"))) {
        let named = Named::read(&action).and_then(|named| named.check(kind));
        named.map_err(|what| format!("initialization_actions of its initial_state: {what}"))?;
    }
    for assertion in verifier("env_assertions") {
        let named = Named::read(&assertion).and_then(|named| {
            named.check(kind)?;
            let asserts = named.name.starts_with("assert_");
            if asserts { Ok(()) } else { Err(format!("{} asserts nothing: it has no truth value", named.name)) }
        });
        named.map_err(|what| format!("ENV_ASSERTION of its reward_basis: {what}"))?;
    }
    Ok(())
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
