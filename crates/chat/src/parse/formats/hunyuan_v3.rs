//! Hunyuan V3: `<tool_calls><tool_call>NAME<tool_sep>` with `<arg_key>`/`<arg_value>` pairs.

use super::{Claim, Dialect, FormatEntry, Values, hermes};
use crate::parse::tagged::{self, Head};

static DIALECT: Dialect = Dialect {
    sections: &[("<tool_calls>", "</tool_calls>")],
    call: Head { open: hermes::OPEN, close: "<tool_sep>", quoted: false },
    call_end: hermes::CLOSE,
    parameter: Head { open: "<arg_key>", close: "</arg_key>", quoted: false },
    value: Some("<arg_value>"),
    value_end: "</arg_value>",
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "hunyuan_v3",
    models: "Hunyuan V3",
    summary: "GLM's pairs in a section, a separator behind the name.",
    markers: &["<tool_calls>"],
    claims: |text, at| Claim::sure_if(text[at..][12..].trim_start().starts_with(hermes::OPEN)),
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
