//! From sampled ids to an action: decode, parse, and decide what runs.

use hone_chat::Tokenizer;
use hone_chat::parse::{Parsed, ParsedCall, Repair, Toolbox, parse};
use hone_trace::{Action, Content, Message, ParseFailure, ParseFailureKind, ToolCall};

use super::settings::{CallMode, OnRepair, RolloutSettings};

/// What a reply says and what is done about it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) action: Action,
    /// Every call the reply makes, those that will not run included.
    pub(super) calls: Vec<ToolCall>,
    pub(super) failure: Option<ParseFailure>,
    pub(super) repairs: Vec<String>,
    /// How many of the sampled ids stay in the record.
    pub(super) keep: usize,
    /// The reply as text, for scorers and viewers.
    pub(super) message: Message,
}

pub(super) fn read(ids: &[u32], tokenizer: &Tokenizer, tools: &Toolbox, settings: &RolloutSettings) -> Reading {
    let (text, ends) = decode(ids, tokenizer);
    let Parsed { calls, content, reasoning, error, repaired_calls, repairs, .. } = parse(&text, tools, settings.format);
    let repaired = match &error {
        // A cut-off call is never run, even where only a closing tag is missing.
        Some(failure) if failure.kind == ParseFailureKind::Truncated => None,
        Some(_) if settings.repair == OnRepair::Run => repaired_calls,
        _ => None,
    };
    let repairs = if repaired.is_some() { repairs.iter().copied().filter_map(name).collect() } else { Vec::new() };
    let runnable = if error.is_none() { calls } else { repaired.unwrap_or_default() };
    let calls: Vec<ToolCall> = runnable.iter().map(|parsed| parsed.call.clone()).collect();
    let keep = kept(&runnable, &ends, settings.calls);
    let action = match (&error, calls.is_empty()) {
        (_, false) if settings.calls == CallMode::First => Action::Calls(calls[..1].to_vec()),
        (_, false) => Action::Calls(calls.clone()),
        (Some(failure), true) => Action::Malformed(failure.clone()),
        (None, true) => Action::Reply(content.clone()),
    };
    let message = Message::Assistant {
        content: Some(Content::Text(if error.is_some() { text } else { content })),
        reasoning,
        tool_calls: if let Action::Calls(calls) = &action { calls.clone() } else { Vec::new() },
    };
    Reading { action, calls, failure: error, repairs, keep, message }
}

/// A repair by the name it has everywhere.
fn name(repair: Repair) -> Option<String> {
    serde_json::to_value(repair).ok()?.as_str().map(str::to_owned)
}

/// The text of the ids, and its length after each of them.
fn decode(ids: &[u32], tokenizer: &Tokenizer) -> (String, Vec<usize>) {
    let mut decoder = tokenizer.stream();
    let mut text = String::new();
    let mut ends = Vec::with_capacity(ids.len());
    for &id in ids {
        text.push_str(&decoder.push(id));
        ends.push(text.len());
    }
    text.push_str(&decoder.finish());
    if let Some(last) = ends.last_mut() {
        *last = text.len();
    }
    (text, ends)
}

/// With first-call-only, the ids up to the end of the first of several calls; otherwise all.
fn kept(calls: &[ParsedCall], ends: &[usize], mode: CallMode) -> usize {
    match calls {
        [first, _, ..] if mode == CallMode::First => {
            ends.iter().position(|&end| end >= first.span.end).map_or(ends.len(), |last| last + 1)
        }
        _ => ends.len(),
    }
}
