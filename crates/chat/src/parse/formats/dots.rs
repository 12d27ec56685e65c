//! dots.llm: `<dots_function_call>` around `<invoke name="…">` with `<parameter name="…">` values, or a JSON object.

use super::{Dialect, FormatEntry, Tag, Values, alone};
use crate::parse::tagged::{self, Head};

const OPEN: &str = "<dots_function_call>";
const CLOSE: &str = "</dots_function_call>";

static DIALECT: Dialect = Dialect {
    sections: &[(OPEN, CLOSE)],
    json: Some(|| Tag::new(CLOSE, &[OPEN])),
    call: Head { open: "<invoke name=", close: ">", quoted: true },
    call_end: "</invoke>",
    parameter: Head { open: "<parameter name=", close: ">", quoted: true },
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "dots",
    models: "dots.llm",
    summary: "A section of `<invoke>` tags, or a JSON object.",
    markers: &["<dots_function_call>"],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
