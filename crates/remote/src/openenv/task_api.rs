//! Task API: the tasks that a server lists. A reset with a task's fields selects it.

use std::time::Duration;

use hone_arena::registry::{HELD_OUT, RegistryError, TRAIN, set};
use hone_trace::{Task, TaskSet};
use indexmap::IndexMap;
use reqwest::Method;
use serde_json::{Value, json};

use super::wire::plain;
use super::{OpenEnvSpec, seconds};
use crate::http::Http;
use crate::supervise::cleanup::on_a_thread;
use crate::supervise::{Failure, Patience, Server};

/// The splits that a recipe names, requested from the server.
pub(super) fn splits(spec: &OpenEnvSpec, http: &Http, split: &str) -> Result<IndexMap<String, TaskSet>, RegistryError> {
    let wanted: Vec<String> =
        [Some(split), spec.held_out_split.as_deref()].into_iter().flatten().map(Into::into).collect();
    let (own, http) = (spec.clone(), http.fresh());
    let patience = seconds(spec.open_deadline_s) * 4 + Duration::from_secs(30);
    let listed = on_a_thread(patience, async move { list(&own, &http, &wanted).await });
    let mut lists = match listed {
        Some(Ok(lists)) => lists.into_iter(),
        Some(Err(failure)) => return Err(spec.wrong(failure.what)),
        None => return Err(spec.wrong(format!("the Task API did not answer within {} s", patience.as_secs()))),
    };
    let mut train = lists.next().unwrap_or_default();
    let held_out = match lists.next() {
        Some(tasks) => tasks,
        None if train.len() > spec.held_out => train.split_off(train.len() - spec.held_out),
        None => {
            let what = format!(
                "split {split:?} has {} tasks, which leaves none to train on beside held_out = {}; lower it, or name a \
                 held_out_split",
                train.len(),
                spec.held_out
            );
            return Err(spec.wrong(what));
        }
    };
    train.truncate(spec.tasks);
    Ok([set(&spec.name, TRAIN, split, train)?, set(&spec.name, HELD_OUT, split, held_out)?].into())
}

async fn list(spec: &OpenEnvSpec, http: &Http, splits: &[String]) -> Result<Vec<Vec<Task>>, Failure> {
    let server = Server::new(http.name());
    let patience = Patience::retried(seconds(spec.open_deadline_s), 3);
    let ask = || http.json(Method::GET, "list_environments", None);
    let names = server.call(&spec.name, "GET /list_environments", patience, ask).await?;
    let env = names
        .get(0)
        .and_then(Value::as_str)
        .ok_or_else(|| Failure::refused("the server lists no environment; leave `split` out for numbered tasks"))?;
    let mut lists = Vec::new();
    for split in splits {
        let (path, body) = (format!("{env}/tasks"), json!({"split": split}));
        let ask = || http.json(Method::POST, &path, Some(&body));
        let answer = server.call(&spec.name, "POST tasks", patience, ask).await?;
        let tasks = answer.get("tasks").and_then(Value::as_array).cloned().unwrap_or_default();
        lists.push(tasks.into_iter().enumerate().map(|(at, listed)| task(spec, split, at, listed)).collect());
    }
    Ok(lists)
}

fn task(spec: &OpenEnvSpec, split: &str, at: usize, listed: Value) -> Task {
    let text = |keys: &[&str]| keys.iter().find_map(|key| listed.get(*key)).filter(|value| !value.is_null()).map(plain);
    let key = text(&["key", "task_key", "id", "task_id", "name"]).unwrap_or_else(|| at.to_string());
    let prompt = text(&["prompt", "question", "instruction"]).unwrap_or_else(|| spec.prompt.clone());
    let mut task = Task::new(format!("{}-{split}-{key}", spec.name), &spec.name, prompt);
    task.extra.insert("reset".into(), if listed.is_object() { listed } else { json!({"task": listed}) });
    task
}
