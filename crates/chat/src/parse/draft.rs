//! One call as a format found it, before anything is known about the tools: its content and its faults.

use std::{borrow::Cow, ops::Range};

use hone_trace::ParseFailureKind;
use serde_json::{Map, Value};

use super::{
    json::{self, Field, JsonError},
    python::PyCall,
    repair::{Repair, Repairs},
    tolerant::{self, End},
    wide::{Wide, take_wide},
};

/// Keys for a call's name, the canonical one first.
const NAME_KEYS: [&str; 5] = ["name", "tool", "tool_name", "function_name", "action"];
/// Keys for its arguments; the first two are canonical.
const ARGUMENT_KEYS: [&str; 8] =
    ["arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs"];
/// Keys an OpenAI-style call wraps name and arguments in.
const WRAPPER_KEYS: [&str; 2] = ["function", "function_call"];
/// Key of the calls of an OpenAI message.
pub(super) const TOOL_CALLS: &str = "tool_calls";
const ID_KEYS: [&str; 3] = ["id", "call_id", "tool_call_id"];

/// A named fault of one call. Texts may be borrowed or owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub kind: ParseFailureKind,
    pub at: usize,
    pub message: Cow<'static, str>,
}

impl Fault {
    pub(super) fn new(kind: ParseFailureKind, at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, at, message: message.into() }
    }

    pub(super) fn markup(at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ParseFailureKind::MalformedMarkup, at, message)
    }

    pub(super) fn json(error: JsonError) -> Self {
        Self::new(ParseFailureKind::MalformedJson, error.at, error.why)
    }
}

/// Reading of a call.
#[derive(Debug)]
pub(super) struct Reading {
    pub id: Option<String>,
    pub name: String,
    pub arguments: Map<String, Value>,
    pub wide: Wide,
}

/// A call's text with its reading (strict, or repaired when there is a fault) and its fault.
#[derive(Debug)]
pub(super) struct Draft {
    pub span: Range<usize>,
    pub reading: Option<Reading>,
    pub fault: Option<Fault>,
    pub repairs: Repairs,
    /// The reading omits part of what was written: it may be judged, but never run.
    pub partial: bool,
}

impl Draft {
    pub(super) fn read(span: Range<usize>, reading: Reading) -> Self {
        Self { span, reading: Some(reading), fault: None, repairs: Repairs::default(), partial: false }
    }

    pub(super) fn faulty(span: Range<usize>, fault: Fault) -> Self {
        Self { span, reading: None, fault: Some(fault), repairs: Repairs::default(), partial: false }
    }

    /// Adds a fault; of several, the one whose kind comes first is kept.
    pub(super) fn blame(&mut self, fault: Fault) {
        if self.fault.as_ref().is_none_or(|known| fault.kind < known.kind) {
            self.fault = Some(fault);
        }
    }

    /// Adds a fault that `repair` fixes.
    pub(super) fn repaired(&mut self, fault: Fault, repair: Repair) {
        self.blame(fault);
        self.repairs.add(repair);
    }

    /// A call from its keyword syntax.
    pub(crate) fn from_python(call: PyCall) -> Self {
        let PyCall { name, arguments, wide, start, end } = call;
        Self::read(start..end, Reading { id: None, name, arguments, wide })
    }

    /// A call whose name is outside the JSON of its arguments.
    pub(crate) fn of_arguments(span: Range<usize>, name: &str, id: Option<&str>, arguments: Value, wide: Wide) -> Self {
        let id = id.map(str::to_owned);
        if name.is_empty() {
            let at = span.start;
            return Self::faulty(span, Fault::new(ParseFailureKind::MissingName, at, "the call names no tool"));
        }
        Self::with_arguments(span, id, name.to_owned(), arguments, wide)
    }

    /// A call object in one of its shapes: flat, wrapped in `function`, with one of the known keys.
    pub(crate) fn from_fields(span: Range<usize>, fields: Vec<Field<'_>>) -> Self {
        Self::from_shape(span, Shape::of(fields))
    }

    fn from_shape(span: Range<usize>, shape: Shape) -> Self {
        if let Some(message) = shape.fault {
            let at = span.start;
            return Self::faulty(span, Fault::new(ParseFailureKind::MalformedJson, at, message));
        }
        let Shape { id, name, arguments, extra, .. } = shape;
        let at = span.start;
        let name = match name {
            Some((_, Value::String(name))) if !name.is_empty() => name,
            _ => {
                let mut draft = Self::faulty(
                    span,
                    Fault::new(ParseFailureKind::MissingName, at, "the call object has no \"name\""),
                );
                // A broken arguments string comes before the missing name in the order of kinds.
                if let Some((text @ Value::String(_), wide)) = arguments {
                    let inner = Self::with_arguments(0..0, None, String::new(), text, wide);
                    if let Some(fault) = inner.fault {
                        draft.blame(Fault { at, ..fault });
                    }
                }
                return draft;
            }
        };
        let flattened = arguments.is_none();
        let (arguments, wide) = arguments.unwrap_or((Value::Null, Wide::new()));
        let mut draft = Self::with_arguments(span, id, name, arguments, wide);
        if flattened && let Some(key) = extra {
            draft.blame(Fault::new(
                ParseFailureKind::UnexpectedArgument,
                at,
                format!("{key:?} stands beside the name; arguments go into \"arguments\""),
            ));
            draft.partial = true;
        }
        draft
    }

    fn with_arguments(span: Range<usize>, id: Option<String>, name: String, arguments: Value, wide: Wide) -> Self {
        let at = span.start;
        let not_object = |span, found: &str| {
            let message = format!("the arguments are {found}, not an object");
            Self::faulty(span, Fault::new(ParseFailureKind::ArgumentsNotObject, at, message))
        };
        match arguments {
            Value::Object(arguments) => Self::read(span, Reading { id, name, arguments, wide }),
            Value::Null => Self::read(span, Reading { id, name, arguments: Map::new(), wide }),
            Value::String(text) if text.trim().is_empty() => {
                Self::read(span, Reading { id, name, arguments: Map::new(), wide })
            }
            Value::String(text) => match json::read_all(&text) {
                Ok((Value::Object(arguments), wide)) => Self::read(span, Reading { id, name, arguments, wide }),
                Err(error) if text.trim_start().starts_with('{') => {
                    let message = format!("the arguments string is broken JSON: {}", error.why);
                    let mut draft = Self::faulty(span, Fault::new(ParseFailureKind::MalformedJson, at, message));
                    if let Ok(Ok([fixed])) = tolerant::values(&text, End::Closed).map(<[tolerant::Fixed; 1]>::try_from)
                        && let Value::Object(arguments) = fixed.value
                    {
                        draft.reading = Some(Reading { id, name, arguments, wide: fixed.wide });
                        draft.repairs = fixed.repairs;
                    }
                    draft
                }
                _ => not_object(span, "a string"),
            },
            Value::Array(_) => not_object(span, "an array"),
            Value::Number(_) => not_object(span, "a number"),
            Value::Bool(_) => not_object(span, "a boolean"),
        }
    }
}

/// The parts of a call object, whatever their keys are. Filled member by member as the object is read.
#[derive(Default)]
pub(super) struct Shape {
    id: Option<String>,
    /// With the rank of its key: a canonical key wins over an alternative.
    name: Option<(usize, Value)>,
    arguments: Option<(Value, Wide)>,
    wrapped: bool,
    /// The calls of a message, when the object is one.
    calls: Option<(Vec<Value>, Wide)>,
    /// A key that no call has.
    extra: Option<String>,
    /// Reason why it cannot be a call.
    fault: Option<&'static str>,
}

impl Shape {
    fn of(fields: Vec<Field<'_>>) -> Self {
        let mut shape = Self::default();
        for Field { key, value, wide } in fields {
            shape.take(&key, value, wide);
        }
        shape
    }

    /// The calls of an object: those of its `tool_calls`, or itself.
    pub(super) fn drafts(mut self, span: Range<usize>, drafts: &mut Vec<Draft>) {
        let Some((calls, wide)) = self.calls.take() else {
            drafts.push(Draft::from_shape(span, self));
            return;
        };
        let mut wide = wide;
        drafts.extend(calls.into_iter().map(|call| {
            let numbers = take_wide(&call, &mut wide);
            if let Value::Object(map) = call {
                return Draft::from_fields(span.clone(), fields_of(map, numbers));
            }
            let error = JsonError { at: span.start, why: "a call that is no object", eof: false };
            Draft::faulty(span.clone(), Fault::json(error))
        }));
    }

    pub(super) fn take(&mut self, key: &str, value: Value, wide: Wide) {
        if let Some(rank) = NAME_KEYS.iter().position(|known| *known == key) {
            self.take_name(rank, value);
        } else if ARGUMENT_KEYS.contains(&key) {
            if self.arguments.as_ref().is_some_and(|(known, _)| *known != value) {
                self.fault = Some("the call has its arguments twice");
            }
            self.arguments = Some((value, wide));
        } else if WRAPPER_KEYS.contains(&key) {
            self.unwrap(value, wide);
        } else if ID_KEYS.contains(&key) {
            if let Value::String(id) = value {
                self.id = Some(id);
            }
        } else if key == TOOL_CALLS
            && let Value::Array(calls) = value
        {
            self.calls = Some((calls, wide));
        } else if key != "type" && key != "index" {
            self.extra = Some(key.to_owned());
        }
    }

    fn unwrap(&mut self, value: Value, wide: Wide) {
        let Value::Object(inner) = value else { return self.take_name(NAME_KEYS.len(), value) };
        if self.wrapped {
            self.fault = Some("the call is wrapped twice");
            return;
        }
        self.wrapped = true;
        for field in fields_of(inner, wide) {
            self.take(&field.key, field.value, field.wide);
        }
    }

    fn take_name(&mut self, rank: usize, value: Value) {
        match &self.name {
            Some((known, _)) if *known == rank => self.fault = Some("the call has its name twice"),
            Some((known, _)) if *known < rank => {}
            _ => self.name = Some((rank, value)),
        }
    }
}

/// The calls of an object that was read into members.
pub(super) fn drafts_of(span: Range<usize>, fields: Vec<Field<'_>>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    Shape::of(fields).drafts(span, &mut drafts);
    drafts
}

/// Members of an object that was built as a map.
pub(super) fn fields_of(map: Map<String, Value>, mut wide: Wide) -> Vec<Field<'static>> {
    let field = |(key, value)| {
        let wide = take_wide(&value, &mut wide);
        Field { key: Cow::Owned(key), value, wide }
    };
    map.into_iter().map(field).collect()
}

/// Certainty that an untagged object is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Nothing like a call.
    None,
    /// A call if the tool exists: `{"name": "ping"}`, `{"tool": …, "input": …}`.
    IfKnown,
    /// A name and arguments under their canonical keys.
    Call,
}

/// Similarity of an untagged object to a call, and the name it gives.
pub(super) fn likeness<'f>(fields: &'f [Field<'_>]) -> (Likeness, Option<&'f str>) {
    let get = |keys: &[&str]| keys.iter().find_map(|key| fields.iter().find(|field| field.key == *key));
    if let Some(Value::Object(inner)) = get(&WRAPPER_KEYS).map(|field| &field.value) {
        let name = inner.get("name").and_then(Value::as_str);
        let arguments = ARGUMENT_KEYS.iter().any(|key| inner.contains_key(*key));
        let like = if name.is_some() && arguments { Likeness::Call } else { Likeness::IfKnown };
        return (like, name);
    }
    let name = get(&NAME_KEYS).or_else(|| get(&WRAPPER_KEYS));
    let Some((key, name)) = name.and_then(|field| Some((&*field.key, field.value.as_str()?))) else {
        return (Likeness::None, None);
    };
    let like = match get(&ARGUMENT_KEYS) {
        Some(arguments) if key == "name" && ARGUMENT_KEYS[..2].contains(&&*arguments.key) => Likeness::Call,
        Some(_) => Likeness::IfKnown,
        None if fields
            .iter()
            .all(|field| field.key == key || ID_KEYS.contains(&&*field.key) || field.key == "type") =>
        {
            Likeness::IfKnown
        }
        None => Likeness::None,
    };
    (like, Some(name))
}

/// True when `key` may be the first key of a call object.
pub(super) fn is_call_key(key: &str) -> bool {
    NAME_KEYS.contains(&key) || ARGUMENT_KEYS.contains(&key) || WRAPPER_KEYS.contains(&key) || is_frame_key(key)
}

/// Keys that come before the name in an OpenAI message or call.
fn is_frame_key(key: &str) -> bool {
    matches!(key, "tool_calls" | "type" | "id" | "role" | "content")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn draft(text: &str) -> Draft {
        Draft::from_fields(0..text.len(), json::Json::new(text, 0).fields().unwrap())
    }

    #[test]
    fn shapes_of_one_call() {
        for text in [
            r#"{"name": "f", "arguments": {"a": 1}}"#,
            r#"{"arguments": {"a": 1}, "name": "f"}"#,
            r#"{"name": "f", "parameters": {"a": 1}}"#,
            r#"{"name": "f", "arguments": "{\"a\": 1}"}"#,
            r#"{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}"#,
            r#"{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}"#,
            r#"{"function": "f", "arguments": {"a": 1}}"#,
            r#"{"function_call": {"name": "f", "arguments": "{\"a\": 1}"}}"#,
            r#"{"tool": "f", "args": {"a": 1}}"#,
            r#"{"action": "f", "action_input": {"a": 1}}"#,
            r#"{"type": "function", "name": "f", "parameters": {"a": 1}}"#,
        ] {
            let reading = draft(text).reading.expect(text);
            assert_eq!((reading.name.as_str(), Value::Object(reading.arguments)), ("f", json!({"a": 1})), "{text}");
        }
        for text in [r#"{"name": "f"}"#, r#"{"name": "f", "arguments": null}"#, r#"{"name": "f", "arguments": " "}"#] {
            assert!(draft(text).reading.expect(text).arguments.is_empty());
        }
    }

    #[test]
    fn faults_of_shape() {
        let kind = |text| draft(text).fault.map(|fault| fault.kind).expect(text);
        assert_eq!(kind(r#"{"arguments": {"a": 1}}"#), ParseFailureKind::MissingName);
        assert_eq!(kind(r#"{"name": 3, "arguments": []}"#), ParseFailureKind::MissingName);
        assert_eq!(kind(r#"{"name": "", "arguments": {}}"#), ParseFailureKind::MissingName);
        assert_eq!(kind(r#"{"arguments": "{\"a\": "}"#), ParseFailureKind::MalformedJson);
        assert_eq!(kind(r#"{"name": "f", "arguments": [1]}"#), ParseFailureKind::ArgumentsNotObject);
        assert_eq!(kind(r#"{"name": "f", "arguments": "Paris"}"#), ParseFailureKind::ArgumentsNotObject);
        assert_eq!(kind(r#"{"name": "f", "arguments": "[1]"}"#), ParseFailureKind::ArgumentsNotObject);
        assert_eq!(kind(r#"{"name": "f", "arguments": "{\"a\": 1"}"#), ParseFailureKind::MalformedJson);
        assert_eq!(kind(r#"{"name": "f", "arguments": {}, "parameters": {"a": 1}}"#), ParseFailureKind::MalformedJson);
        assert_eq!(kind(r#"{"name": "f", "name": "g"}"#), ParseFailureKind::MalformedJson);
        assert_eq!(kind(r#"{"name": "f", "city": "Paris"}"#), ParseFailureKind::UnexpectedArgument);
    }

    #[test]
    fn likeness_of_untagged_objects() {
        let like = |text| likeness(&json::Json::new(text, 0).fields().unwrap()).0;
        assert_eq!(like(r#"{"name": "f", "arguments": {}}"#), Likeness::Call);
        assert_eq!(like(r#"{"function": {"name": "f", "arguments": {}}}"#), Likeness::Call);
        assert_eq!(like(r#"{"name": "f"}"#), Likeness::IfKnown);
        assert_eq!(like(r#"{"tool": "f", "input": "x"}"#), Likeness::IfKnown);
        assert_eq!(like(r#"{"name": "Bob", "age": 3}"#), Likeness::None);
        assert_eq!(like(r#"{"answer": 42}"#), Likeness::None);
    }
}
