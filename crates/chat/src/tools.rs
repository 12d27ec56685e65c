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
    #[error("tool {tool:?}: {why}")]
    NotASchema { tool: String, why: String },
}

/// Reads a list of tools and checks that every one has a unique name and a valid JSON Schema.
pub fn read_tools(json: &Json) -> Result<ToolSet, ToolsError> {
    let Json::Array(list) = json else { return Err(ToolsError::NotAList(kind_of(json))) };
    let mut tools = Vec::new();
    for (index, tool) in list.iter().enumerate() {
        let tool: ToolSpec = serde_json::from_value(tool.clone())
            .map_err(|error| ToolsError::Malformed { index, why: error.to_string() })?;
        check_tool(&tool)?;
        tools.push(tool);
    }
    let count = tools.len();
    ToolSet::new(tools).map_err(|error| ToolsError::Malformed { index: count - 1, why: error.to_string() })
}

/// Checks that a tool's parameters are a JSON Schema, and that none of its references leads back to itself.
pub fn check_tool(tool: &ToolSpec) -> Result<(), ToolsError> {
    let Some(schema) = &tool.parameters else { return Ok(()) };
    let why = match jsonschema::meta::validate(schema) {
        Err(error) => misfit(schema, error.instance_path().as_str(), &error.to_string()),
        Ok(()) => match Loops::find(schema) {
            Some(reference) => format!(
                "\"$ref\": {reference:?} in its parameters leads back to itself; let `properties` or `items` stand between"
            ),
            None => return Ok(()),
        },
    };
    Err(ToolsError::NotASchema { tool: tool.name.clone(), why })
}

/// Error at a JSON pointer of a schema, with the fix.
fn misfit(schema: &Json, at: &str, error: &str) -> String {
    let place = format!("parameters{}", at.replace('/', "."));
    match schema.pointer(at) {
        Some(found) if at.ends_with("/type") => {
            format!("{place} is {found}; JSON Schema has string, number, integer, boolean, array, object, null")
        }
        _ => format!("{place} is not a JSON Schema: {error}; correct it"),
    }
}

/// Keywords whose schemas apply to the very value that the schema around them applies to.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// A search for references that lead back to where they stand without a step into the value: checking one never ends.
struct Loops<'a> {
    root: &'a Json,
    open: Vec<*const Json>,
    done: std::collections::HashSet<*const Json>,
}

impl<'a> Loops<'a> {
    /// The first such reference. Chains longer than [`MAX_CHAIN`] are not followed; compiling the schema refuses those.
    fn find(root: &'a Json) -> Option<&'a str> {
        let mut loops = Self { root, open: Vec::new(), done: std::collections::HashSet::new() };
        let mut parts = vec![root];
        while let Some(part) = parts.pop() {
            if let Some(found) = loops.from(part) {
                return Some(found);
            }
            match part {
                Json::Object(map) => parts.extend(map.values()),
                Json::Array(items) => parts.extend(items),
                _ => {}
            }
        }
        None
    }

    fn from(&mut self, schema: &'a Json) -> Option<&'a str> {
        let here = std::ptr::from_ref(schema);
        if self.open.len() > MAX_CHAIN || self.done.contains(&here) {
            return None;
        }
        let fields = schema.as_object()?;
        self.open.push(here);
        let target = fields.get("$ref").and_then(Json::as_str).and_then(|name| Some((name, self.target(name)?)));
        let found = match target {
            Some((name, target)) if self.open.contains(&std::ptr::from_ref(target)) => Some(name),
            Some((_, target)) => self.from(target),
            None => None,
        };
        let inner = IN_PLACE.iter().filter_map(|keyword| fields.get(*keyword)).flat_map(|part| match part {
            Json::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        });
        let found = found.or_else(|| inner.into_iter().find_map(|part| self.from(part)));
        self.open.pop();
        self.done.insert(here);
        found
    }

    fn target(&self, reference: &str) -> Option<&'a Json> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

/// References followed in one chain.
const MAX_CHAIN: usize = 256;

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
    fn a_reference_that_leads_back_to_itself_is_refused() {
        let one = |schema: Json| check_tool(&tool(json!({"name": "f", "parameters": schema})));
        for endless in [
            json!({"$ref": "#"}),
            json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {
                "a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}}),
        ] {
            assert!(one(endless).unwrap_err().to_string().contains("leads back to itself; let"));
        }
        // A tree ends where the value does; so does a property that is called like a keyword.
        assert_eq!(one(json!({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})), Ok(()));
        assert_eq!(one(json!({"properties": {"not": {"$ref": "#"}}})), Ok(()));
    }

    #[test]
    fn what_is_not_a_schema_is_refused_with_its_place() {
        let error = read_tools(&json!([{"type": "function", "function": {"name": "f", "parameters":
            {"type": "object", "properties": {"a": {"type": "strin"}}}}}]))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "tool \"f\": parameters.properties.a.type is \"strin\"; JSON Schema has string, number, integer, boolean, array, \
             object, null"
        );
        let one = |schema: Json| check_tool(&tool(json!({"name": "f", "parameters": schema})));
        let error = one(json!({"type": "object", "required": "a"})).unwrap_err().to_string();
        assert!(error.starts_with("tool \"f\": parameters.required is not a JSON Schema"), "{error}");
        assert!(matches!(read_tools(&json!({})), Err(ToolsError::NotAList("an object"))));
        assert!(matches!(read_tools(&json!([{"name": 3}])), Err(ToolsError::Malformed { index: 0, .. })));
        let twice = read_tools(&json!([{"name": "f"}, {"name": "f"}])).unwrap_err();
        assert!(twice.to_string().contains("two tools are named"), "{twice}");
    }
}
