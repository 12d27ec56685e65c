//! JSON between tags: one call, several, or the arguments of a call named outside.
//!
//! The JSON is read first, wherever it ends, so that a closing tag inside a string is text. Only when it is broken does
//! the closing tag say where the call ends.
//!
//! Each byte is read a bounded number of times. Broken regions do not overlap. A strict scan that fails may have run
//! past its region, but only while inside a string, past both tags; the next scan starts between these tags, and sees
//! every quote the first one saw with the opposite parity, so of any two overlapping scans one stops at the next tag.

use std::ops::Range;

use hone_trace::ParseFailureKind;
use serde_json::Value;

use super::{
    draft::{Draft, Fault, Shape, drafts_of, fields_of},
    json::{Json, JsonError},
    repair::Repair,
    reply::{Lookup, Reply},
    tolerant::{self, End, Fixed},
    wide::take_wide,
};

/// Content of the JSON.
#[derive(Clone, Copy)]
pub(super) enum Holds<'a> {
    /// A call object, or a list of them.
    Call,
    /// Call objects one after the other.
    Calls,
    /// The arguments of this call.
    Arguments { name: &'a str, id: Option<&'a str> },
}

/// The markers a payload may be followed by.
pub(super) struct Tag {
    pub close: &'static str,
    close_at: Lookup,
    /// Markers that open the next call in place of a closer; at most three.
    openers: &'static [&'static str],
    opener_at: [Lookup; 3],
}

impl Tag {
    pub(super) fn new(close: &'static str, openers: &'static [&'static str]) -> Self {
        let opener_at = [0, 1, 2].map(|index| Lookup::new(openers.get(index).copied().unwrap_or_default()));
        Self { close, close_at: Lookup::new(close), openers, opener_at }
    }

    fn next_opener(&mut self, text: &str, from: usize) -> Option<usize> {
        self.opener_at.iter_mut().take(self.openers.len()).filter_map(|lookup| lookup.find(text, from)).min()
    }
}

/// Reads every payload between `open` and the tag's closer.
pub(super) fn walk(reply: &mut Reply<'_>, open: &'static str, tag: &mut Tag, holds: Holds<'_>) {
    while let Some((which, at)) = reply.seek(&[open, tag.close]) {
        if which == 0 {
            read(reply, at, at + open.len(), holds, tag);
        } else {
            reply.stray_closer(at, tag.close, whole_payload);
        }
    }
}

/// The text from `start` as one call object, or a list of one, and nothing else.
pub(super) fn whole_payload(text: &str, start: usize) -> Option<Draft> {
    let mut drafts = Vec::new();
    let end = strict(text, start, Holds::Call, &mut drafts).ok()?;
    if end != text.len() || drafts.len() != 1 {
        return None;
    }
    drafts.pop()
}

/// Reads the payload at `start` of a call that opened at `open`, and moves the reply past its closer.
pub(super) fn read(reply: &mut Reply<'_>, open: usize, start: usize, holds: Holds<'_>, tag: &mut Tag) {
    let text = reply.text;
    let first = reply.drafts.len();
    match strict(text, start, holds, &mut reply.drafts) {
        Ok(end) => {
            let rest = &text[end..];
            let closed = rest.starts_with(tag.close).then_some(tag.close.len());
            let close = closed.or_else(|| tolerable_end(reply, rest, end, tag));
            if let Some(close) = close {
                reply.pos = end + close;
                stretch(&mut reply.drafts[first..], open, reply.pos);
                return;
            }
            let error = JsonError { at: end, why: "text after the JSON of a call", eof: false };
            let drafts = reply.drafts.split_off(first);
            broken(reply, open, start, holds, tag, Fault::json(error), Some((drafts, end)));
        }
        Err(error) => {
            reply.drafts.truncate(first);
            broken(reply, open, start, holds, tag, Fault::json(error), None);
        }
    }
}

/// The JSON is complete and no closer follows: the text ends, or the next call opens. Returns how much to skip.
fn tolerable_end(reply: &mut Reply<'_>, rest: &str, end: usize, tag: &Tag) -> Option<usize> {
    let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
    let last = reply.drafts.last_mut()?;
    if tag.close.starts_with(rest) {
        last.repaired(Fault::new(kind, end, format!("{} is missing", tag.close)), Repair::MissingCloser);
        return Some(rest.len());
    }
    let opener = tag.openers.iter().find(|opener| rest.starts_with(**opener))?;
    let message = format!("{opener} where {} should close the call", tag.close);
    last.repaired(Fault::markup(end, message), Repair::ReopenedTag);
    // An opener with nothing after it was meant as the closer.
    Some(if rest.trim_end() == *opener { rest.len() } else { 0 })
}

/// The strict reading: adds its calls, and returns where the JSON and the whitespace after it end.
fn strict(text: &str, start: usize, holds: Holds<'_>, drafts: &mut Vec<Draft>) -> Result<usize, JsonError> {
    let mut json = Json::new(text, start);
    json.whitespace();
    if let Holds::Arguments { name, id } = holds {
        let at = json.pos;
        let value = json.value()?;
        let wide = std::mem::take(&mut json.wide);
        drafts.push(Draft::of_arguments(at..json.pos, name, id, value, wide));
    } else {
        call_list(&mut json, drafts)?;
        json.whitespace();
        while json.peek() == Some(b'{') && matches!(holds, Holds::Calls) {
            call_object(&mut json, drafts)?;
            json.whitespace();
        }
    }
    json.whitespace();
    Ok(json.pos)
}

/// A call object, or an array of them.
pub(super) fn call_list(json: &mut Json<'_>, drafts: &mut Vec<Draft>) -> Result<(), JsonError> {
    if json.peek() != Some(b'[') {
        return call_object(json, drafts);
    }
    let (at, before) = (json.pos, drafts.len());
    json.items(|json| call_object(json, drafts))?;
    if drafts.len() == before {
        return Err(JsonError { at, why: "a list of calls without a call", eof: false });
    }
    Ok(())
}

fn call_object(json: &mut Json<'_>, drafts: &mut Vec<Draft>) -> Result<(), JsonError> {
    let at = json.pos;
    let mut shape = Shape::default();
    json.members(|json, key, _| {
        let value = json.value()?;
        shape.take(&key, value, std::mem::take(&mut json.wide));
        Ok(())
    })?;
    shape.drafts(at..json.pos, drafts);
    Ok(())
}

/// The payload is not JSON, or not only JSON. Finds the end of the call, names the fault, and looks for a unique
/// reading.
fn broken(
    reply: &mut Reply<'_>,
    open: usize,
    start: usize,
    holds: Holds<'_>,
    tag: &mut Tag,
    fault: Fault,
    complete: Option<(Vec<Draft>, usize)>,
) {
    let text = reply.text;
    let closer = tag.close_at.find(text, start);
    let opener = tag.next_opener(text, start);
    let end = closer.into_iter().chain(opener).min().unwrap_or(text.len());
    if reply.ends_reasoning(start..end) {
        return;
    }
    // Complete JSON, then something else, and no closer: the call is complete, its markup is not.
    if let Some((mut drafts, json_end)) = complete
        && closer.is_none_or(|closer| closer > end)
        && !text[json_end..].starts_with(['}', ']', '{', '[', ',', ';', '`'])
    {
        if let Some(last) = drafts.last_mut() {
            last.repaired(Fault::markup(json_end, format!("{} is missing", tag.close)), Repair::MissingCloser);
        }
        stretch(&mut drafts, open, json_end);
        reply.drafts.append(&mut drafts);
        reply.pos = json_end;
        return;
    }
    let cut = closer.is_none() && opener.is_none() && !reply.ended;
    let fault = if cut { Fault { kind: ParseFailureKind::Truncated, ..fault } } else { fault };
    reply.pos = if closer == Some(end) { end + tag.close.len() } else { end };
    let span = open..reply.pos;
    let known = if cut { End::Open } else { End::Closed };
    let drafts = match tolerant::values(&text[start..end], known) {
        Ok(fixed) => repaired_calls(span.clone(), holds, fixed, &fault),
        Err(_) => None,
    };
    reply.drafts.append(&mut drafts.unwrap_or_else(|| vec![Draft::faulty(span, fault)]));
}

/// Calls from repaired values; the fault goes to the first of them.
pub(super) fn repaired_calls(
    span: Range<usize>,
    holds: Holds<'_>,
    values: Vec<Fixed>,
    fault: &Fault,
) -> Option<Vec<Draft>> {
    let mut drafts = Vec::new();
    for Fixed { value, wide, repairs, .. } in values {
        let first = drafts.len();
        match (holds, value) {
            (Holds::Arguments { .. }, _) if first > 0 => return None,
            (Holds::Arguments { name, id }, value) => {
                drafts.push(Draft::of_arguments(span.clone(), name, id, value, wide));
            }
            (_, Value::Object(map)) => drafts.append(&mut drafts_of(span.clone(), fields_of(map, wide))),
            (_, Value::Array(items)) => {
                let mut wide = wide;
                for item in items {
                    let numbers = take_wide(&item, &mut wide);
                    let Value::Object(map) = item else { return None };
                    drafts.push(Draft::from_fields(span.clone(), fields_of(map, numbers)));
                }
            }
            _ => return None,
        }
        for draft in &mut drafts[first..] {
            draft.repairs.join(repairs);
        }
    }
    drafts.first_mut()?.blame(fault.clone());
    Some(drafts)
}

/// Calls that share a tag share its ends: the first starts with the opener, the last ends with the closer.
fn stretch(drafts: &mut [Draft], open: usize, end: usize) {
    if let Some(first) = drafts.first_mut() {
        first.span.start = open;
    }
    if let Some(last) = drafts.last_mut() {
        last.span.end = end;
    }
}
