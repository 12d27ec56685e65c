//! FunctionGemma: `<start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>`.

use super::{Curly, FormatEntry, Values, alone};
use crate::parse::curly;

pub(in crate::parse) static CURLY: Curly =
    Curly { open: "<start_function_call>", close: "<end_function_call>", quote: "<escape>" };

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "functiongemma",
    models: "FunctionGemma",
    summary: "A name and bare keys in braces, text between quote tokens.",
    markers: &["<start_function_call>"],
    claims: alone,
    parse: |reply| curly::parse(reply, &CURLY),
    render: |calls, _| Ok(CURLY.render(calls)),
    guidance: || CURLY.guidance(),
    values: Values::Curly(&CURLY),
};
