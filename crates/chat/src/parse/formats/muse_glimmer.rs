//! Muse Glimmer: messages with a recipient, with calls in `<atem:function_calls>`. A message to itself is reasoning.

use super::{Claim, Dialect, FormatEntry, Reply, Values};
use crate::parse::tagged::{self, Head};

const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
/// Tokens that end a message.
const ENDS: [&str; 3] = ["<|eom|>", "<|eot|>", START];

static DIALECT: Dialect = Dialect {
    sections: &[("<atem:function_calls>", "</atem:function_calls>")],
    call: Head { open: "<atem:invoke name=", close: ">", quoted: true },
    call_end: "</atem:invoke>",
    parameter: Head { open: "<atem:parameter name=", close: ">", quoted: true },
    value_end: "</atem:parameter>",
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "muse_glimmer",
    models: "Muse Glimmer",
    summary: "Messages to a tool that hold a section of invocations; messages to itself are reasoning.",
    markers: &["<atem:function_calls>", "<atem:invoke name=", MESSAGE],
    claims: |text, at| Claim::sure_if(!text[at..].starts_with(MESSAGE) || is_muse(text)),
    parse,
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};

/// Harmony has channels, and no recipient called self.
fn is_muse(text: &str) -> bool {
    !text.contains("<|channel|>") && (text.contains("to=self<|message|>") || text.contains("<atem:"))
}

fn parse(reply: &mut Reply<'_>) {
    let whole = reply.text;
    let ended = reply.ended;
    while reply.unclosed.is_none() && reply.pos < whole.len() {
        let rest = &whole[reply.pos..];
        let (header, body) = match rest.find(MESSAGE) {
            Some(length) if is_header(&rest[..length]) => (&rest[..length], reply.pos + length + MESSAGE.len()),
            _ => ("", reply.pos),
        };
        let recipient = header.split_whitespace().find_map(|word| word.strip_prefix("to=")).unwrap_or_default();
        let end = ENDS.iter().filter_map(|end| Some((whole[body..].find(end)? + body, *end))).min_by_key(|(at, _)| *at);
        let body_end = end.map_or(whole.len(), |(at, _)| at);
        if recipient == "self" {
            reply.add_reasoning(body..body_end);
            reply.unclosed = if end.is_none() { Some(reply.pos) } else { None };
        } else {
            reply.pos = body;
            reply.text = &whole[..body_end];
            reply.ended = ended || end.is_some();
            tagged::parse(reply, &DIALECT);
            reply.text = whole;
        }
        // The start of the next message belongs to its header.
        let skipped = end.filter(|(_, end)| *end != START).map_or(0, |(_, end)| end.len());
        reply.pos = if body_end == reply.pos && skipped == 0 { body_end + START.len() } else { body_end + skipped };
        reply.pos = reply.pos.min(whole.len());
    }
    reply.ended = ended;
    for draft in &mut reply.drafts {
        let Some(reading) = &mut draft.reading else { continue };
        // Tools are named with their namespace, which may be their own name.
        if reply.tools.get(&reading.name).is_none()
            && let Some((_, name)) = reading.name.rsplit_once('.')
            && reply.tools.get(name).is_some()
        {
            reading.name = name.to_owned();
        }
    }
}

/// `<|start|>assistant to=NAME`, or the part of it after the prompt.
fn is_header(text: &str) -> bool {
    let text = text.trim_start();
    let words = text.strip_prefix(START).unwrap_or(text).trim_start();
    words.split_whitespace().all(|word| word == "assistant" || word.starts_with("to="))
}
