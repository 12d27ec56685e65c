//! Actions of an OpenEnv environment as tools: MCP tools through step actions, or one tool for each action type.

use hone_trace::{ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// Agent actions according to the action schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Actions {
    /// The environment is a set of MCP tools; its actions are `list_tools` and `call_tool`.
    Mcp,
    /// Typed actions, each a tool.
    Typed(Vec<ActionType>),
}

/// One action type.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionType {
    pub tool: ToolSpec,
    /// Fields that identify the type; the agent does not fill them in.
    fixed: Map<String, Value>,
}

impl Actions {
    /// Reads the `action` schema of `/schema`.
    pub fn read(schema: &Value) -> Result<Self, String> {
        let Some(object) = schema.as_object() else { return Err("the action schema is not an object".into()) };
        let defs = object.get("$defs").or_else(|| object.get("definitions"));
        let variants = ["oneOf", "anyOf"].iter().find_map(|key| object.get(*key).and_then(Value::as_array));
        let types = match variants {
            Some(variants) => variants.iter().map(|variant| resolve(variant, defs)).collect::<Result<Vec<_>, _>>()?,
            None => vec![resolve(schema, defs)?],
        };
        if types.iter().any(is_call_tool) {
            return Ok(Self::Mcp);
        }
        let types = types.iter().map(|schema| action_type(schema, defs)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Typed(types))
    }

    /// The action for a call; `None` if no action type has its name.
    pub fn action(&self, call: &ToolCall) -> Option<Value> {
        match self {
            Self::Mcp => Some(json!({"type": "call_tool", "tool_name": call.name, "arguments": call.arguments})),
            Self::Typed(types) => {
                let found = types.iter().find(|kind| kind.tool.name == call.name)?;
                let mut action = call.arguments.clone();
                action.extend(found.fixed.clone());
                Some(Value::Object(action))
            }
        }
    }
}

/// A schema, or what its `$ref` points to.
fn resolve(schema: &Value, defs: Option<&Value>) -> Result<Value, String> {
    let Some(target) = schema.get("$ref").and_then(Value::as_str) else { return Ok(schema.clone()) };
    let name = target.rsplit('/').next().unwrap_or_default();
    defs.and_then(|defs| defs.get(name))
        .cloned()
        .ok_or_else(|| format!("the action schema refers to {target:?}, which it lacks"))
}

fn is_call_tool(schema: &Value) -> bool {
    schema.pointer("/properties/tool_name").is_some()
        && schema.pointer("/properties/type/const").and_then(Value::as_str) == Some("call_tool")
}

fn action_type(schema: &Value, defs: Option<&Value>) -> Result<ActionType, String> {
    let mut parameters = schema.as_object().cloned().ok_or("an action type is not an object")?;
    let title = parameters.shift_remove("title");
    let description = parameters.shift_remove("description");
    let mut fixed = Map::new();
    if let Some(Value::Object(properties)) = parameters.get_mut("properties") {
        properties.shift_remove("metadata");
        let constant: Vec<String> =
            properties.iter().filter(|(_, schema)| schema.get("const").is_some()).map(|(key, _)| key.clone()).collect();
        for key in constant {
            let value = properties.shift_remove(&key).and_then(|schema| schema.get("const").cloned());
            fixed.insert(key, value.unwrap_or_default());
        }
    }
    if let Some(Value::Array(required)) = parameters.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !fixed.contains_key(name) && name != "metadata"));
    }
    if let Some(defs) = defs {
        parameters.entry("$defs").or_insert_with(|| defs.clone());
    }
    let named =
        ["type", "action_type", "kind", "action"].iter().find_map(|key| fixed.get(*key).and_then(Value::as_str));
    let name = match (named, title.as_ref().and_then(Value::as_str)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(title)) => {
            snake_case(title.strip_suffix("Action").filter(|rest| !rest.is_empty()).unwrap_or(title))
        }
        (None, None) => "act".to_owned(),
    };
    let description = description.as_ref().and_then(Value::as_str).map(str::to_owned);
    let tool = ToolSpec { name, description, parameters: Some(Value::Object(parameters)), extra: Map::new() };
    Ok(ActionType { tool, fixed })
}

/// `TriageEnv` as `triage_env`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    let mut lower_before = false;
    for c in name.chars() {
        if c.is_uppercase() && lower_before {
            text.push('_');
        }
        lower_before = c.is_lowercase() || c.is_ascii_digit();
        text.extend(if c.is_alphanumeric() { c.to_lowercase().collect::<Vec<_>>() } else { vec!['_'] });
    }
    text
}

/// The tools of a `tools` list, in either spelling of `input_schema`.
pub fn tools(listed: &Value) -> Result<Vec<ToolSpec>, String> {
    let Some(listed) = listed.as_array() else { return Err("\"tools\" is not a list".into()) };
    listed.iter().map(tool).collect()
}

fn tool(listed: &Value) -> Result<ToolSpec, String> {
    let Some(name) = listed.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Err(format!("a tool without a name: {}", crate::http::excerpt(listed.to_string().as_bytes())));
    };
    let description = listed.get("description").and_then(Value::as_str).map(str::to_owned);
    let parameters = ["input_schema", "inputSchema"].iter().find_map(|key| listed.get(*key)).filter(|s| s.is_object());
    Ok(ToolSpec { name: name.to_owned(), description, parameters: parameters.cloned(), extra: Map::new() })
}
