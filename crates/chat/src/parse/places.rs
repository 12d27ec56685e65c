//! Places of arguments: the position of each argument's value in the reply, and what ends it.
//!
//! The parser's hot path keeps no positions of values. They are found afterwards, inside the span of a call that was
//! read, with the reader that read it, and count only if that reading gives the call's arguments again: an object that
//! holds the arguments cannot occur inside itself, so text in a value that looks like a call is never mistaken for one.
//! Calls that ran only after a repair of their values have no places.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    ParsedCall,
    formats::{FORMATS, Values, minimax_m3},
    json::{self, Json},
    python::Python,
    tagged::{Dialect, attribute},
    toolbox::Toolbox,
    wide::Wide,
    xml,
};

/// An argument's value in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub argument: String,
    /// Bytes of the value as written, quotes and brackets included.
    pub value: Range<usize>,
    /// End of the text that ends the value: a string or a list ends with its own last byte, a number with the byte
    /// after it, a value between tags with the start of the closing tag.
    pub end: usize,
}

/// The places of one reading of a call's arguments.
type Places = Vec<Place>;

/// For each call of a reply, the places of its arguments. Empty for a call whose arguments are not found exactly once.
pub fn places(text: &str, calls: &[ParsedCall], tools: &Toolbox) -> Vec<Vec<Place>> {
    let mut found = Vec::with_capacity(calls.len());
    // Calls of one message may share a span. Equal ones are in text order.
    for calls in calls.chunk_by(|one, other| one.span == other.span) {
        let span = calls[0].span.clone();
        let objects = objects(text, span.clone());
        for (index, call) in calls.iter().enumerate() {
            let same = |other: &&ParsedCall| other.call.arguments == call.call.arguments;
            let (before, all) = (calls[..index].iter().filter(same).count(), calls.iter().filter(same).count());
            let mut readings: Vec<&Places> =
                objects.iter().filter(|(map, _)| *map == call.call.arguments).map(|(_, places)| places).collect();
            let other = if readings.is_empty() { written_otherwise(text, call, tools) } else { Vec::new() };
            readings.extend(&other);
            let only = if readings.len() == all { readings.get(before) } else { None };
            found.push(only.map_or_else(Vec::new, |places| (*places).clone()));
        }
    }
    found
}

/// Every JSON object in a span, and every one in a JSON string there, with the places of its members.
fn objects(text: &str, span: Range<usize>) -> Vec<(Map<String, Value>, Places)> {
    let Some(inside) = text.get(..span.end) else { return Vec::new() };
    let mut found = Vec::new();
    for at in memchr::memchr_iter(b'{', &inside.as_bytes()[span.start..]).map(|at| at + span.start) {
        found.extend(object(inside, at));
    }
    let quotes = memchr::memchr_iter(b'"', &inside.as_bytes()[span.start..]).map(|at| at + span.start);
    for at in quotes.filter(|at| inside[at + 1..].trim_start().starts_with('{')) {
        found.extend(quoted_object(inside, at));
    }
    found
}

fn object(text: &str, at: usize) -> Option<(Map<String, Value>, Places)> {
    let (mut map, mut places) = (Map::new(), Places::new());
    let mut json = Json::new(text, at);
    json.members(|json, key, _| {
        json.whitespace();
        let start = json.pos;
        let value = json.value()?;
        places.push(place(text, &key, start..json.pos, &value));
        map.insert(key.into_owned(), value);
        Ok(())
    })
    .ok()?;
    (!map.is_empty()).then_some((map, places))
}

/// The object that a JSON string at `at` holds, with its places mapped back to the escaped text.
fn quoted_object(text: &str, at: usize) -> Option<(Map<String, Value>, Places)> {
    let mut json = Json::new(text, at);
    json.string().ok()?;
    let end = json.pos - 1;
    // The decoded text, and where in the source each of its bytes starts.
    let (mut decoded, mut sources) = (String::new(), Vec::new());
    json.pos = at + 1;
    while json.pos < end {
        let start = json.pos;
        let ch = if json.peek() == Some(b'\\') {
            json.escape().ok()?
        } else {
            let ch = text[start..end].chars().next()?;
            json.pos += ch.len_utf8();
            ch
        };
        decoded.push(ch);
        sources.resize(decoded.len(), start);
    }
    sources.push(end);
    json::read_all(&decoded).ok()?;
    let start = decoded.len() - decoded.trim_start().len();
    let (map, mut places) = object(&decoded, start)?;
    for place in &mut places {
        place.value = sources[place.value.start]..sources[place.value.end];
        place.end = sources[place.end];
    }
    Some((map, places))
}

/// Readings of a call in keyword syntax or between tags.
fn written_otherwise(text: &str, call: &ParsedCall, tools: &Toolbox) -> Vec<Places> {
    let Some(inside) = text.get(..call.span.end) else { return Vec::new() };
    let (name, start) = (call.call.name.as_bytes(), call.span.start);
    let names = memchr::memmem::find_iter(&inside.as_bytes()[start..], name).map(|at| at + start);
    let mut found: Vec<Places> = names.filter_map(|at| keywords(inside, at, call)).collect();
    if found.is_empty() {
        // Dialects share tags; one reading is enough.
        found.extend(FORMATS.iter().find_map(|entry| written_as(entry.values, inside, call, tools)));
    }
    found
}

/// The places of arguments that are not in JSON's or Python's syntax.
fn written_as(values: Values, text: &str, call: &ParsedCall, tools: &Toolbox) -> Option<Places> {
    let tool = tools.get(&call.call.name)?;
    let (members, behind) = match values {
        Values::Literal => return None,
        Values::Tagged(dialect) => return tagged_places(dialect, text, call, tools),
        Values::Elements => (minimax_m3::members(text, call.span.clone(), &call.call, tool)?, 1),
        Values::Curly(curly) => (curly.members(text, call.span.clone(), &call.call, tool)?, 0),
    };
    let place = |(argument, value): (String, Range<usize>)| {
        let read = call.call.arguments.get(&argument)?;
        let mut place = place(text, &argument, value, read);
        place.end = place.end.max(place.value.end + behind);
        Some(place)
    };
    members.into_iter().map(place).collect()
}

fn keywords(text: &str, at: usize, call: &ParsedCall) -> Option<Places> {
    let mut python = Python::new(text, at);
    let read = python.call().ok()?;
    if read.name != call.call.name || read.arguments != call.call.arguments {
        return None;
    }
    let place = |(key, value): (Range<usize>, Range<usize>)| {
        let key = &text[key];
        Some(place(text, key, value, read.arguments.get(key)?))
    };
    python.keywords.into_iter().map(place).collect()
}

/// A value in JSON's or Python's syntax. A value without a closer ends at the next character.
fn place(text: &str, argument: &str, value: Range<usize>, read: &Value) -> Place {
    let closes_itself = matches!(read, Value::String(_) | Value::Array(_) | Value::Object(_));
    let next = text[value.end..].chars().next().map_or(0, char::len_utf8);
    let end = if closes_itself { value.end } else { value.end + next };
    Place { argument: argument.to_owned(), value, end }
}

/// The places of a call's arguments, if a dialect's tags contain exactly them.
fn tagged_places(dialect: &Dialect, text: &str, call: &ParsedCall, tools: &Toolbox) -> Option<Places> {
    let tool = tools.get(&call.call.name)?;
    let (open, named) = (dialect.parameter.open, dialect.parameter.close);
    let mut places = Places::new();
    let mut pos = call.span.start;
    while let Some(found) = text[pos..].find(open) {
        pos += found + open.len();
        let length = text[pos..].find(named)?;
        let argument = text[pos..pos + length].trim();
        let argument = if dialect.parameter.quoted { attribute(argument) } else { argument };
        pos += length + named.len();
        if let Some(value) = dialect.value {
            pos += text[pos..].find(value)? + value.len();
        }
        let length = text[pos..].find(dialect.value_end)?;
        let raw = &text[pos..pos + length];
        let lines = dialect.strips_lines;
        let value = if lines { xml::strip_newlines(raw) } else { raw };
        let start = pos + usize::from(lines && raw.starts_with('\n'));
        let read = tool.types(argument).read(value, &mut Wide::new()).ok()?;
        if call.call.arguments.get(argument) != Some(&read) || places.iter().any(|known| known.argument == argument) {
            return None;
        }
        let (value, end) = (start..start + value.len(), pos + length + 1);
        places.push(Place { argument: argument.to_owned(), value, end });
        pos += length + dialect.value_end.len();
    }
    (places.len() == call.call.arguments.len() && !places.is_empty()).then_some(places)
}
