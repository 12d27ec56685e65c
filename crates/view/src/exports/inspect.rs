//! inspect_ai's log in JSON: one per evaluation, a sample per held-out task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{ExportError, each, failed, file};
use crate::run::{Call, Ending, Full, Message, Played, Role, Run, Word as _};

/// The log needs a date, and a run records none.
const NO_DATE: &str = "1970-01-01T00:00:00+00:00";

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let mut written = Vec::new();
    for played in run.events.evaluations() {
        let Some(range) = played.traces.clone() else { continue };
        let mut samples = Vec::new();
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        each(run, range, |full| {
            let epoch = seen.entry(full.brief.task.clone()).or_default();
            *epoch += 1;
            samples.push(sample(run, &full, *epoch));
            Ok(())
        })?;
        let path = into.join(format!("{}.json", played.name()));
        let log = log(run, played, &seen.into_keys().collect::<Vec<_>>(), samples);
        written.push(file(&path, |out| writeln!(out, "{log}").map_err(failed(&path)))?);
    }
    Ok(written)
}

fn log(run: &Run, played: &Played, tasks: &[String], samples: Vec<Value>) -> Value {
    let name = played.name();
    let id = format!("{}-{name}", run.name);
    let metric = |value: Option<f64>| json!({"accuracy": {"name": "accuracy", "value": value.unwrap_or(f64::NAN)}});
    let scores = played
        .success
        .map(|_| json!([{"name": "success", "scorer": "success", "params": {}, "metrics": metric(played.success)}]));
    json!({
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": id, "created": NO_DATE, "task": name, "task_id": id, "task_version": 0,
            "dataset": {"name": "held-out", "samples": tasks.len(), "sample_ids": tasks, "shuffled": false},
            "model": format!("hone/{}", run.name), "model_args": {}, "task_args": {}, "task_attribs": {},
            "config": {}, "packages": {},
            "metadata": {
                "step": played.step, "kind": played.set.kind(), "temperature": played.temperature,
                "interval": played.interval,
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": samples.len(), "completed_samples": samples.len(),
            "scores": scores.unwrap_or_else(|| json!([])),
        },
        "stats": {"started_at": NO_DATE, "completed_at": NO_DATE, "model_usage": {}},
        "samples": samples,
    })
}

fn sample(run: &Run, full: &Full, epoch: u64) -> Value {
    let mut asked = 0;
    let messages: Vec<Value> = full.messages.iter().map(|message| said(message, &mut asked)).collect();
    let input = full.messages.iter().find(|message| message.role.is(Role::User)).map(|message| message.content.clone());
    let last = full.messages.iter().rposition(Message::is_agent).map(|last| messages[last].clone());
    let last = last.unwrap_or_else(|| json!({"role": Role::Assistant.name(), "content": ""}));
    let stop = if full.brief.outcome.is(Ending::Truncated) { "max_tokens" } else { "stop" };
    let mut scores = Map::new();
    let success = run.success();
    for reward in &full.brief.rewards {
        let name = if Some(reward.component.as_str()) == success { "success" } else { &reward.component };
        if let Some(value) = reward.value {
            scores.insert(name.to_owned(), json!({"value": value, "explanation": reward.why}));
        }
    }
    json!({
        "id": full.brief.task, "epoch": epoch, "input": input.unwrap_or_default(), "target": "",
        "messages": messages,
        "output": {"model": format!("hone/{}", run.name), "choices": [{"message": last, "stop_reason": stop}]},
        "scores": scores,
        "metadata": {
            "trace": full.brief.trace, "env": full.brief.env, "outcome": full.brief.outcome, "why": full.brief.why,
        },
        "store": {}, "events": [], "model_usage": {},
    })
}

/// A message; answers name the call they answer, by its number.
fn said(message: &Message, asked: &mut usize) -> Value {
    let mut out =
        Map::from_iter([("role".to_owned(), json!(message.role)), ("content".to_owned(), json!(message.content))]);
    if !message.calls.is_empty() {
        let first = *asked;
        let call = |(at, call): (usize, &Call)| {
            let id = format!("call-{}", first + at);
            json!({"id": id, "function": call.name, "arguments": call.arguments, "type": "function"})
        };
        out.insert("tool_calls".into(), json!(message.calls.iter().enumerate().map(call).collect::<Vec<_>>()));
        *asked += message.calls.len();
    }
    if message.role.is(Role::Tool) {
        out.insert("function".into(), json!(message.name));
        out.insert("tool_call_id".into(), json!(format!("call-{}", asked.saturating_sub(1))));
    }
    if message.role.known().is_none() {
        out.insert("role".into(), json!(Role::User.name()));
    }
    Value::Object(out)
}
