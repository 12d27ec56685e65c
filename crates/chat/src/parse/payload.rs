//! JSON between tags: one call, several, or the arguments of a call named outside.
//!
//! The JSON is read first, wherever it ends, so that a closing tag inside a string is text. Only when it is broken does
//! the closing tag say where the call ends.
//!
//! Each byte is looked at a bounded number of times. Broken regions do not overlap. A strict scan that fails may have
//! run past its region, but only while inside a string, past both tags; the next scan starts between these tags, and
//! sees every quote the first one saw with the opposite parity, so of any two overlapping scans one stops at the next
//! tag.

use std::ops::Range;

use hone_trace::ParseFailureKind;
use serde_json::Value;

use super::{
    draft::{Draft, Fault, TOOL_CALLS, fields_of},
    json::{Json, JsonError},
    repair::{self, End, Fixed, Repair},
    reply::{Lookup, Reply},
};

/// What the JSON is.
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
    /// Markers that start the next call where this one should be closed.
    openers: Vec<(&'static str, Lookup)>,
}

impl Tag {
    pub fn new(close: &'static str, openers: &[&'static str]) -> Self {
        let openers = openers.iter().map(|opener| (*opener, Lookup::new(opener))).collect();
        Self { close, close_at: Lookup::new(close), openers }
    }
}

/// Reads the payload at `start` of a call that opened at `open`, and moves the reply behind its closer.
pub(super) fn read(reply: &mut Reply<'_>, open: usize, start: usize, holds: Holds<'_>, tag: &mut Tag) {
    let text = reply.text;
    let (fault, complete) = match strict(text, start, holds) {
        Ok((mut drafts, end)) => {
            let rest = &text[end..];
            let close = if rest.starts_with(tag.close) {
                tag.close.len()
            } else if let Some(skip) = tolerable_end(reply, rest, &mut drafts, end, tag) {
                skip
            } else {
                let error = JsonError { at: end, why: "text after the JSON of a call", eof: false };
                return broken(reply, open, start, holds, tag, Fault::json(error), Some((drafts, end)));
            };
            stretch(&mut drafts, open, end + close);
            reply.drafts.append(&mut drafts);
            reply.pos = end + close;
            return;
        }
        Err(error) => (Fault::json(error), None),
    };
    broken(reply, open, start, holds, tag, fault, complete);
}

/// The JSON is complete and no closer follows: where the text stops, or the next call opens. Gives what to skip.
fn tolerable_end(reply: &Reply<'_>, rest: &str, drafts: &mut [Draft], end: usize, tag: &Tag) -> Option<usize> {
    let last = drafts.last_mut()?;
    if tag.close.starts_with(rest) {
        let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
        last.mended(Fault::new(kind, end, format!("{} is missing", tag.close)), Repair::MissingCloser);
        return Some(rest.len());
    }
    let (opener, _) = tag.openers.iter().find(|(opener, _)| rest.starts_with(opener))?;
    let message = format!("{opener} where {} should close the call", tag.close);
    last.mended(Fault::markup(end, message), Repair::ReopenedTag);
    // An opener with nothing behind it was meant as the closer.
    Some(if rest.trim_end() == *opener { rest.len() } else { 0 })
}

/// The strict reading: its calls, and where the JSON and the blanks behind it end.
fn strict(text: &str, start: usize, holds: Holds<'_>) -> Result<(Vec<Draft>, usize), JsonError> {
    let mut json = Json::new(text, start);
    json.whitespace();
    let mut drafts = Vec::with_capacity(1);
    if let Holds::Arguments { name, id } = holds {
        let at = json.pos;
        let value = json.value()?;
        let wide = std::mem::take(&mut json.wide);
        drafts.push(Draft::of_arguments(at..json.pos, name, id, value, wide));
    } else {
        call_list(&mut json, &mut drafts)?;
        while matches!(holds, Holds::Calls) {
            json.whitespace();
            if json.peek() != Some(b'{') {
                break;
            }
            call_object(&mut json, &mut drafts)?;
        }
    }
    json.whitespace();
    Ok((drafts, json.pos))
}

/// A call object, or an array of them.
pub(super) fn call_list(json: &mut Json<'_>, drafts: &mut Vec<Draft>) -> Result<(), JsonError> {
    if json.peek() != Some(b'[') {
        return call_object(json, drafts);
    }
    let at = json.pos;
    json.items(|json| call_object(json, drafts))?;
    if drafts.is_empty() {
        return Err(JsonError { at, why: "a list of calls without a call", eof: false });
    }
    Ok(())
}

fn call_object(json: &mut Json<'_>, drafts: &mut Vec<Draft>) -> Result<(), JsonError> {
    let at = json.pos;
    let fields = json.fields()?;
    if fields.iter().any(|field| field.key == TOOL_CALLS) {
        drafts.append(&mut Draft::all_from_fields(at..json.pos, fields));
    } else {
        drafts.push(Draft::from_fields(at..json.pos, fields));
    }
    Ok(())
}

/// The payload is not JSON, or not alone. Finds where the call ends, names the fault, and looks for the one reading.
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
    let opener = tag.openers.iter_mut().filter_map(|(_, lookup)| lookup.find(text, start)).min();
    let end = closer.into_iter().chain(opener).min().unwrap_or(text.len());
    if reply.ends_reasoning(start..end) {
        return;
    }
    // Complete JSON, then something else, and no closer: the call is whole, its markup is not.
    if let Some((mut drafts, json_end)) = complete
        && closer.is_none_or(|closer| closer > end)
        && !text[json_end..].starts_with(['}', ']', '{', '[', ',', ';', '`'])
    {
        if let Some(last) = drafts.last_mut() {
            last.mended(Fault::markup(json_end, format!("{} is missing", tag.close)), Repair::MissingCloser);
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
    let drafts = match repair::values(&text[start..end], known) {
        Ok(fixed) => mend(span.clone(), holds, fixed, &fault),
        Err(_) => None,
    };
    reply.drafts.append(&mut drafts.unwrap_or_else(|| vec![Draft::faulty(span, fault)]));
}

/// Calls from repaired values; the fault goes to the first of them.
pub(super) fn mend(span: Range<usize>, holds: Holds<'_>, values: Vec<Fixed>, fault: &Fault) -> Option<Vec<Draft>> {
    let mut drafts = Vec::new();
    for Fixed { value, wide, repairs, .. } in values {
        let first = drafts.len();
        match (holds, value) {
            (Holds::Arguments { .. }, _) if first > 0 => return None,
            (Holds::Arguments { name, id }, value) => {
                drafts.push(Draft::of_arguments(span.clone(), name, id, value, wide));
            }
            (_, Value::Object(map)) => drafts.append(&mut Draft::all_from_fields(span.clone(), fields_of(map, wide))),
            (_, Value::Array(items)) => {
                for item in items {
                    let Value::Object(map) = item else { return None };
                    drafts.push(Draft::from_fields(span.clone(), fields_of(map, wide.clone())));
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
