//! The catalogue of call formats: one file each, with its markers, its parser, its writer and its words for a prompt.
//!
//! A new format is a file here and a line in the catalogue below; detection, `hone parse --explain`, docs/formats.md and
//! the laws in the tests follow from its entry.

use std::{fmt, str::FromStr};

use hone_trace::ToolCall;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub(super) use super::{
    curly::Curly,
    embedded,
    payload::{self, Holds, Tag},
    reply::Reply,
    section::{Section, no_head, sectioned},
    tagged::Dialect,
    toolbox::Toolbox,
};

mod page;

pub(super) use self::code_call::starts_with_tool;
pub use self::page::markdown;

/// A way models write calls, as the catalogue lists it.
pub struct FormatEntry {
    /// Its name in recipes and on the command line.
    pub name: &'static str,
    /// Model families that write it.
    pub models: &'static str,
    /// One line: what a call looks like.
    pub summary: &'static str,
    /// Texts that only a call has, used to detect a reply's format. Empty if it is detected by shape.
    pub markers: &'static [&'static str],
    /// Claim to the marker at this position of the text, if several formats share it.
    pub(super) claims: fn(&str, usize) -> Claim,
    pub(super) parse: fn(&mut Reply<'_>),
    pub(super) render: fn(&[ToolCall], &Toolbox) -> Result<String, Unwritable>,
    pub(super) guidance: fn() -> String,
    pub(super) values: Values,
}

/// Notation of argument values, by which their places are found in a reply.
#[derive(Clone, Copy)]
pub(super) enum Values {
    /// In JSON's or Python's syntax.
    Literal,
    /// Raw between a dialect's tags.
    Tagged(&'static Dialect),
    /// Raw in an element per argument.
    Elements,
    /// Between quote tokens.
    Curly(&'static Curly),
}

impl fmt::Debug for FormatEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormatEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Certainty of a format that a marker is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    No,
    /// Unless another format is sure.
    Default,
    Sure,
}

impl Claim {
    pub(crate) fn sure_if(sure: bool) -> Self {
        if sure { Self::Sure } else { Self::No }
    }
}

/// The claim of a format that shares its markers with no other.
fn alone(_: &str, _: usize) -> Claim {
    Claim::Sure
}

/// The claim of a format that has no markers.
fn unmarked(_: &str, _: usize) -> Claim {
    Claim::No
}

/// `mod file: Variant = ENTRY;` lines: the modules, the enum of formats and the table of their entries.
macro_rules! formats {
    ($($shown:vis mod $module:ident: $($variant:ident = $entry:ident),+;)+) => {
        hone_trace::entries! {
            /// Every format, in the order of [`Format::ALL`].
            pub static FORMATS: [FormatEntry];
            $($shown mod $module: $($entry),+;)+
        }

        /// A way models write calls.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format { $($($variant),+),+ }

        impl Format {
            pub const ALL: [Self; FORMATS.len()] = [$($(Self::$variant),+),+];
        }
    };
}

formats! {
    pub(super) mod hermes: Hermes = FORMAT;
    mod qwen3_coder: Qwen3Coder = FORMAT;
    mod llama3_json: Llama3Json = FORMAT;
    mod pythonic: Pythonic = FORMAT;
    mod mistral: Mistral = FORMAT;
    mod deepseek: DeepseekV3 = V3, DeepseekV31 = V31;
    mod kimi_k2: KimiK2 = FORMAT;
    mod glm45: Glm45 = FORMAT;
    mod muse_glimmer: MuseGlimmer = FORMAT;
    mod harmony: Harmony = FORMAT;
    mod minimax_m1: MinimaxM1 = FORMAT;
    mod minimax_m2: MinimaxM2 = FORMAT;
    pub(super) mod minimax_m3: MinimaxM3 = FORMAT;
    mod phi4: Phi4 = FORMAT;
    mod granite3: Granite3 = FORMAT;
    mod granite_fc: GraniteFc = FORMAT;
    mod gemma4: Gemma4 = FORMAT;
    mod functiongemma: FunctionGemma = FORMAT;
    mod lfm2: Lfm2 = FORMAT;
    mod olmo3: Olmo3 = FORMAT;
    mod deepseek_dsml: DeepseekDsml = FORMAT;
    mod kimi_k3: KimiK3 = FORMAT;
    mod cohere: Cohere = FORMAT;
    mod seed_oss: SeedOss = FORMAT;
    mod hunyuan_v3: HunyuanV3 = FORMAT;
    mod apertus: Apertus = FORMAT;
    mod nemotron: Nemotron = FORMAT;
    mod anthropic: Anthropic = FORMAT;
    mod minicpm5: Minicpm5 = FORMAT;
    mod longcat: Longcat = FORMAT;
    mod internlm2: Internlm2 = FORMAT;
    mod inkling: Inkling = FORMAT;
    mod gigachat3: Gigachat3 = FORMAT;
    mod dots: Dots = FORMAT;
    mod step3: Step3 = FORMAT;
    mod openai_json: OpenaiJson = FORMAT;
    mod bare_json: BareJson = FORMAT;
    pub(super) mod fenced_json: FencedJson = FORMAT;
    mod code_call: CodeCall = FORMAT;
    pub(super) mod react: React = FORMAT;
}

/// Reason why a call cannot be written, independent of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unwritable {
    pub what: String,
    pub why: String,
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
    FORMATS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

impl Format {
    /// The format's place in the catalogue.
    pub fn entry(self) -> &'static FormatEntry {
        &FORMATS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// True if arguments are written raw between tags, so that a value cannot contain its own closing tag.
    pub fn writes_raw_values(self) -> bool {
        matches!(self.entry().values, Values::Tagged(_) | Values::Elements)
    }

    /// Writes calls so that [`super::parse`] reads the same calls back, or says why it cannot: an XML value cannot
    /// contain its own closing tag, a keyword cannot be called `a-b`. Checked by reading the text back.
    pub fn render_calls(self, calls: &[ToolCall], tools: &Toolbox) -> Result<String, CannotRender> {
        let cannot = |Unwritable { what, why }| CannotRender { format: self, what, why };
        let text = (self.entry().render)(calls, tools).map_err(cannot)?;
        let back = super::parse(&text, tools, Some(self));
        let why = match back.error {
            Some(failure) => failure.to_string(),
            None if same_calls(calls, &back.calls) => return Ok(text),
            None => "it would be read back as something else".to_owned(),
        };
        let what = calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ");
        Err(cannot(Unwritable { what: format!("the call to {what}"), why }))
    }

    /// Instructions for writing a call in this format, in words for a prompt, from the markers the parser looks for.
    pub fn guidance(self) -> String {
        (self.entry().guidance)()
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
            let nearest = super::nearest(name, FORMATS.iter().map(|entry| entry.name)).unwrap_or("hermes");
            UnknownFormat { name: name.to_owned(), nearest }
        })
    }
}

/// By its name, as recipes write it.
impl<'de> serde::Deserialize<'de> for Format {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A value as the raw text that the schema turns back into it.
pub(super) fn raw_value(tools: &Toolbox, call: &ToolCall, name: &str, value: &Value) -> Result<String, Unwritable> {
    let text = tools.get(&call.name).and_then(|tool| tool.types(name).write(value));
    text.ok_or_else(|| Unwritable {
        what: format!("argument {name:?} of {}", call.name),
        why: "its value has no text that the schema's type turns back into it".to_owned(),
    })
}

/// A call object on one line.
fn call_json(call: &ToolCall, arguments: &str) -> String {
    let name = Value::from(call.name.as_str());
    format!("{{\"name\": {name}, \"{arguments}\": {}}}", arguments_json(call))
}

fn arguments_json(call: &ToolCall) -> String {
    let mut out = String::new();
    super::wide::write_exact_map(&call.arguments, &mut [].iter(), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::FORMATS;

    /// The search for markers (`parse/reply.rs`) looks at the last bracket of a run alone.
    #[test]
    fn no_marker_opens_with_the_same_bracket_twice() {
        for entry in FORMATS {
            let doubled = |marker: &&&str| marker.starts_with("<<") || marker.starts_with("[[");
            assert_eq!(entry.markers.iter().find(doubled), None, "{}", entry.name);
        }
    }
}
