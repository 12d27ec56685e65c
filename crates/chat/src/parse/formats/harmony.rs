//! gpt-oss Harmony, read as text: messages with a header (role, channel, recipient) and a body.
//!
//! A message to `functions.NAME` is a call; the analysis channel is reasoning; everything else is content. `<|call|>`
//! and `<|return|>` are the model's end tokens, so a server may have cut them off: a call whose JSON is complete is
//! complete.

use hone_trace::{ParseFailureKind, ToolCall};

use super::{Claim, FormatEntry, Holds, Reply, Values, arguments_json, payload};
use crate::parse::{
    draft::{Draft, Fault},
    json::Json,
    repair::Repair,
    reply::Lookup,
    tolerant::{self, End},
    work::spend,
};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";
const RETURN: &str = "<|return|>";
const PREFIX: &str = "functions.";

/// Markers that end a body; the last two open the next message.
const ENDS: [&str; 5] = [CALL, END, RETURN, START, CHANNEL];

struct Lookups {
    message: Lookup,
    ends: [Lookup; 5],
    /// The only ends of reasoning, so that no call can be inside it.
    thoughts: [Lookup; 2],
}

impl Lookups {
    /// The first marker that ends a body.
    fn end(&mut self, text: &str, from: usize) -> Option<(usize, &'static str)> {
        let found = self.ends.iter_mut().zip(ENDS).filter_map(|(lookup, end)| Some((lookup.find(text, from)?, end)));
        found.min_by_key(|(at, _)| *at)
    }

    /// End of the reasoning that starts at `from`.
    fn end_of_thought(&mut self, text: &str, from: usize) -> Option<usize> {
        self.thoughts.iter_mut().filter_map(|lookup| lookup.find(text, from)).min()
    }
}

/// Reading of a header.
struct Header<'a> {
    role: &'a str,
    channel: &'a str,
    recipient: Option<&'a str>,
    /// Something in it does not belong there.
    junk: bool,
}

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "harmony",
    models: "gpt-oss",
    summary: "Messages with a header: a message to `functions.NAME` is a call, the analysis channel is reasoning.",
    markers: &[CHANNEL, MESSAGE],
    claims: |_, _| Claim::Default,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let thoughts = [END, RETURN].map(Lookup::new);
    let mut lookups = Lookups { message: Lookup::new(MESSAGE), ends: ENDS.map(Lookup::new), thoughts };
    if let Some(at) = header_at_start(reply) {
        message(reply, at, &mut lookups);
    }
    while let Some((which, at)) = reply.seek(&[START, CHANNEL, MESSAGE, END, CALL, RETURN]) {
        if which > 2 {
            reply.pos = at + [END, CALL, RETURN][which - 3].len();
            continue;
        }
        message(reply, at, &mut lookups);
        if reply.unclosed.is_some() {
            return;
        }
    }
}

/// A header that starts with the text, its `<|start|>` and perhaps its role in the prompt: `to=functions.f<|channel|>`.
fn header_at_start(reply: &Reply<'_>) -> Option<usize> {
    let rest = reply.rest();
    let head = &rest[..rest.find("<|")?];
    let mut words = head.split_whitespace();
    let named = head.contains("to=") && words.all(|word| word == "assistant" || word.starts_with("to="));
    let follows = [CHANNEL, MESSAGE, CONSTRAIN].iter().any(|marker| rest[head.len()..].starts_with(marker));
    (named && follows).then_some(reply.pos)
}

fn message(reply: &mut Reply<'_>, at: usize, lookups: &mut Lookups) {
    let text = reply.text;
    let head_end = lookups.message.find(text, at);
    spend(head_end.unwrap_or(text.len()) - at);
    // A header is short and holds no end marker.
    let bad_end = [END, CALL, RETURN].iter().filter_map(|end| text[at..head_end.unwrap_or(text.len())].find(end)).min();
    let (Some(head_end), None) = (head_end, bad_end) else {
        let end = bad_end.map_or(text.len(), |end| at + end);
        let kind = if bad_end.is_some() { ParseFailureKind::MalformedMarkup } else { ParseFailureKind::Truncated };
        reply.drafts.push(Draft::faulty(at..end, Fault::new(kind, end, format!("a header without {MESSAGE}"))));
        reply.pos = end;
        return;
    };
    let header = read_header(&text[at..head_end]);
    let start = head_end + MESSAGE.len();
    if header.role.starts_with(PREFIX) || matches!(header.role, "user" | "tool" | "system" | "developer") {
        // Another participant's turn, made up by the model.
        reply.ignored = Some(at..text.len());
        reply.pos = text.len();
        return;
    }
    match header.recipient {
        Some(recipient) if !matches!(recipient, "user" | "assistant" | "all") => {
            call(reply, at, start, recipient, header.junk, lookups);
        }
        _ => {
            if header.channel == "analysis" {
                let end = lookups.end_of_thought(text, start);
                reply.pos = end.unwrap_or(text.len());
                reply.add_reasoning(start..reply.pos);
                if end.is_none() {
                    reply.unclosed = Some(at);
                }
            } else {
                reply.pos = start;
                reply.keep(lookups.end(text, start).map_or(text.len(), |(at, _)| at));
            }
        }
    }
}

fn read_header(header: &str) -> Header<'_> {
    let header = header.strip_prefix(START).unwrap_or(header);
    let (role, rest) = header.split_once(CHANNEL).unwrap_or((header, ""));
    let junk = rest.contains(CHANNEL) || rest.contains(START);
    let role_name = role.split_whitespace().next().filter(|word| !word.starts_with("to=")).unwrap_or_default();
    let last = rest.rsplit(CHANNEL).next().unwrap_or(rest);
    let word_end = |text: &str| text.find(|ch: char| ch.is_whitespace() || ch == '<').unwrap_or(text.len());
    let channel = last.trim_start();
    let channel = &channel[..word_end(channel)];
    let recipient = header.find("to=").map(|at| &header[at + 3..]).map(|text| &text[..word_end(text)]);
    Header { role: role_name, channel, recipient: recipient.filter(|name| !name.is_empty()), junk }
}

fn call(reply: &mut Reply<'_>, open: usize, start: usize, recipient: &str, junk: bool, lookups: &mut Lookups) {
    let text = reply.text;
    let name = match reply.tools.get(recipient) {
        Some(_) => recipient,
        None => recipient.strip_prefix(PREFIX).unwrap_or(recipient),
    };
    let mut json = Json::new(text, start);
    let read = json.value();
    json.whitespace();
    let behind = &text[json.pos..];
    let first = reply.drafts.len();
    match read {
        Ok(value) if behind.is_empty() || ENDS.iter().any(|end| behind.starts_with(end)) => {
            let mut draft = Draft::of_arguments(open..json.pos, name, None, value, std::mem::take(&mut json.wide));
            if let Some(opener) = ENDS[3..].iter().find(|opener| behind.starts_with(**opener)) {
                let message = format!("{opener} where {CALL} should end the call");
                draft.repaired(Fault::markup(json.pos, message), Repair::ReopenedTag);
            }
            reply.pos = json.pos;
            if let Some(end) = ENDS[..3].iter().find(|end| behind.starts_with(**end)) {
                reply.pos += end.len();
                draft.span.end = reply.pos;
            }
            reply.drafts.push(draft);
        }
        read => {
            let fault = match read {
                Ok(_) => Fault::new(ParseFailureKind::MalformedJson, json.pos, "text after the JSON of a call"),
                Err(error) => Fault::json(error),
            };
            broken(reply, open, start, name, fault, lookups);
        }
    }
    if junk && let Some(draft) = reply.drafts.get_mut(first) {
        draft.repaired(Fault::markup(open, "the header has a marker too many"), Repair::HeaderJunk);
    }
}

fn broken(reply: &mut Reply<'_>, open: usize, start: usize, name: &str, fault: Fault, lookups: &mut Lookups) {
    let text = reply.text;
    let end = lookups.end(text, start);
    let body_end = end.map_or(text.len(), |(at, _)| at);
    let fault = if end.is_none() { Fault { kind: ParseFailureKind::Truncated, ..fault } } else { fault };
    let holds = Holds::Arguments { name, id: None };
    let known = if end.is_none() { End::Open } else { End::Closed };
    let drafts = tolerant::values(&text[start..body_end], known).ok();
    let drafts = drafts.and_then(|values| payload::repaired_calls(open..body_end, holds, values, &fault));
    reply.drafts.append(&mut drafts.unwrap_or_else(|| vec![Draft::faulty(open..body_end, fault)]));
    reply.pos = body_end;
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls
        .iter()
        .map(|call| {
            let arguments = arguments_json(call);
            format!("{CHANNEL}commentary to={PREFIX}{} {CONSTRAIN}json{MESSAGE}{arguments}{CALL}", call.name)
        })
        .collect();
    calls.join(&format!("{START}assistant"))
}

fn guidance() -> String {
    format!(
        "To call a tool send a message {CHANNEL}commentary to={PREFIX}NAME {CONSTRAIN}json{MESSAGE} with its arguments as \
         a JSON object, ended by {CALL}."
    )
}
