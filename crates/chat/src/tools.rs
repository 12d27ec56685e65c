//! Tools on their way into the prompt: reading them, and proving that they arrived.
//!
//! A template that ignores its `tools` argument renders a plausible prompt for an agent that cannot know which tools it
//! has. That was the costliest fault of the runs we studied, so it is an error before anything is sampled.

use std::fmt::Write as _;

use hone_trace::{ToolSet, ToolSpec};
use serde_json::{Map, Value as Json, json};

use crate::parse::Format;

/// Reason why tools cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsError {
    #[error(
        "tools must be a JSON array of functions, found {0}; write [{{\"type\": \"function\", \"function\": {{…}}}}]"
    )]
    NotAList(&'static str),
    #[error("tool {index}: {why}")]
    Malformed { index: usize, why: String },
    #[error("the parameters of tool {tool} are not a JSON Schema: {why}. Correct the schema")]
    NotASchema { tool: String, why: String },
}

/// Reads a list of tools and checks that every one has a unique name and a valid JSON Schema.
pub fn read_tools(json: &Json) -> Result<ToolSet, ToolsError> {
    let Json::Array(list) = json else { return Err(ToolsError::NotAList(kind_of(json))) };
    let mut tools = Vec::new();
    for (index, tool) in list.iter().enumerate() {
        let tool: ToolSpec = serde_json::from_value(tool.clone())
            .map_err(|error| ToolsError::Malformed { index, why: error.to_string() })?;
        if let Some(schema) = &tool.parameters {
            check_schema(schema).map_err(|why| ToolsError::NotASchema { tool: tool.name.clone(), why })?;
        }
        tools.push(tool);
    }
    let count = tools.len();
    ToolSet::new(tools).map_err(|error| ToolsError::Malformed { index: count - 1, why: error.to_string() })
}

fn check_schema(schema: &Json) -> Result<(), String> {
    jsonschema::meta::validate(schema).map_err(|error| {
        let at = error.instance_path().to_string();
        if at.is_empty() { error.to_string() } else { format!("{error} (at {at})") }
    })
}

fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// A name that did not reach the prompt: a tool's, or one of its parameters' (nested ones with a dotted path).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub tool: String,
    pub parameter: Option<String>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.parameter {
            Some(parameter) => write!(f, "parameter {parameter} of {}", self.tool),
            None => write!(f, "tool {}", self.tool),
        }
    }
}

/// The tool and parameter names that do not occur in the prompt.
pub fn missing_names(prompt: &str, tools: &[ToolSpec]) -> Vec<Missing> {
    let mut missing = Vec::new();
    for tool in tools {
        if !occurs(prompt, &tool.name) {
            missing.push(Missing { tool: tool.name.clone(), parameter: None });
            continue;
        }
        for (path, name) in parameters(tool) {
            if !occurs(prompt, &name) {
                missing.push(Missing { tool: tool.name.clone(), parameter: Some(path) });
            }
        }
    }
    missing
}

/// True if a name occurs in the prompt as a whole word, as written or as JSON escapes it; `id` inside `did` does not
/// count.
fn occurs(prompt: &str, name: &str) -> bool {
    let escaped = Json::String(name.to_owned()).to_string();
    let escaped = escaped.trim_matches('"');
    let ascii = name.encode_utf16().fold(String::new(), |mut out, unit| {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        out
    });
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let stands = |name: &str| {
        !name.is_empty()
            && prompt.match_indices(name).any(|(at, found)| {
                let before = prompt[..at].chars().next_back();
                let after = prompt[at + found.len()..].chars().next();
                let joined_before = before.is_some_and(word) && name.starts_with(word);
                let joined_after = after.is_some_and(word) && name.ends_with(word);
                !joined_before && !joined_after
            })
    };
    stands(name) || stands(escaped) || stands(&ascii)
}

/// Maximum schema depth: a hostile schema may nest without end.
const MAX_SCHEMA_DEPTH: usize = 32;

/// The names of a tool's parameters, nested ones too, as `(path, name)`.
fn parameters(tool: &ToolSpec) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(schema) = &tool.parameters {
        collect(schema, "", 0, &mut found);
    }
    found
}

fn collect(schema: &Json, path: &str, depth: usize, found: &mut Vec<(String, String)>) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
        for (name, inner) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(inner, &path, depth + 1, found);
            found.push((path, name.clone()));
        }
    }
    if let Some(items) = schema.get("items") {
        collect(items, path, depth + 1, found);
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for inner in schema.get(keyword).and_then(Json::as_array).into_iter().flatten() {
            collect(inner, path, depth + 1, found);
        }
    }
}

/// The tools with every tool and top-level parameter renamed to something no prompt contains. A template that shows
/// these names shows the tools it is given; one whose prompt merely mentions the real names (a system prompt that talks
/// about `id`) does not pass.
pub(crate) fn probe_tools(tools: &[ToolSpec]) -> ToolSet {
    let renamed = tools.iter().enumerate().map(|(index, tool)| {
        let mut probe = tool.clone();
        probe.name = format!("hone_tool_{index}");
        if let Some(schema) = probe.parameters.as_mut().and_then(Json::as_object_mut) {
            rename_parameters(schema, index);
        }
        probe
    });
    // The names are distinct by construction, so the set can be built; an empty set would prove nothing.
    ToolSet::new(renamed.collect()).unwrap_or_else(|_| ToolSet::none())
}

fn rename_parameters(schema: &mut Map<String, Json>, tool: usize) {
    let Some(Json::Object(properties)) = schema.get_mut("properties") else { return };
    let entries: Vec<(String, Json)> = std::mem::take(properties).into_iter().collect();
    let new_name = |at: usize| format!("hone_arg_{tool}_{at}");
    let names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
    *properties = entries.into_iter().enumerate().map(|(at, (_, inner))| (new_name(at), inner)).collect();
    for name in schema.get_mut("required").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(at) = names.iter().position(|old| name == old.as_str()) {
            *name = new_name(at).into();
        }
    }
}

/// The tools as templates take them.
pub(crate) fn template_tools(tools: &[ToolSpec]) -> Vec<Json> {
    tools.iter().map(ToolSpec::to_openai).collect()
}

/// A section of the system prompt that offers the tools in Hermes style, for templates that ignore `tools`.
pub fn system_section(tools: &[ToolSpec]) -> String {
    section_of(&template_tools(tools))
}

/// [`system_section`] for tools in the form templates get.
pub(crate) fn section_of(tools: &[Json]) -> String {
    let mut section = String::from("# Tools\n\nYou may call the functions listed within <tools></tools>:\n<tools>\n");
    for tool in tools {
        section.push_str(&tool.to_string());
        section.push('\n');
    }
    section.push_str("</tools>\n\n");
    section.push_str(&Format::Hermes.guidance());
    section
}

/// A tool result as a user message, for templates without a tool role.
pub(crate) fn result_as_user(message: &Json) -> Json {
    let text = match message.get("content") {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let mut fields = Map::new();
    fields.insert("role".into(), json!("user"));
    fields.insert("content".into(), json!(format!("<tool_response>\n{text}\n</tool_response>")));
    Json::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(json: Json) -> ToolSpec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_name_must_stand_by_itself() {
        let find =
            tool(json!({"name": "find", "parameters": {"type": "object", "properties": {"id": {}, "größe": {}}}}));
        assert_eq!(missing_names("find id größe", std::slice::from_ref(&find)), []);
        assert_eq!(missing_names(r#"{"find": {"id": 1, "gr\u00f6\u00dfe": 2}}"#, std::slice::from_ref(&find)), []);
        let missing = missing_names("find did größer", &[find]);
        assert_eq!(
            missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["parameter id of find", "parameter größe of find"]
        );
    }

    #[test]
    fn nested_parameters_are_looked_for_too() {
        let book = tool(json!({"name": "book", "parameters": {"type": "object", "properties": {
            "legs": {"type": "array", "items": {"type": "object", "properties": {"flight": {"anyOf": [
                {"type": "object", "properties": {"number": {"type": "string"}}}]}}}}}}}));
        let missing = missing_names("book legs flight", &[book]);
        assert_eq!(missing, [Missing { tool: "book".into(), parameter: Some("legs.flight.number".into()) }]);
    }

    #[test]
    fn what_is_not_a_schema_is_refused_with_its_place() {
        let error = read_tools(&json!([{"type": "function", "function": {"name": "f", "parameters":
            {"type": "object", "properties": {"a": {"type": "strin"}}}}}]))
        .unwrap_err();
        assert!(error.to_string().contains("tool f") && error.to_string().contains("/properties/a/type"), "{error}");
        assert!(matches!(read_tools(&json!({})), Err(ToolsError::NotAList("an object"))));
        assert!(matches!(read_tools(&json!([{"name": 3}])), Err(ToolsError::Malformed { index: 0, .. })));
        let twice = read_tools(&json!([{"name": "f"}, {"name": "f"}])).unwrap_err();
        assert!(twice.to_string().contains("two tools are named"), "{twice}");
    }
}
