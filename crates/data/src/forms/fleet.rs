//! Fleet's task JSON with all its aliases, SkyRL's rows, and our own lines: one reader for the three, since they differ
//! in names, not in meaning.

use hone_trace::Task;
use serde_json::{Map, Value};

use super::fields::{Fields, kind};
use super::{Context, Read, Trouble};

const KEY: &[&str] = &["key", "task_key", "task_id", "id"];
const ENV: &[&str] = &["env", "env_id", "env_key", "environment_id", "data_source"];

pub(super) fn read(fields: Map<String, Value>, context: &Context) -> Result<Read, Trouble> {
    let mut fields = Fields::new(fields);
    let key = fields.text("key", KEY)?.filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| {
        Trouble::new("key", "the task has no key", "give every task a \"key\" (or task_key, id) of its own")
    })?;
    let env = fields.text("env", ENV)?.filter(|env| !env.is_empty()).or_else(|| context.env.clone());
    let env_by_file = env.is_none() && context.env_by_file.is_some();
    let env = env.or_else(|| context.env_by_file.clone()).ok_or_else(|| {
        Trouble::new("env", "the task names no environment", "add \"env_id\" (or env_key), or name one with --env")
    })?;
    let prompt = prompt(&mut fields)?;
    let mut task = Task::new(key, env, prompt);
    task.variables = fields.variables(&["variables", "env_variables"])?;
    task.modality = fields.modality(&["modality", "task_modality"])?;
    task.difficulty = fields.difficulty();
    task.reference = fields.calls(&["reference", "reference_calls", "actions"])?;
    task.outputs = fields.texts("outputs", &["outputs"])?;
    task.provenance = fields.text("provenance", &["provenance"])?;
    task.verifier = verifier(&mut fields)?;
    let side = fields.side();
    for (name, aliases) in [("env_version", ["env_version", "version"]), ("data_key", ["data_key", "data_id"])] {
        if let Some(text) = fields.text("version", &aliases)? {
            task.extra.insert(name.into(), text.into());
        }
    }
    let (rest, repairs) = fields.into_rest();
    task.extra.extend(rest);
    Ok(Read { task, side, repairs, env_by_file })
}

/// A text, or SkyRL's list of messages, of which the user's are the prompt. Messages of other roles come from the
/// environment, and content that is not text cannot be a prompt: both are reported.
fn prompt(fields: &mut Fields) -> Result<String, Trouble> {
    let missing = || Trouble::new("prompt", "the task asks for nothing", "add a \"prompt\"");
    let text = match fields.take(&["prompt"]) {
        None => return Err(missing()),
        Some(Value::String(text)) => text,
        Some(Value::Array(messages)) => {
            let (mut said, mut left) = (Vec::new(), Vec::new());
            for message in &messages {
                match message["role"].as_str() {
                    Some("user") => said_by_user(&message["content"], &mut said, &mut left),
                    role => left.push(format!("a message of {}", role.unwrap_or("nobody"))),
                }
            }
            if !left.is_empty() {
                let reason = format!("{} was left out of the prompt", left.join(" and "));
                fields.repaired("prompt", reason, "write what the user asks; the recipe has the system prompt");
            }
            said.join("\n\n")
        }
        Some(other) => {
            let reason = format!("a text or a list of messages is expected, found {}", kind(&other));
            return Err(Trouble::new("prompt", reason, "write \"prompt\": \"…\""));
        }
    };
    if text.trim().is_empty() { Err(missing()) } else { Ok(text) }
}

/// Message content: a text, or parts, some of which are text.
fn said_by_user(content: &Value, said: &mut Vec<String>, left: &mut Vec<String>) {
    match content {
        Value::String(text) => said.push(text.clone()),
        Value::Array(parts) => {
            for part in parts {
                match part["text"].as_str() {
                    Some(text) => said.push(text.to_owned()),
                    None => left.push(format!("a part of type {}", part["type"].as_str().unwrap_or("unknown"))),
                }
            }
        }
        other => left.push(format!("{} as content", kind(other))),
    }
}

/// One object from the aliases of a verifier's parts; `None` without any.
fn verifier(fields: &mut Fields) -> Result<Option<Value>, Trouble> {
    let mut parts = match fields.take(&["verifier", "reward_spec"]) {
        None => Map::new(),
        Some(Value::Object(parts)) => parts,
        Some(other) => return Ok(Some(other)),
    };
    for (name, aliases) in [
        ("code", ["verifier_func", "verifier_code"]),
        ("verifier_id", ["verifier_id", "verifier_id"]),
        ("sha256", ["verifier_sha", "verifier_sha"]),
        ("runtime_version", ["verifier_runtime_version", "verifier_runtime_version"]),
    ] {
        if let Some(text) = fields.text("verifier", &aliases)? {
            parts.insert(name.into(), text.into());
        }
    }
    // Older files have them one level deeper.
    let within = |path: &str| fields.get("metadata").and_then(|metadata| metadata.pointer(path)).cloned();
    for (name, path) in [("verifier_id", "/verifier/verifier_id"), ("runtime_version", "/verifier_runtime_version")] {
        if let (false, Some(value @ Value::String(_))) = (parts.contains_key(name), within(path)) {
            parts.insert(name.into(), value);
        }
    }
    Ok((!parts.is_empty()).then_some(Value::Object(parts)))
}

#[cfg(test)]
mod tests {
    use hone_trace::{Modality, Side};
    use serde_json::json;

    use super::*;

    fn read_json(value: Value) -> Result<Read, Trouble> {
        read(value.as_object().cloned().unwrap(), &Context::default())
    }

    #[test]
    fn aliases_are_one_task() {
        let ours = json!({"key": "a", "env": "booking", "prompt": "Book it.", "variables": {"CURRENT_DATE": "2025-01-31"},
            "verifier": {"code": "def f(env): return 1", "verifier_id": "v"}, "env_version": "v1", "data_key": "kinesis",
            "difficulty": 2, "split": "train"});
        let fleet = json!({"task_key": "a", "env_id": "booking", "prompt": "Book it.",
            "env_variables": "{\"CURRENT_DATE\": \"2025-01-31\"}", "verifier_func": "def f(env): return 1",
            "verifier_id": "v", "version": "v1", "data_id": "kinesis", "difficulty": 2, "task_modality": "tool_use",
            "split": "train"});
        let sky = json!({"task_key": "a", "data_source": "booking", "prompt": [{"role": "user", "content": "Book it."}],
            "env_variables": "{\"CURRENT_DATE\": \"2025-01-31\"}", "verifier": {"code": "def f(env): return 1"},
            "verifier_id": "v", "env_version": "v1", "data_key": "kinesis", "difficulty": 2, "split": "train"});
        let [ours, fleet, sky] = [ours, fleet, sky].map(|form| read_json(form).unwrap());
        assert!(ours.repairs.is_empty() && fleet.repairs.is_empty() && sky.repairs.is_empty());
        assert_eq!((&ours.task, ours.side), (&fleet.task, Some(Side::Train)));
        assert_eq!(ours.task, sky.task);
        assert_eq!(ours.task.variables["CURRENT_DATE"], "2025-01-31");
        // It reads back as it was written.
        assert_eq!(read_json(serde_json::to_value(&ours.task).unwrap()).unwrap().task, ours.task);
    }

    #[test]
    fn a_verifier_may_be_named_in_the_metadata() {
        let row = |extra: Value| {
            let mut row = json!({"key": "a", "env": "e", "prompt": "p", "verifier_func": "code",
                "metadata": {"verifier": {"verifier_id": "old"}, "verifier_runtime_version": "3.11"}});
            row.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
            read_json(row).unwrap().task
        };
        let old = row(json!({}));
        let verifier = old.verifier.unwrap();
        assert_eq!((&verifier["verifier_id"], &verifier["runtime_version"]), (&json!("old"), &json!("3.11")));
        assert_eq!(row(json!({"verifier_id": "own"})).verifier.unwrap()["verifier_id"], "own");
        assert_eq!(old.extra["metadata"]["verifier"]["verifier_id"], "old", "what was read stays where it was");
    }

    #[test]
    fn messages_are_a_prompt_and_what_is_left_out_of_it_is_told() {
        let messages = |prompt: Value| read_json(json!({"key": "a", "env": "e", "prompt": prompt})).unwrap();
        let parts = json!([{"type": "text", "text": "Look at"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "this."}]);
        let read = messages(json!([{"role": "system", "content": "Be terse."}, {"role": "user", "content": parts}]));
        assert_eq!(read.task.prompt, "Look at\n\nthis.");
        assert!(
            read.repairs.len() == 1
                && read.repairs[0].reason.contains("system")
                && read.repairs[0].reason.contains("image_url")
        );
        assert!(messages(json!([{"role": "user", "content": "hi"}])).repairs.is_empty());
    }

    #[test]
    fn what_is_wrong_names_its_field_and_what_was_repaired_is_told() {
        let good = json!({"key": "a", "env": "e", "prompt": "p"});
        let with = |name: &str, value: Value| {
            let mut row = good.clone();
            row[name] = value;
            read_json(row)
        };
        for (name, value) in [
            ("key", json!({})),
            ("env", Value::Null),
            ("prompt", json!("  ")),
            ("env_variables", json!([1])),
            ("env_variables", json!("{")),
            ("task_modality", json!("dreaming")),
            ("reference", json!([{"arguments": {}}])),
            ("outputs", json!("x")),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.field == name && !error.fix.is_empty(), "{name}: {error:?}");
        }
        for (name, value) in [
            ("key", json!(7)),
            ("env_variables", json!({"A": 1})),
            ("difficulty", json!("2")),
            ("difficulty", json!("hard")),
            ("split", json!("maybe")),
        ] {
            let read = with(name, value).unwrap();
            assert!(read.repairs.len() == 1 && read.repairs[0].field == name, "{name}: {:?}", read.repairs);
        }
        assert_eq!(with("difficulty", json!("2")).unwrap().task.difficulty, Some(2));
        assert_eq!(with("task_modality", json!("browser_use")).unwrap().task.modality, Modality::Browser);
        assert_eq!(
            with("actions", json!([{"name": "f", "kwargs": {"a": 1}}])).unwrap().task.reference.unwrap().len(),
            1
        );
    }
}
