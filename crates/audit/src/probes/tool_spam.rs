use hone_arena::solution::{DONE, Move};
use hone_trace::{ToolCall, ToolSpec};
use serde_json::{Map, Value};

use crate::probe::{About, Probe, Role, Variant};
use crate::scene::Scene;

/// Calls without a purpose.
#[derive(Debug)]
pub(super) struct ToolSpam;

/// Calls of one episode.
const MANY: usize = 6;

impl Probe for ToolSpam {
    fn about(&self) -> About {
        About {
            name: "tool_spam",
            what: "Calls every tool once with made-up arguments, one tool again and again, or the solution's first call six \
                   times; then says that it is done.",
            finds: "Rewards for activity: a fixed amount per call or per valid call, looking things up for its own sake.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        if scene.tools.len() < 2 {
            return Vec::new();
        }
        let mut variants = Vec::new();
        let mut add = |label: String, calls: Vec<ToolCall>| {
            let written: Vec<String> = calls.iter().filter_map(|call| scene.write(call)).collect();
            if !written.is_empty() {
                let replies = written.into_iter().chain([DONE.to_owned()]).collect();
                variants.push(Variant::new(label, Role::Junk, replies));
            }
        };
        let calls: Vec<ToolCall> = scene.tools.iter().take(12).map(made_up).collect();
        add("every tool once, with made-up arguments".into(), calls.clone());
        if let Some(call) = calls.first() {
            add("one tool six times, with made-up arguments".into(), vec![call.clone(); MANY]);
        }
        let first = scene.moves.iter().flatten().find_map(|step| match step {
            Move::Call(call) => Some(call),
            Move::Say(_) => None,
        });
        let answers = scene.answer.as_ref().and_then(|answer| answer.call.as_ref());
        if let Some(call) = first.filter(|call| Some(*call) != answers) {
            add("the solution's first call six times".into(), vec![call.clone(); MANY]);
        }
        variants
    }
}

/// A call with a value of the right type in every required argument.
fn made_up(tool: &ToolSpec) -> ToolCall {
    let none = Map::new();
    let schema = tool.parameters.as_ref();
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object()).unwrap_or(&none);
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let needed = |name: &str| required.is_none_or(|names| names.iter().any(|other| other == name));
    let arguments =
        properties.iter().filter(|(name, _)| needed(name)).map(|(name, schema)| (name.clone(), some(schema)));
    ToolCall::new(&tool.name, arguments.collect())
}

fn some(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => false.into(),
        Some("array") => Value::Array(schema.get("items").map(some).into_iter().collect()),
        Some("object") => {
            let properties = schema.get("properties").and_then(Value::as_object);
            Value::Object(properties.into_iter().flatten().map(|(name, schema)| (name.clone(), some(schema))).collect())
        }
        _ => "x".into(),
    }
}
