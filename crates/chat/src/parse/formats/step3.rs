//! Step 3: `<steptml:invoke name="…">` with `<steptml:parameter name="…">` values, between call markers.

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::tagged::{self, Head};

static DIALECT: Dialect = Dialect {
    sections: &[("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>")],
    call: Head { open: "<steptml:invoke name=", close: ">", quoted: true },
    call_end: "</steptml:invoke>",
    parameter: Head { open: "<steptml:parameter name=", close: ">", quoted: true },
    value_end: "</steptml:parameter>",
    fillers: &["<｜tool_call_begin｜>", "function<｜tool_sep｜>", "<｜tool_call_end｜>"],
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "step3",
    models: "Step 3",
    summary: "A section of invocations between call markers.",
    markers: &["<｜tool_calls_begin｜>", "<steptml:invoke name="],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
