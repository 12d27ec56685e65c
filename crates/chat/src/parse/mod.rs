//! Model text to tool calls: a call, a plain reply, or a named fault.
//!
//! The verdict is strict: a reply that is not exactly valid calls or plain text carries a [`ParseFailure`]. If the text
//! can only mean one thing, the result also has the intended calls and the [`Repair`]s they needed, so that training
//! can penalise the form and still run the call.
//!
//! A reply goes through four stages. [`tokens`] strips leaked end tokens. A format ([`formats`]) walks the text, skips
//! reasoning, and produces one draft per call. The drafts are judged against the tools ([`toolbox`]). The first faulty
//! one names the failure, by the order of [`ParseFailureKind`].
//!
//! Model text is hostile: every stage is linear in its length, nesting is bounded at [`MAX_NESTING`], and nothing inside
//! reasoning, closed or not, becomes a call. The parser knows no model, no tokenizer and no template.

mod coerce;
mod curly;
mod detect;
mod draft;
mod embedded;
mod enclosed;
mod expansion;
mod explain;
mod formats;
mod json;
mod output;
mod payload;
mod places;
mod python;
mod reasoning;
mod repair;
mod reply;
mod section;
mod statements;
mod tagged;
mod tokens;
mod tolerant;
mod toolbox;
mod types;
mod unknown;
mod verdict;
mod wide;
mod work;
mod xml;

use std::ops::Range;

use hone_trace::ToolCall;
pub use hone_trace::{ParseFailure, ParseFailureKind};

use self::reply::Reply;
pub use self::{
    explain::{Attempt, explain},
    formats::{CannotRender, FORMATS, Format, FormatEntry, UnknownFormat, markdown as formats_page},
    json::MAX_DEPTH as MAX_NESTING,
    places::{Place, places},
    repair::Repair,
    reply::MAX_CALLS,
    toolbox::{BadSchema, Toolbox},
    verdict::nearest,
};

/// A call and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    pub call: ToolCall,
    /// Bytes of the reply the call takes up, its markers included.
    pub span: Range<usize>,
    /// Source text of numbers that 64 bits cannot hold, in order; `call.arguments` has the nearest floats.
    wide: Vec<Box<str>>,
}

impl ParsedCall {
    /// The arguments as JSON text, every digit as the model wrote it.
    pub fn arguments_json(&self) -> String {
        let mut out = String::new();
        wide::write_exact_map(&self.call.arguments, &mut self.wide.iter(), &mut out);
        out
    }
}

/// Reading of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The calls, in order. Empty when there is an error: one broken call breaks the whole reply.
    pub calls: Vec<ParsedCall>,
    /// Text outside calls and reasoning, trimmed.
    pub content: String,
    pub reasoning: Option<String>,
    /// The format asked for, or the one found; `None` when none was asked for and there is no call.
    pub format: Option<Format>,
    pub error: Option<ParseFailure>,
    /// With an error: the intended calls, if every one of them has exactly one reading and is valid.
    pub repaired_calls: Option<Vec<ParsedCall>>,
    /// The repairs made for `repaired_calls`.
    pub repairs: Vec<Repair>,
    /// Text that is neither call nor reply nor reasoning: an observation or a turn the model made up.
    pub ignored: Option<Range<usize>>,
}

/// Reads a reply. With a format only that format's syntax counts; without one, the format whose markers occur.
pub fn parse(text: &str, tools: &Toolbox, format: Option<Format>) -> Parsed {
    let found = format.or_else(|| Format::detect(text, tools));
    let mut reply = match found {
        Some(Format::Harmony) if is_harmony(text) => Reply::raw(text, tools, format.is_some()),
        _ => Reply::new(text, tools, format.is_some()),
    };
    match found {
        Some(format) => {
            let read = format.entry().parse;
            read(&mut reply);
            if reply.was_reasoning() {
                read(&mut reply);
            }
        }
        None => while reply.seek(&[]).is_some() {},
    }
    verdict::judge(reply, format, found)
}

/// Harmony's end tokens are its markers, but only if other markers occur too.
fn is_harmony(text: &str) -> bool {
    text.contains("<|message|>") || text.contains("<|channel|>")
}
