//! Gemma 4: `<|tool_call>call:NAME{key:<|"|>text<|"|>}<tool_call|>`.

use super::{Curly, FormatEntry, Values, alone};
use crate::parse::curly;

pub(in crate::parse) static CURLY: Curly = Curly { open: "<|tool_call>", close: "<tool_call|>", quote: "<|\"|>" };

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "gemma4",
    models: "Gemma 4",
    summary: "A name and bare keys in braces, text between quote tokens.",
    markers: &["<|tool_call>"],
    claims: alone,
    parse: |reply| curly::parse(reply, &CURLY),
    render: |calls, _| Ok(CURLY.render(calls)),
    guidance: || CURLY.guidance(),
    values: Values::Curly(&CURLY),
};
