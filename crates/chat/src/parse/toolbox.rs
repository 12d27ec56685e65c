//! The tools of an episode, compiled for the parser: argument validators, and the types of XML parameters.
//!
//! Built once per tool set; checking a call then costs a fraction of a microsecond. It knows nothing about formats.

use std::collections::HashMap;

use hone_trace::{ParseFailureKind, ToolSet, ToolSpec};
use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

use super::{expansion, types::Types};

/// Backtracking limit of a schema's regular expression; the argument then counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;

/// Maximum validation errors of one argument object considered when naming its failure.
const ERRORS_READ: usize = 64;

/// A tool whose `parameters` cannot be used to check a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tool {tool:?}: its \"parameters\" are not a usable JSON Schema: {reason} (at {path:?} in the schema). {fix}")]
pub struct BadSchema {
    pub tool: String,
    pub reason: String,
    /// JSON pointer into the schema; empty for its root.
    pub path: String,
    pub fix: String,
}

/// Tools ready to check calls against.
#[derive(Debug)]
pub struct Toolbox {
    tools: Vec<Tool>,
    index: HashMap<String, usize>,
    notes: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Tool {
    pub name: String,
    validator: Option<Validator>,
    parameters: Vec<(String, Types)>,
    /// Types of parameters the schema does not name.
    others: Types,
    /// The deepest arguments its schema checks in bounded time.
    max_nesting: usize,
    schema: Option<Value>,
}

/// Violation of a schema by arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub kind: ParseFailureKind,
    pub message: String,
}

impl Toolbox {
    pub fn new(tools: &ToolSet) -> Result<Self, BadSchema> {
        let mut notes = Vec::new();
        let tools = tools.iter().map(|tool| Tool::new(tool, &mut notes)).collect::<Result<Vec<_>, _>>()?;
        let index = tools.iter().enumerate().map(|(index, tool)| (tool.name.clone(), index)).collect();
        Ok(Self { tools, index, notes })
    }

    /// Readings of a schema that differ from its text: `"type": "float"` as `"number"`.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn get(&self, name: &str) -> Option<&Tool> {
        // A handful of names is compared faster than hashed.
        if self.tools.len() <= 16 {
            return self.tools.iter().find(|tool| tool.name == name);
        }
        self.index.get(name).map(|&index| &self.tools[index])
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }
}

impl Tool {
    fn new(spec: &ToolSpec, notes: &mut Vec<String>) -> Result<Self, BadSchema> {
        let Some(schema) = &spec.parameters else {
            let name = spec.name.clone();
            return Ok(Self {
                name,
                validator: None,
                parameters: Vec::new(),
                others: Types::ANY,
                max_nesting: usize::MAX,
                schema: None,
            });
        };
        let bad = |reason: String, path: String, fix: &str| BadSchema {
            tool: spec.name.clone(),
            reason,
            path,
            fix: fix.to_owned(),
        };
        let max_nesting = expansion::check(schema).map_err(|reason| {
            bad(reason, String::new(), "Flatten the definitions that refer to each other several times")
        })?;
        let mut schema = schema.clone();
        normalise(&mut schema, &mut |written, read| {
            let name = &spec.name;
            notes.push(format!(
                "tool {name:?}: \"type\": {written:?} is not a JSON Schema type and is read as {read:?}"
            ));
        });
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT))
            .build(&schema)
            .map_err(|error| {
                let fix = match error.kind() {
                    ValidationErrorKind::Referencing(_) => {
                        "Put what \"$ref\" names into the schema's own \"$defs\"; nothing is fetched"
                    }
                    _ => "Give an object schema like {\"type\": \"object\", \"properties\": {…}, \"required\": […]}",
                };
                bad(error.to_string(), error.instance_path().as_str().to_owned(), fix)
            })?;
        let parameters = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, property)| (name.clone(), Types::of(property, &schema)))
            .collect();
        let others = schema.get("additionalProperties").map_or(Types::STRING, |rest| match rest {
            Value::Object(_) => Types::of(rest, &schema),
            _ => Types::STRING,
        });
        let name = spec.name.clone();
        Ok(Self { name, validator: Some(validator), parameters, others, max_nesting, schema: Some(schema) })
    }

    /// The schema of the arguments, for formats that write nested values without their type.
    pub(super) fn schema(&self) -> Option<&Value> {
        self.schema.as_ref()
    }

    /// The types a parameter may have, for formats that write values without their type.
    pub(super) fn types(&self, parameter: &str) -> Types {
        self.parameters.iter().find(|(name, _)| name == parameter).map_or(self.others, |(_, types)| *types)
    }

    pub(crate) fn has_parameter(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|(name, _)| name == parameter)
    }

    pub(crate) fn has_no_parameters(&self) -> bool {
        self.parameters.is_empty()
    }

    /// True when a call without arguments is a valid call.
    pub(crate) fn needs_nothing(&self) -> bool {
        self.validator.as_ref().is_none_or(|validator| validator.is_valid(&Value::Object(Map::new())))
    }

    pub(crate) fn is_valid(&self, arguments: &Value) -> bool {
        self.in_bounds(arguments) && self.validator.as_ref().is_none_or(|validator| validator.is_valid(arguments))
    }

    /// The arguments' defect: of several, the one whose kind comes first.
    pub(super) fn violation(&self, arguments: &Value) -> Option<Violation> {
        if !self.in_bounds(arguments) {
            let message = format!("nested deeper than the {} levels its recursive schema allows", self.max_nesting);
            return Some(Violation { kind: ParseFailureKind::WrongType, message });
        }
        let error = self.errors(arguments).min_by_key(|error| kind_of(error.kind()))?;
        Some(Violation { kind: kind_of(error.kind()), message: describe(&error) })
    }

    fn in_bounds(&self, arguments: &Value) -> bool {
        self.max_nesting == usize::MAX || expansion::nesting(arguments) <= self.max_nesting
    }

    pub(super) fn errors<'a>(&'a self, arguments: &'a Value) -> impl Iterator<Item = ValidationError<'a>> {
        let validator = self.validator.iter().filter(|_| self.in_bounds(arguments));
        validator.flat_map(|validator| validator.iter_errors(arguments)).take(ERRORS_READ)
    }
}

fn kind_of(error: &ValidationErrorKind) -> ParseFailureKind {
    match error {
        ValidationErrorKind::Required { .. } => ParseFailureKind::MissingRequired,
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. }
        | ValidationErrorKind::PropertyNames { .. } => ParseFailureKind::UnexpectedArgument,
        // Alternatives that all fail for the same reason fail for that reason.
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let mut kinds = context.iter().flatten().map(|error| kind_of(error.kind()));
            let first = kinds.next().unwrap_or(ParseFailureKind::WrongType);
            if kinds.all(|kind| kind == first) { first } else { ParseFailureKind::WrongType }
        }
        _ => ParseFailureKind::WrongType,
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let message = error.to_string();
    // Model output is quoted in the message; a megabyte of it would be useless.
    let message = match message.char_indices().nth(300) {
        Some((cut, _)) => format!("{}…", &message[..cut]),
        None => message,
    };
    if path.is_empty() { message } else { format!("argument {}: {message}", path.trim_start_matches('/')) }
}

/// JSON Schema's name for types of languages and other schema dialects; empty: any.
fn json_type(name: &str) -> Option<&'static str> {
    const TYPES: [(&str, &[&str]); 8] = [
        ("string", &["string", "str", "text"]),
        ("number", &["number", "float", "double", "decimal"]),
        ("integer", &["integer", "int", "long"]),
        ("boolean", &["boolean", "bool"]),
        ("object", &["object", "dict", "map"]),
        ("array", &["array", "list", "tuple"]),
        ("null", &["null", "none", "nonetype"]),
        ("", &["any"]),
    ];
    let name = name.to_ascii_lowercase();
    TYPES.iter().find(|(_, spellings)| spellings.contains(&name.as_str())).map(|(known, _)| *known)
}

/// Normalises a schema to what its author meant: OpenAPI's `nullable: true` adds `null` to the types, types of other
/// dialects get their JSON Schema name. Values that are data, not schema, stay as they are.
fn normalise(schema: &mut Value, note: &mut dyn FnMut(&str, &str)) {
    match schema {
        Value::Object(map) => {
            match map.get_mut("type") {
                Some(Value::String(name)) => match json_type(name) {
                    Some("") => {
                        note(name, "any type");
                        map.shift_remove("type");
                    }
                    Some(known) if known != name => {
                        note(name, known);
                        *name = known.to_owned();
                    }
                    _ => {}
                },
                Some(Value::Array(names)) => {
                    for name in names {
                        if let Value::String(name) = name
                            && let Some(known) = json_type(name).filter(|known| !known.is_empty() && known != name)
                        {
                            note(name, known);
                            *name = known.to_owned();
                        }
                    }
                }
                _ => {}
            }
            if map.get("nullable") == Some(&Value::Bool(true))
                && let Some(Value::String(single)) = map.get("type")
            {
                let types = Value::from(vec![single.clone(), "null".to_owned()]);
                map.insert("type".to_owned(), types);
            }
            let data = |key: &str| matches!(key, "default" | "const" | "enum" | "examples" | "example");
            map.iter_mut().filter(|(key, _)| !data(key)).for_each(|(_, part)| normalise(part, note));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, note)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(parameters: Value) -> Result<Toolbox, BadSchema> {
        Toolbox::new(&ToolSet::new(vec![ToolSpec::new("f", "", parameters)]).unwrap())
    }

    #[test]
    fn a_schema_that_is_none_names_the_tool_and_the_fix() {
        for bad in [
            json!({"type": "strng"}),
            json!({"type": "object", "properties": {"a": 3}}),
            json!({"type": "object", "required": "a"}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "#/$defs/absent"}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        ] {
            let message = tool(bad.clone()).expect_err(&bad.to_string()).to_string();
            assert!(message.starts_with("tool \"f\""), "{message}");
            assert!(message.contains("Give an object schema") || message.contains("$defs"), "{message}");
        }
    }

    #[test]
    fn the_first_kind_in_order_is_named() {
        let tools = tool(json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["b"],
            "additionalProperties": false,
        }))
        .unwrap();
        let kind = |arguments| tools.get("f").unwrap().violation(&arguments).map(|violation| violation.kind);
        assert_eq!(kind(json!({"b": "x", "a": 1})), None);
        assert_eq!(kind(json!({"a": "x", "c": 1})), Some(ParseFailureKind::MissingRequired));
        assert_eq!(kind(json!({"a": "x", "b": "x", "c": 1})), Some(ParseFailureKind::UnexpectedArgument));
        assert_eq!(kind(json!({"a": "x", "b": "x"})), Some(ParseFailureKind::WrongType));
        assert_eq!(kind(json!({"a": 1.0, "b": "x"})), None);
    }

    #[test]
    fn types_of_other_dialects_are_read_with_a_note() {
        let tools = tool(json!({"type": "dict", "properties": {
            "a": {"type": "float"}, "b": {"type": ["str", "null"]}, "c": {"type": "any"}, "type": {"type": "STRING"},
            "d": {"type": "string", "default": {"type": "float"}},
        }}))
        .unwrap();
        let valid = |arguments| tools.get("f").unwrap().is_valid(&arguments);
        assert!(valid(json!({"a": 1.5, "b": "x", "c": [], "type": "x"})));
        assert!(!valid(json!({"a": "x"})) && !valid(json!({"b": 1})) && !valid(json!({"type": 1})));
        assert_eq!(tools.get("f").unwrap().types("a"), Types::NUMBER);
        assert_eq!(tools.notes().len(), 5, "{:?}", tools.notes());
        assert!(tools.notes()[1].contains("\"float\"") && tools.notes()[1].contains("\"number\""));
    }

    #[test]
    fn nullable_means_null() {
        let tools = tool(json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}})).unwrap();
        assert!(tools.get("f").unwrap().is_valid(&json!({"a": null})));
    }

    #[test]
    fn a_hostile_pattern_gives_up() {
        let tools =
            tool(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+(?!b)$\\1"}}}))
                .unwrap();
        let arguments = json!({"a": "a".repeat(200) + "!"});
        assert!(!tools.get("f").unwrap().is_valid(&arguments));
        assert_eq!(tools.get("f").unwrap().violation(&arguments).unwrap().kind, ParseFailureKind::WrongType);
    }
}
