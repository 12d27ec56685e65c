//! Calls as plain JSON, without a closing marker: after a marker that says a call follows, or anywhere in the text.
//!
//! Without a marker, an object is a call only by its shape. An object of another shape is an answer and stays in
//! the text.

use std::ops::Range;

use hone_trace::ParseFailureKind;
use serde_json::Value;

use super::{
    draft::{Draft, Fault, Likeness, TOOL_CALLS, drafts_of, fields_of, is_call_key, likeness},
    json::{Field, Json, JsonError},
    payload::{self, Holds},
    repair::Repair,
    reply::{Lookup, Reply, run_end},
    tolerant::{self, End, NoReading},
};

/// Calls that a marker at `open` announces, as JSON at `start`.
pub(super) fn marked(reply: &mut Reply<'_>, open: usize, start: usize) {
    let mut json = Json::new(reply.text, start);
    let mut drafts = Vec::new();
    match payload::call_list(&mut json, &mut drafts) {
        Ok(()) => {
            let end = json.pos;
            accept(reply, open, end, drafts);
        }
        Err(error) => faulty(reply, open, start, Holds::Call, error),
    }
}

/// The arguments at `start` of the call to `name` that opened at `open`.
pub(super) fn arguments(reply: &mut Reply<'_>, open: usize, start: usize, name: &str, id: Option<&str>) {
    let mut json = Json::new(reply.text, start);
    match json.value() {
        Ok(value) => {
            let draft = Draft::of_arguments(open..json.pos, name, id, value, std::mem::take(&mut json.wide));
            let end = json.pos;
            accept(reply, open, end, vec![draft]);
        }
        Err(error) => faulty(reply, open, start, Holds::Arguments { name, id }, error),
    }
}

/// Accepts complete calls, and superfluous closers after them.
fn accept(reply: &mut Reply<'_>, open: usize, end: usize, mut drafts: Vec<Draft>) {
    if let Some(first) = drafts.first_mut() {
        first.span.start = open;
    }
    if let Some(last) = drafts.last_mut() {
        last.span.end = end;
    }
    reply.pos = end;
    let rest = reply.rest().trim_start();
    if rest.starts_with(['}', ']'])
        && let Some(last) = drafts.last_mut()
    {
        let at = reply.text.len() - rest.len();
        let behind = rest.trim_start_matches(|ch: char| ch == '}' || ch == ']' || ch.is_ascii_whitespace());
        let error = JsonError { at, why: "a closing bracket too many", eof: false };
        last.repaired(Fault::json(error), Repair::ExtraCloser);
        reply.pos = reply.text.len() - behind.len();
    }
    reply.drafts.append(&mut drafts);
}

/// Broken JSON that is a call. Without an end marker nothing after it can be trusted, unless it can be repaired.
fn faulty(reply: &mut Reply<'_>, open: usize, start: usize, holds: Holds<'_>, error: JsonError) {
    let text = reply.text;
    if reply.ends_reasoning(start..text.len()) {
        return;
    }
    let mut fixed = tolerant::value(text, start, End::Closed);
    let cut = match &fixed {
        Err(NoReading::Cut) => true,
        Err(NoReading::Unclear) => error.eof,
        Ok(fixed) => fixed.repairs.contains(Repair::MissingCloser) && fixed.end == text.len(),
    };
    let mut fault = Fault::json(error);
    if cut && !reply.ended {
        fault.kind = ParseFailureKind::Truncated;
        fixed = tolerant::value(text, start, End::Open);
    }
    let repaired = fixed.ok().and_then(|fixed| {
        let end = fixed.end;
        Some((payload::repaired_calls(open..end, holds, vec![fixed], &fault)?, end))
    });
    let (mut drafts, end) =
        repaired.unwrap_or_else(|| (vec![Draft::faulty(open..text.len(), fault.clone())], text.len()));
    reply.drafts.append(&mut drafts);
    reply.pos = end;
}

/// Words that a truncated object must contain to count as a call.
pub(super) struct Evidence([Lookup; 3]);

impl Evidence {
    pub(super) fn new() -> Self {
        Self([Lookup::new("arguments"), Lookup::new("parameters"), Lookup::new("tool_calls")])
    }

    fn after(&mut self, text: &str, at: usize) -> bool {
        self.0.iter_mut().any(|word| word.find(text, at).is_some())
    }
}

/// Reads every untagged call from here to the end of the text.
pub(super) fn walk(reply: &mut Reply<'_>) {
    let mut evidence = Evidence::new();
    while let Some((_, at)) = reply.seek(&["{", "["]) {
        untagged(reply, at, &mut evidence);
    }
}

/// Handles the bracket at `at`: accepts the call that starts there, or keeps the text as prose.
pub(super) fn untagged(reply: &mut Reply<'_>, at: usize, evidence: &mut Evidence) {
    let text = reply.text;
    let rest = &text.as_bytes()[at..];
    if !starts_like_json(rest) {
        reply.keep(run_end(text.as_bytes(), at));
        return;
    }
    let mut json = Json::new(text, at);
    match Json::new(text, at).skip().and_then(|()| read_items(&mut json)) {
        Ok(items) => {
            let end = json.pos;
            if !take_items(reply, at..end, items) {
                reply.keep(end);
            }
        }
        Err(error) if looks_like_call(reply, at, evidence) => faulty(reply, at, at, Holds::Call, error),
        Err(error) => {
            let next = if reply.may_rescan(at, error.at.max(at)) { at + 1 } else { error.at.max(at + 1) };
            let next = (next..=text.len()).find(|next| text.is_char_boundary(*next)).unwrap_or(text.len());
            reply.keep(next);
        }
    }
}

/// True when the JSON at `at` (strict or broken) is a call; nothing is consumed.
pub(super) fn is_call(reply: &Reply<'_>, at: usize, evidence: &mut Evidence) -> bool {
    let mut json = Json::new(reply.text, at);
    match read_items(&mut json) {
        Ok(items) => !items.is_empty() && items.iter().all(|(_, fields)| counts(reply, fields, false)),
        Err(_) => looks_like_call(reply, at, evidence),
    }
}

/// True when brackets at the start of `rest` can open an object or a list of objects, whole or broken.
fn starts_like_json(rest: &[u8]) -> bool {
    let object = if rest[0] == b'[' { rest[1..].trim_ascii_start() } else { rest };
    let Some(inside) = object.strip_prefix(b"{") else { return false };
    // A key in some quotes (the typographic ones start with 0xE2) or none, a comment, or nothing.
    match inside.trim_ascii_start().first() {
        Some(byte) => byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'\'' | b'_' | b'}' | b'/' | b'#' | 0xE2),
        None => true,
    }
}

/// An object, or an array of objects, each with its range.
type Items<'a> = Vec<(Range<usize>, Vec<Field<'a>>)>;

fn read_items<'a>(json: &mut Json<'a>) -> Result<Items<'a>, JsonError> {
    let mut items = Vec::new();
    let mut item = |json: &mut Json<'a>| {
        let at = json.pos;
        let fields = json.fields()?;
        items.push((at..json.pos, fields));
        Ok(())
    };
    if json.peek() == Some(b'[') {
        json.items(item)?;
    } else {
        item(json)?;
    }
    Ok(items)
}

/// Accepts the items as calls if all of them are; false if they are an answer.
fn take_items(reply: &mut Reply<'_>, span: Range<usize>, mut items: Items<'_>) -> bool {
    if let [(_, fields)] = items.as_mut_slice()
        && let Some(message) = message_of(fields)
    {
        reply.content = message.content.map(|content| content.trim().to_owned());
        reply.pos = span.end;
        if let Some(fields) = message.calls {
            accept(reply, span.start, span.end, drafts_of(span.clone(), fields));
        }
        return true;
    }
    let behind = reply.text[span.end..].trim_start();
    let alone = !reply.has_prose && (behind.is_empty() || behind.starts_with([';', ',', '{', '[', '}', ']']));
    if items.is_empty() || !items.iter().all(|(_, fields)| counts(reply, fields, alone)) {
        return false;
    }
    let drafts = items.into_iter().map(|(range, fields)| Draft::from_fields(range, fields)).collect();
    accept(reply, span.start, span.end, drafts);
    let rest = reply.rest().trim_start();
    if let Some(next) = rest.strip_prefix([';', ',']).map(str::trim_start)
        && (next.is_empty() || next.starts_with(['{', '[']))
    {
        reply.pos = reply.text.len() - next.len();
    }
    true
}

/// True if an object is a call. If the format is only guessed, an unknown tool makes it an answer, unless the object is
/// the whole text.
fn counts(reply: &Reply<'_>, fields: &[Field<'_>], alone: bool) -> bool {
    if fields.iter().any(|field| field.key == TOOL_CALLS) {
        return true;
    }
    let (like, name) = likeness(fields);
    let known = name.is_some_and(|name| reply.tools.get(name).is_some());
    match like {
        Likeness::None => false,
        Likeness::IfKnown => known,
        Likeness::Call => known || alone || reply.named,
    }
}

/// An OpenAI message: its text and its calls.
struct Message<'a> {
    content: Option<String>,
    /// Members that hold calls.
    calls: Option<Vec<Field<'a>>>,
}

fn message_of<'a>(fields: &mut Vec<Field<'a>>) -> Option<Message<'a>> {
    if let Some(Field { value: Value::Array(choices), .. }) = fields.iter_mut().find(|field| field.key == "choices") {
        let Value::Object(message) = choices.first_mut()?.get_mut("message")?.take() else { return None };
        let mut inner = fields_of(message, Vec::new());
        inner.retain(|field| field.key != "choices");
        return message_of(&mut inner);
    }
    let has = |key: &str| fields.iter().any(|field| field.key == key);
    let calls = has(TOOL_CALLS) || (has("function_call") && has("role"));
    let is_message = calls || (has("role") && has("content"));
    if !is_message {
        return None;
    }
    let take = |fields: &mut Vec<Field<'a>>, key: &str| {
        let index = fields.iter().position(|field| field.key == key)?;
        Some(fields.swap_remove(index))
    };
    let content = match take(fields, "content").map(|field| field.value) {
        Some(Value::String(text)) => Some(text),
        _ => Some(String::new()),
    };
    let calls = take(fields, TOOL_CALLS)
        .filter(|field| !field.value.is_null())
        .or_else(|| take(fields, "function_call").filter(|field| field.value.is_object()));
    Some(Message { content, calls: calls.map(|field| vec![field]) })
}

/// True if broken JSON at `at` was meant as a call: it starts with a call's key, and it names a tool or continues to
/// arguments.
fn looks_like_call(reply: &Reply<'_>, at: usize, evidence: &mut Evidence) -> bool {
    let text = reply.text;
    let inner = text[at..].strip_prefix('[').unwrap_or(&text[at..]).trim_start();
    let Some(inner) = inner.strip_prefix('{').map(str::trim_start) else { return false };
    let Some((key, rest)) = word(inner) else { return false };
    if !is_call_key(key) {
        return false;
    }
    let Some(value) = rest.trim_start().strip_prefix(':').map(str::trim_start) else {
        return rest.trim().is_empty() && !reply.has_prose && key == "name";
    };
    if let Some((name, rest)) = word(value) {
        let stops = rest.trim().is_empty();
        let known = reply.tools.get(name).is_some();
        if known || (stops && reply.tools.names().any(|tool| tool.starts_with(name))) {
            return true;
        }
    } else if value.trim_matches(['"', '\'']).is_empty() {
        return key == "name" && !reply.has_prose;
    }
    (reply.named || !reply.has_prose) && evidence.after(text, at)
}

/// A quoted or bare word at the start of `text`, and what follows.
fn word(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix(['"', '\'', '\u{201c}', '\u{2018}']).unwrap_or(text);
    let end = inner
        .char_indices()
        .take(256)
        .find(|(_, ch)| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.')))
        .map_or(inner.len().min(256), |(end, _)| end);
    let word = inner.get(..end).filter(|word| !word.is_empty())?;
    let rest = &inner[end..];
    Some((word, rest.strip_prefix(['"', '\'', '\u{201d}', '\u{2019}']).unwrap_or(rest)))
}
