//! Tools as the agent is offered them, and calls as it makes them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::names::nearest;

/// A tool the agent may call: name, description and a JSON Schema for its arguments.
///
/// The serde form is the OpenAI one, `{"type": "function", "function": {…}}`; the bare inner object is read too.
/// Unknown keys beside the three are kept in `extra`, so that a schema goes into the prompt as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ToolSpecForm", into = "ToolSpecForm")]
pub struct ToolSpec {
    pub name: String,
    pub description: Option<String>,
    /// JSON Schema of the arguments object. `None` when the author gave none: anything goes, and nothing is invented.
    pub parameters: Option<Value>,
    /// Other keys of the function object (`strict`, `return`, …), in their order.
    pub extra: Map<String, Value>,
}

impl ToolSpec {
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: Some(description.into()),
            parameters: Some(parameters),
            extra: Map::new(),
        }
    }

    /// The property names of the arguments object, in schema order.
    pub fn parameter_names(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .as_ref()
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// The OpenAI form, which chat templates expect.
    pub fn to_openai(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".into(), self.name.clone().into());
        if let Some(description) = &self.description {
            function.insert("description".into(), description.clone().into());
        }
        if let Some(parameters) = &self.parameters {
            function.insert("parameters".into(), parameters.clone());
        }
        function.extend(self.extra.clone());
        serde_json::json!({ "type": "function", "function": function })
    }
}

/// The wire form: wrapped or bare. Reading through it keeps the keys we do not know.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct ToolSpecForm(Value);

impl From<ToolSpec> for ToolSpecForm {
    fn from(spec: ToolSpec) -> Self {
        Self(spec.to_openai())
    }
}

impl TryFrom<ToolSpecForm> for ToolSpec {
    type Error = String;

    fn try_from(ToolSpecForm(form): ToolSpecForm) -> Result<Self, String> {
        let Value::Object(mut outer) = form else {
            return Err("a tool must be an object like {\"type\": \"function\", \"function\": {…}}".into());
        };
        let mut function = match outer.remove("function") {
            Some(Value::Object(function)) => function,
            Some(other) => return Err(format!("\"function\" must be an object, found {}", kind_of(&other))),
            None => outer,
        };
        let name = match function.shift_remove("name") {
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(other) => return Err(format!("a tool's \"name\" must be a non-empty string, found {other}")),
            None => return Err("a tool has no \"name\"".into()),
        };
        let description = match function.shift_remove("description") {
            Some(Value::String(text)) => Some(text),
            None | Some(Value::Null) => None,
            Some(other) => {
                return Err(format!("tool {name}: \"description\" must be a string, found {}", kind_of(&other)));
            }
        };
        if let Some((written, meant)) = misspelt(&function) {
            return Err(format!("tool {name}: there is no key {written:?}; did you mean {meant:?}?"));
        }
        let parameters = match function.shift_remove("parameters") {
            None | Some(Value::Null) => None,
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => Some(schema),
            Some(other) => {
                return Err(format!(
                    "tool {name}: \"parameters\" must be a JSON Schema object, found {}",
                    kind_of(&other)
                ));
            }
        };
        if function.get("type") == Some(&Value::String("function".into())) {
            function.shift_remove("type");
        }
        Ok(Self { name, description, parameters, extra: function })
    }
}

/// A key that was meant as the description or the parameters, where those are missing. Other keys belong to the author.
fn misspelt(function: &Map<String, Value>) -> Option<(&str, &'static str)> {
    const MEANT: [(&str, &[&str]); 2] =
        [("parameters", &["input_schema", "inputSchema", "args_schema"]), ("description", &[])];
    let missing = MEANT.iter().filter(|(meant, _)| !function.contains_key(*meant));
    missing.copied().find_map(|(meant, foreign)| {
        let like = |key: &&String| foreign.contains(&key.as_str()) || nearest(key, [meant]).is_some();
        Some((function.keys().find(like)?.as_str(), meant))
    })
}

/// A call the agent makes: a tool's name and its arguments, always an object.
///
/// Written flat, `{"name": …, "arguments": {…}}`. Read flat or in the OpenAI wrapping, with arguments as an object or
/// as a string that holds one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ToolCallForm")]
pub struct ToolCall {
    /// The call's id, where the wire or the format has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub name: String,
    pub arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct ToolCallForm {
    id: Option<String>,
    function: Option<FunctionForm>,
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct FunctionForm {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl TryFrom<ToolCallForm> for ToolCall {
    type Error = String;

    fn try_from(form: ToolCallForm) -> Result<Self, String> {
        let (name, arguments) = match (form.function, form.name) {
            (Some(function), _) => (function.name, function.arguments),
            (None, Some(name)) => (name, form.arguments),
            (None, None) => return Err("a tool call has no \"name\"".into()),
        };
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            Value::String(text) if text.trim().is_empty() => Map::new(),
            Value::String(text) => serde_json::from_str(&text)
                .map_err(|error| format!("the arguments of the call to {name} are not a JSON object: {error}"))?,
            other => {
                return Err(format!(
                    "the arguments of the call to {name} must be an object, found {}",
                    kind_of(&other)
                ));
            }
        };
        Ok(Self { id: form.id, name, arguments })
    }
}

impl ToolCall {
    pub fn new(name: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self { id: None, name: name.into(), arguments }
    }
}

/// The tools of one episode, with their digest. Built once, shared by every trace of the episode's task.
///
/// An empty set is a statement ("this agent has no tools"), never an omission: a [`crate::Trace`] cannot be built
/// without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ToolSpec>", into = "Vec<ToolSpec>")]
pub struct ToolSet {
    // Shared: every episode is opened with a clone.
    tools: Arc<[ToolSpec]>,
    digest: Digest,
}

/// Duplicate tool name: a call would be ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two tools are named {0:?}; a call could not say which one it means. Rename one of them")]
pub struct DuplicateTool(pub String);

impl ToolSet {
    pub fn new(tools: Vec<ToolSpec>) -> Result<Self, DuplicateTool> {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = tools.iter().find(|tool| !seen.insert(tool.name.as_str())) {
            return Err(DuplicateTool(twice.name.clone()));
        }
        let mut hasher = Sha256::new();
        for tool in &tools {
            hasher.update(tool.to_openai().to_string());
            hasher.update(b"\n");
        }
        Ok(Self { digest: Digest::from_bytes(hasher.finalize().into()), tools: tools.into() })
    }

    /// An agent that has no tools.
    pub fn none() -> Self {
        Self { tools: Arc::default(), digest: Digest::of(b"") }
    }

    /// SHA-256 over the OpenAI forms, one per line. It goes into the prompt record, so that a prompt rendered with
    /// tools other than the trace's is detected.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl std::ops::Deref for ToolSet {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        &self.tools
    }
}

impl TryFrom<Vec<ToolSpec>> for ToolSet {
    type Error = DuplicateTool;

    fn try_from(tools: Vec<ToolSpec>) -> Result<Self, DuplicateTool> {
        Self::new(tools)
    }
}

impl From<ToolSet> for Vec<ToolSpec> {
    fn from(set: ToolSet) -> Self {
        set.tools.to_vec()
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
