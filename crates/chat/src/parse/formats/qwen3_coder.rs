//! Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>` value `</parameter></function></tool_call>`.
//!
//! The value is on separate lines; exactly one line break per side is markup. The model often omits `<tool_call>`, and
//! may fall back to Hermes JSON inside it: both are read.

use super::{Claim, Dialect, FormatEntry, Values, hermes};
use crate::parse::tagged;

pub(super) const FUNCTION: &str = "<function=";

static DIALECT: Dialect = Dialect {
    sections: &[(hermes::OPEN, hermes::CLOSE)],
    section_per_call: true,
    bare: true,
    json: Some(hermes::tag),
    value_lines: true,
    strips_lines: true,
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "qwen3_coder",
    models: "Qwen3-Coder, Qwen3-Next, Nemotron 3, Step 3.5",
    summary: "A tag per function and per parameter, values raw on lines of their own.",
    markers: &[hermes::OPEN, FUNCTION],
    claims,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};

fn claims(text: &str, at: usize) -> Claim {
    let rest = &text[at..];
    match rest.strip_prefix(hermes::OPEN) {
        Some(inside) => Claim::sure_if(inside.trim_start().starts_with(FUNCTION)),
        None => Claim::Default,
    }
}
