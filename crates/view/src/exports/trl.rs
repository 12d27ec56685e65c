//! Completions as TRL logs them: one row per rollout with its prompt, its completion, a column per reward, and its advantage.

use std::path::{Path, PathBuf};

use hone_arena::rewards::TOTAL;
use serde_json::{Map, Value, json};

use super::{ExportError, each, failed, file};
use crate::run::{Call, Full, Message, Run};

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let mut written = Vec::new();
    for (step, range) in &run.events.steps {
        let path = into.join(format!("completions_{step:05}.jsonl"));
        written.push(file(&path, |out| {
            each(run, range.clone(), |full| writeln!(out, "{}", row(*step, &full)).map_err(failed(&path)))
        })?);
    }
    Ok(written)
}

fn row(step: u64, full: &Full) -> Value {
    let first = full.messages.iter().position(Message::is_agent).unwrap_or(full.messages.len());
    let (prompt, completion) = full.messages.split_at(first);
    let mut row = Map::new();
    row.insert("step".into(), json!(step));
    row.insert("prompt".into(), json!(prompt.iter().map(openai).collect::<Vec<_>>()));
    row.insert("completion".into(), json!(completion.iter().map(openai).collect::<Vec<_>>()));
    for reward in full.brief.rewards.iter().filter(|reward| reward.component != TOTAL) {
        row.insert(reward.component.clone(), json!(reward.value));
    }
    row.insert("reward".into(), json!(full.brief.total()));
    row.insert("advantage".into(), json!(full.brief.advantage.value()));
    row.insert("trace".into(), json!(full.brief.trace));
    Value::Object(row)
}

/// A message as OpenAI writes it.
pub(super) fn openai(message: &Message) -> Value {
    let mut out =
        Map::from_iter([("role".to_owned(), json!(message.role)), ("content".to_owned(), json!(message.content))]);
    if let Some(reasoning) = &message.reasoning {
        out.insert("reasoning_content".into(), json!(reasoning));
    }
    if !message.calls.is_empty() {
        let call =
            |call: &Call| json!({"type": "function", "function": {"name": call.name, "arguments": call.arguments}});
        out.insert("tool_calls".into(), json!(message.calls.iter().map(call).collect::<Vec<_>>()));
    }
    if let Some(name) = &message.name {
        out.insert("name".into(), json!(name));
    }
    Value::Object(out)
}
