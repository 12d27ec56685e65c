//! Anthropic: `<function_calls><invoke name="…"><parameter name="…">` value `</parameter></invoke></function_calls>`.

use super::{Claim, Dialect, FormatEntry, Values};
use crate::parse::tagged::{self, Head};

static DIALECT: Dialect = Dialect {
    sections: &[("<function_calls>", "</function_calls>")],
    call: Head { open: "<invoke name=", close: ">", quoted: true },
    call_end: "</invoke>",
    parameter: Head { open: "<parameter name=", close: ">", quoted: true },
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "anthropic",
    models: "Claude in text, Nova, models trained on its calls",
    summary: "A section of `<invoke>` tags with raw parameter values.",
    markers: &["<function_calls>", "<invoke name="],
    claims: |text, at| {
        Claim::sure_if(text[at..].starts_with("<invoke") || text[at..][16..].trim_start().starts_with("<invoke"))
    },
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
