//! Random caller: valid calls of the offered tools, with values it has read, and no idea what they do.

use hone_trace::{Action, Content, Message, Rng, Seed, ToolCall, ToolSet, ToolSpec};
use serde_json::{Map, Value};

use super::Baseline;
use crate::solution::DONE;

/// Calls a random tool with arguments that fit its schema, then another, and stops after a while.
#[derive(Debug, Clone, Copy)]
pub struct RandomCaller {
    /// Maximum calls of an episode. Before each call it stops with probability 1 / `calls`.
    pub calls: usize,
}

impl Default for RandomCaller {
    fn default() -> Self {
        Self { calls: 8 }
    }
}

/// Depth to which schemas are followed.
const DEPTH: usize = 4;

impl Baseline for RandomCaller {
    fn name(&self) -> &'static str {
        "calls at random"
    }

    fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Action {
        let mut rng = seed.rng();
        let acted = said.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let stops = acted >= self.calls || (acted > 0 && rng.below(self.calls.max(1)) == 0);
        let specs: Vec<&ToolSpec> = tools.iter().collect();
        match rng.pick(&specs) {
            Some(tool) if !stops => {
                let arguments = Draw { rng: &mut rng, seen: seen(said) }.arguments(tool);
                Action::Calls(vec![ToolCall::new(&tool.name, arguments)])
            }
            _ => Action::Reply(DONE.into()),
        }
    }
}

/// Values found in the conversation.
#[derive(Debug, Default)]
struct Seen {
    texts: Vec<String>,
    numbers: Vec<i64>,
}

/// Quoted strings, strings that look like ids, and every leaf of answers that are JSON. The system prompt is excluded:
/// its examples are not real values.
fn seen(said: &[Message]) -> Seen {
    let mut seen = Seen::default();
    let others = said.iter().filter(|message| !matches!(message, Message::System { .. } | Message::Assistant { .. }));
    for text in others.filter_map(Message::content).map(Content::text) {
        if let Ok(value) = serde_json::from_str(&text) {
            leaves(&value, &mut seen);
        }
        seen.texts.extend(text.split('"').skip(1).step_by(2).map(str::to_owned));
        for word in text.split(|c: char| c.is_whitespace() || "\"'.,;:!?()[]{}".contains(c)) {
            if let Ok(number) = word.parse() {
                seen.numbers.push(number);
            } else if word.contains(|c: char| c.is_ascii_digit() || "#@_".contains(c)) {
                seen.texts.push(word.to_owned());
            }
        }
    }
    seen.texts.retain(|text| !text.is_empty());
    seen
}

fn leaves(value: &Value, seen: &mut Seen) {
    match value {
        Value::String(text) => seen.texts.push(text.clone()),
        Value::Number(number) => seen.numbers.extend(number.as_i64()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, seen)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, seen)),
        Value::Null | Value::Bool(_) => {}
    }
}

struct Draw<'a> {
    rng: &'a mut Rng,
    seen: Seen,
}

impl Draw<'_> {
    fn arguments(&mut self, tool: &ToolSpec) -> Map<String, Value> {
        let root = tool.parameters.clone().unwrap_or_default();
        self.object(&root, &root, 0)
    }

    /// Every required property, the others every second time.
    fn object(&mut self, schema: &Value, root: &Value, depth: usize) -> Map<String, Value> {
        let required = |name: &str| {
            let names = schema["required"].as_array();
            names.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if required(name) || self.rng.below(2) == 0 {
                let value = self.value(property, root, depth);
                object.insert(name.clone(), value);
            }
        }
        object
    }

    fn value(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        if let Some(target) = schema["$ref"].as_str().and_then(|path| root.pointer(path.trim_start_matches('#'))) {
            return if depth < DEPTH { self.value(target, root, depth + 1) } else { Value::Null };
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return self.rng.pick(choices).cloned().unwrap_or_default();
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(one) = schema[key].as_array().and_then(|all| self.rng.pick(all)).filter(|_| depth < DEPTH) {
                return self.value(&one.clone(), root, depth + 1);
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.rng.pick(kinds).and_then(Value::as_str).unwrap_or("string"),
            kind => kind.as_str().unwrap_or("string"),
        };
        match kind {
            "integer" | "number" => self.number(schema).into(),
            "boolean" => (self.rng.below(2) == 0).into(),
            "array" => self.array(schema, root, depth),
            "object" => self.object(schema, root, depth + 1).into(),
            "null" => Value::Null,
            _ => self.text().into(),
        }
    }

    fn number(&mut self, schema: &Value) -> i64 {
        let low = schema["minimum"].as_f64().map_or(i64::MIN, |low| low.ceil() as i64);
        let high = schema["maximum"].as_f64().map_or(i64::MAX, |high| high.floor() as i64);
        let fits: Vec<i64> = self.seen.numbers.iter().copied().filter(|number| (low..=high).contains(number)).collect();
        let small = 1 + self.rng.below(9) as i64;
        self.rng.pick(&fits).copied().unwrap_or_else(|| small.clamp(low, high.max(low)))
    }

    fn array(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(1).min(8) as usize;
        let count = least + self.rng.below(2);
        let most = schema["maxItems"].as_u64().map_or(usize::MAX, |most| most as usize);
        if depth >= DEPTH {
            return Value::Array(Vec::new());
        }
        (0..count.min(most)).map(|_| self.value(&schema["items"], root, depth + 1)).collect()
    }

    fn text(&mut self) -> String {
        self.rng.pick(&self.seen.texts).cloned().unwrap_or_else(|| "unknown".into())
    }
}
