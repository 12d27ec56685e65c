//! The formats: one file each, with its markers, its parser, its renderer and its words for a prompt.
//!
//! A new format is a file here, a line in [`Format`]'s tables below and, if its markers are its own, a line in
//! [`super::detect`].

use std::{fmt, str::FromStr};

use hone_trace::{ParseFailureKind, ToolCall};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{
    draft::{Draft, Fault},
    repair::Repair,
};
pub(super) use super::{
    embedded,
    payload::{self, Holds, Tag},
    reply::Reply,
    toolbox::Toolbox,
};

pub(super) mod bare_json;
pub(super) mod code_call;
pub(super) mod deepseek;
pub(super) mod fenced_json;
pub(super) mod glm45;
pub(super) mod harmony;
pub(super) mod hermes;
pub(super) mod kimi_k2;
pub(super) mod llama3_json;
pub(super) mod minimax_m1;
pub(super) mod minimax_m2;
pub(super) mod mistral;
pub(super) mod openai_json;
pub(super) mod phi4;
pub(super) mod pythonic;
pub(super) mod qwen3_coder;
pub(super) mod react;

/// A way models write calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Hermes,
    Qwen3Coder,
    Llama3Json,
    Pythonic,
    Mistral,
    DeepseekV3,
    DeepseekV31,
    KimiK2,
    Glm45,
    Harmony,
    MinimaxM1,
    MinimaxM2,
    Phi4,
    OpenaiJson,
    BareJson,
    FencedJson,
    CodeCall,
    React,
}

/// Calls that a format has no way to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{format} cannot write {what}: {why}. Use a JSON format, or other values")]
pub struct CannotRender {
    pub format: Format,
    pub what: String,
    pub why: String,
}

/// No format has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no format is named {name:?}; did you mean {nearest:?}? Formats: auto, {all}", all = names())]
pub struct UnknownFormat {
    pub name: String,
    pub nearest: &'static str,
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

impl Format {
    pub const ALL: [Self; 18] = [
        Self::Hermes,
        Self::Qwen3Coder,
        Self::Llama3Json,
        Self::Pythonic,
        Self::Mistral,
        Self::DeepseekV3,
        Self::DeepseekV31,
        Self::KimiK2,
        Self::Glm45,
        Self::Harmony,
        Self::MinimaxM1,
        Self::MinimaxM2,
        Self::Phi4,
        Self::OpenaiJson,
        Self::BareJson,
        Self::FencedJson,
        Self::CodeCall,
        Self::React,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Qwen3Coder => "qwen3_coder",
            Self::Llama3Json => "llama3_json",
            Self::Pythonic => "pythonic",
            Self::Mistral => "mistral",
            Self::DeepseekV3 => "deepseek_v3",
            Self::DeepseekV31 => "deepseek_v31",
            Self::KimiK2 => "kimi_k2",
            Self::Glm45 => "glm45",
            Self::Harmony => "harmony",
            Self::MinimaxM1 => "minimax_m1",
            Self::MinimaxM2 => "minimax_m2",
            Self::Phi4 => "phi4",
            Self::OpenaiJson => "openai_json",
            Self::BareJson => "bare_json",
            Self::FencedJson => "fenced_json",
            Self::CodeCall => "code_call",
            Self::React => "react",
        }
    }

    pub(super) fn parse(self, reply: &mut Reply<'_>) {
        match self {
            Self::Hermes => hermes::parse(reply),
            Self::Qwen3Coder => qwen3_coder::parse(reply),
            Self::Llama3Json => llama3_json::parse(reply),
            Self::Pythonic => pythonic::parse(reply),
            Self::Mistral => mistral::parse(reply),
            Self::DeepseekV3 | Self::DeepseekV31 => deepseek::parse(reply),
            Self::KimiK2 => kimi_k2::parse(reply),
            Self::Glm45 => glm45::parse(reply),
            Self::Harmony => harmony::parse(reply),
            Self::MinimaxM1 => minimax_m1::parse(reply),
            Self::MinimaxM2 => minimax_m2::parse(reply),
            Self::Phi4 => phi4::parse(reply),
            Self::OpenaiJson => openai_json::parse(reply),
            Self::BareJson => bare_json::parse(reply),
            Self::FencedJson => fenced_json::parse(reply),
            Self::CodeCall => code_call::parse(reply),
            Self::React => react::parse(reply),
        }
    }

    /// Writes calls so that [`super::parse`] reads the same calls back, or says why it cannot: an XML value cannot hold
    /// its own closing tag, a keyword cannot be called `a-b`. Checked by reading the text back.
    pub fn render_calls(self, calls: &[ToolCall], tools: &Toolbox) -> Result<String, CannotRender> {
        let text = match self {
            Self::Hermes => hermes::render(calls),
            Self::Qwen3Coder => qwen3_coder::render(calls, tools)?,
            Self::Llama3Json => llama3_json::render(calls),
            Self::Pythonic => pythonic::render(calls),
            Self::Mistral => mistral::render(calls),
            Self::DeepseekV3 => deepseek::render_v3(calls),
            Self::DeepseekV31 => deepseek::render_v31(calls),
            Self::KimiK2 => kimi_k2::render(calls),
            Self::Glm45 => glm45::render(calls, tools)?,
            Self::Harmony => harmony::render(calls),
            Self::MinimaxM1 => minimax_m1::render(calls),
            Self::MinimaxM2 => minimax_m2::render(calls, tools)?,
            Self::Phi4 => phi4::render(calls),
            Self::OpenaiJson => openai_json::render(calls),
            Self::BareJson => bare_json::render(calls),
            Self::FencedJson => fenced_json::render(calls),
            Self::CodeCall => code_call::render(calls),
            Self::React => react::render(calls),
        };
        let back = super::parse(&text, tools, Some(self));
        let why = match back.error {
            Some(failure) => failure.to_string(),
            None if same_calls(calls, &back.calls) => return Ok(text),
            None => "it would be read back as something else".to_owned(),
        };
        let what = calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ");
        Err(CannotRender { format: self, what: format!("the call to {what}"), why })
    }

    /// How to write a call in this format, in words for a prompt, from the markers the parser looks for.
    pub fn guidance(self) -> String {
        match self {
            Self::Hermes => hermes::guidance(),
            Self::Qwen3Coder => qwen3_coder::guidance(),
            Self::Llama3Json => llama3_json::guidance(),
            Self::Pythonic => pythonic::guidance(),
            Self::Mistral => mistral::guidance(),
            Self::DeepseekV3 => deepseek::guidance_v3(),
            Self::DeepseekV31 => deepseek::guidance_v31(),
            Self::KimiK2 => kimi_k2::guidance(),
            Self::Glm45 => glm45::guidance(),
            Self::Harmony => harmony::guidance(),
            Self::MinimaxM1 => minimax_m1::guidance(),
            Self::MinimaxM2 => minimax_m2::guidance(),
            Self::Phi4 => phi4::guidance(),
            Self::OpenaiJson => openai_json::guidance(),
            Self::BareJson => bare_json::guidance(),
            Self::FencedJson => fenced_json::guidance(),
            Self::CodeCall => code_call::guidance(),
            Self::React => react::guidance(),
        }
    }
}

fn same_calls(calls: &[ToolCall], read: &[super::ParsedCall]) -> bool {
    calls.len() == read.len()
        && calls
            .iter()
            .zip(read)
            .all(|(call, read)| call.name == read.call.name && call.arguments == read.call.arguments)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let nearest = super::nearest(name, Self::ALL.iter().map(|format| format.name())).unwrap_or("hermes");
            UnknownFormat { name: name.to_owned(), nearest }
        })
    }
}

/// A call object on one line.
fn call_json(call: &ToolCall, arguments: &str) -> String {
    let name = Value::from(call.name.as_str());
    format!("{{\"name\": {name}, \"{arguments}\": {}}}", arguments_json(call))
}

fn arguments_json(call: &ToolCall) -> String {
    let mut out = String::new();
    super::json::write_exact_map(&call.arguments, &mut [].iter(), &mut out);
    out
}

/// The arguments as raw XML values.
fn written_values<'a>(call: &'a ToolCall, tools: &Toolbox) -> Result<Vec<(&'a str, String)>, CannotRender> {
    let tool = tools.get(&call.name);
    let write = |(name, value): (&'a String, &Value)| {
        let text = tool.and_then(|tool| tool.types(name).write(value)).ok_or_else(|| CannotRender {
            format: Format::Qwen3Coder,
            what: format!("argument {name:?} of {}", call.name),
            why: "its value has no text that the schema's type turns back into it".to_owned(),
        })?;
        Ok((name.as_str(), text))
    };
    call.arguments.iter().map(write).collect()
}

/// Markers of a format that puts its calls into a section.
struct Section {
    open: &'static [&'static str],
    close: &'static [&'static str],
    call: &'static str,
}

/// Walks the sections of a reply and hands over at each call.
fn sectioned(reply: &mut Reply<'_>, section: &Section, mut call: impl FnMut(&mut Reply<'_>, usize)) {
    let openers: Vec<&str> = section.open.iter().chain([&section.call]).chain(section.close).copied().collect();
    let mut opened: Option<(usize, usize)> = None;
    while let Some((which, at)) = reply.seek(&openers) {
        // A section opened in what turned out to be reasoning is none.
        opened = opened.filter(|(start, _)| *start >= reply.reasoning_end());
        let before = reply.drafts.len();
        if openers[which] == section.call {
            call(reply, at);
            if opened.is_none()
                && let Some(draft) = reply.drafts.get_mut(before)
            {
                let message = format!("{} is missing", section.open[0]);
                draft.mended(Fault::markup(at, message), Repair::MissingOpener);
            }
            continue;
        }
        reply.pos = at + openers[which].len();
        if section.open.contains(&openers[which]) {
            opened = Some((at, before));
        } else if let Some((start, first)) = opened.take()
            && first == before
        {
            reply.drafts.push(Draft::faulty(start..reply.pos, Fault::markup(start, "a section without a call")));
        }
    }
    let Some((start, before)) = opened.filter(|(start, _)| *start >= reply.reasoning_end()) else { return };
    if reply.unclosed.is_some() {
        return;
    }
    let end = reply.text.len();
    let fault =
        Fault::new(reply.cut_kind(ParseFailureKind::MalformedMarkup), end, format!("{} is missing", section.close[0]));
    match reply.drafts.iter_mut().skip(before).last() {
        Some(last) if last.fault.is_none() => last.mended(fault, Repair::MissingCloser),
        Some(_) => {}
        None => reply.drafts.push(Draft::faulty(start..end, fault)),
    }
}

/// A call whose name is not followed by the marker that must follow it.
fn no_head(reply: &mut Reply<'_>, open: usize, start: usize, missing: &str, close: &str) {
    let text = reply.text;
    let found = memchr::memmem::find(&text.as_bytes()[start..], close.as_bytes());
    let end = found.map_or(text.len(), |at| start + at + close.len());
    crate::parse::work::spend(end - start);
    if reply.ends_reasoning(start..end) {
        return;
    }
    let kind = match found {
        Some(_) => ParseFailureKind::MalformedMarkup,
        None => reply.cut_kind(ParseFailureKind::MalformedMarkup),
    };
    reply
        .drafts
        .push(Draft::faulty(open..end, Fault::new(kind, start, format!("expected {missing:?} after the name"))));
    reply.pos = end;
}
