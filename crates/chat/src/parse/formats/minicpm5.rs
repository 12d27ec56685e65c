//! MiniCPM 5: `<function name="…"><param name="…">` value `</param></function>`.

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::tagged::{self, Head};

static DIALECT: Dialect = Dialect {
    call: Head { open: "<function name=", close: ">", quoted: true },
    parameter: Head { open: "<param name=", close: ">", quoted: true },
    value_end: "</param>",
    cdata: true,
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "minicpm5",
    models: "MiniCPM 5",
    summary: "A tag per function and per parameter; awkward values stand in CDATA.",
    markers: &["<function name="],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
