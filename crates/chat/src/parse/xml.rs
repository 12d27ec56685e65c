//! Calls written as tags around raw values: shared code of the XML-like formats.
//!
//! A dialect ([`super::tagged`]) reads its tags with [`Cursor`] and provides names and raw values; types come from the
//! schema.

use std::{borrow::Cow, ops::Range};

use hone_trace::ParseFailureKind;
use serde_json::{Map, Value};

use super::{
    draft::{Draft, Fault, Reading},
    repair::{Repair, Repairs},
    reply::{Lookup, Reply},
    tolerant::{self, End},
    toolbox::Tool,
    types::Types,
    wide::Wide,
    work::spend,
};

/// Longest name of a tool or parameter in a tag, in bytes.
const LONGEST_NAME: usize = 256;

/// Reason why parsing the markup stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// The text stops. `clean`: between values, so that only closing tags are missing.
    Cut {
        clean: bool,
    },
    Bad {
        at: usize,
        message: String,
    },
}

/// One parameter: its name, its raw value and where that starts.
pub(super) struct Parameter<'a> {
    pub name: Cow<'a, str>,
    pub value: &'a str,
    pub at: usize,
    /// The type its tag gives it, for a parameter the schema does not name.
    pub declared: Option<Types>,
}

/// A call as its tags give it.
#[derive(Default)]
pub(super) struct Tagged<'a> {
    pub name: Cow<'a, str>,
    pub parameters: Vec<Parameter<'a>>,
    /// A value or call whose closing tag is missing, and where it should be.
    pub unclosed: Option<usize>,
}

pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub pos: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    pub(super) fn blank(&mut self) {
        self.pos = self.text.len() - self.rest().trim_start().len();
    }

    /// Consumes `tag` after whitespace, if it is next.
    pub(crate) fn eat(&mut self, tag: &str) -> bool {
        self.blank();
        let found = self.rest().starts_with(tag);
        self.pos += if found { tag.len() } else { 0 };
        found
    }

    /// Consumes `tag` after whitespace, or returns why it cannot.
    pub(super) fn expect(&mut self, tag: &str) -> Result<(), Broken> {
        if self.eat(tag) { Ok(()) } else { Err(self.unexpected(&[tag])) }
    }

    /// None of `tags` is here: the text ends, or has something else.
    pub(super) fn unexpected(&self, tags: &[&str]) -> Broken {
        let rest = self.rest();
        if tags.iter().any(|tag| tag.starts_with(rest)) {
            return Broken::Cut { clean: rest.is_empty() || rest.starts_with("</") };
        }
        Broken::Bad { at: self.pos, message: format!("expected {}", tags.join(" or ")) }
    }

    /// Consumes text up to and including `end`, on one line; returns the text before it.
    pub(super) fn until(&mut self, end: &str) -> Result<&'a str, Broken> {
        let rest = self.rest();
        let window = &rest.as_bytes()[..rest.len().min(LONGEST_NAME)];
        let line = memchr::memchr(b'\n', window).unwrap_or(window.len());
        match memchr::memmem::find(&window[..line], end.as_bytes()) {
            Some(length) => {
                self.pos += length + end.len();
                Ok(&rest[..length])
            }
            None if line == rest.len() => Err(Broken::Cut { clean: false }),
            None => Err(Broken::Bad { at: self.pos, message: format!("a tag lacks its {end}") }),
        }
    }

    /// Consumes text up to the end of the line or the next tag.
    pub(crate) fn until_tag(&mut self) -> Result<&'a str, Broken> {
        self.blank();
        let rest = self.rest();
        let window = &rest.as_bytes()[..rest.len().min(LONGEST_NAME)];
        let length = memchr::memchr2(b'\n', b'<', window).unwrap_or(window.len());
        let Some(text) = rest.get(..length) else {
            return Err(Broken::Bad { at: self.pos, message: "expected the name of a tool".to_owned() });
        };
        self.pos += length;
        Ok(text)
    }
}

/// Exactly one line break per side belongs to the markup, not to the value.
pub(super) fn strip_newlines(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// Place of a tag in `value`: `open`, a name that `known` accepts, and `end`.
pub(super) fn reopened(value: &str, open: &str, end: &str, known: &dyn Fn(&str) -> bool) -> Option<usize> {
    spend(value.len());
    memchr::memmem::find_iter(value.as_bytes(), open).find(|at| {
        let rest = &value[at + open.len()..];
        let window = &rest.as_bytes()[..rest.len().min(LONGEST_NAME)];
        memchr::memmem::find(window, end.as_bytes()).is_some_and(|length| known(rest[..length].trim()))
    })
}

/// The draft of a call whose tags were read to the end, its values typed by the schema.
pub(super) fn typed(reply: &Reply<'_>, span: Range<usize>, tagged: &Tagged<'_>) -> Draft {
    let Tagged { name, parameters, unclosed } = tagged;
    if name.is_empty() {
        let at = span.start;
        return Draft::faulty(span, Fault::new(ParseFailureKind::MissingName, at, "the call names no tool"));
    }
    let tool = reply.tools.get(name);
    let mut arguments = Map::new();
    let mut wide = Wide::new();
    let mut faults = Vec::new();
    let mut repairs = Repairs::default();
    let mut readable = true;
    for parameter in parameters {
        let value = match tool {
            None => Ok(Value::from(parameter.value)),
            Some(tool) => {
                let declared = parameter.declared.filter(|_| !tool.has_parameter(&parameter.name));
                declared.unwrap_or_else(|| tool.types(&parameter.name)).read(parameter.value, &mut wide)
            }
        };
        let value = value.unwrap_or_else(|error| {
            let at = parameter.at + error.at;
            faults.push(Fault::new(ParseFailureKind::MalformedJson, at, error.why));
            let fixed = tolerant::values(parameter.value, End::Closed).map(<[tolerant::Fixed; 1]>::try_from);
            let Ok(Ok([mut fixed])) = fixed else {
                readable = false;
                return Value::Null;
            };
            repairs.join(fixed.repairs);
            wide.append(&mut fixed.wide);
            fixed.value
        });
        if arguments.insert(parameter.name.clone().into_owned(), value).is_some() {
            faults.push(Fault::markup(parameter.at, format!("parameter {:?} is given twice", parameter.name)));
            readable = false;
        }
    }
    let at = span.start;
    let wrapped = tool.and_then(|tool| wrapped(tool, &arguments));
    let reading = Reading { id: None, name: name.clone().into_owned(), arguments, wide };
    let mut draft = Draft::read(span, reading);
    if let Some(arguments) = wrapped
        && let Some(reading) = &mut draft.reading
    {
        reading.arguments = arguments;
        draft.repaired(Fault::markup(at, "all arguments stand in one parameter"), Repair::WrappedArguments);
    }
    draft.repairs = repairs;
    for fault in faults {
        draft.blame(fault);
    }
    if let Some(at) = *unclosed {
        draft.repaired(Fault::markup(at, "a closing tag is missing"), Repair::MissingCloser);
    }
    if !readable {
        draft.reading = None;
    }
    draft
}

/// The arguments, if they are one object in a parameter that the tool does not have.
fn wrapped(tool: &Tool, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
    const WRAPPERS: [&str; 5] = ["arguments", "parameters", "input", "args", "properties"];
    let (name, value) = arguments.iter().next().filter(|_| arguments.len() == 1)?;
    if !WRAPPERS.contains(&name.as_str()) || tool.has_parameter(name) || tool.has_no_parameters() {
        return None;
    }
    let inner = match value {
        Value::Object(inner) => inner.clone(),
        Value::String(text) => match Types::OBJECT.read(text, &mut Wide::new()) {
            Ok(Value::Object(inner)) => inner,
            _ => return None,
        },
        _ => return None,
    };
    inner.keys().all(|key| tool.has_parameter(key)).then_some(inner)
}

/// The draft of a call whose tags are truncated or wrong; moves the reply past it. `None` if it was inside reasoning.
pub(super) fn broken(
    reply: &mut Reply<'_>,
    open: usize,
    at: usize,
    tagged: &Tagged<'_>,
    why: Broken,
    close: &'static str,
    close_at: &mut Lookup,
) -> Option<Draft> {
    let end = close_at.find(reply.text, at).map_or(reply.text.len(), |found| found + close.len());
    if reply.ends_reasoning(open..end) {
        return None;
    }
    reply.pos = end;
    match why {
        Broken::Cut { clean } if end == reply.text.len() => {
            let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
            let fault = Fault::new(kind, end, "the text stops inside a call");
            if !clean || tagged.parameters.is_empty() {
                return Some(Draft::faulty(open..end, fault));
            }
            let mut draft = typed(reply, open..end, tagged);
            draft.repaired(fault, Repair::MissingCloser);
            Some(draft)
        }
        Broken::Cut { .. } => Some(Draft::faulty(open..end, Fault::markup(at, "a tag is never closed"))),
        Broken::Bad { at, message } => {
            // Without a closer the text ends inside the call, whatever else is wrong with it.
            let kind = reply.markup_kind(end == reply.text.len() && !reply.text.ends_with(close));
            Some(Draft::faulty(open..end, Fault::new(kind, at, message)))
        }
    }
}
