//! DeepSeek V3.2 and V4 (DSML): `<｜DSML｜invoke name="…">` with `<｜DSML｜parameter name="…" string="true">` values.

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::{
    tagged::{self, Head},
    types::Types,
};

static DIALECT: Dialect = Dialect {
    sections: &[
        ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
        ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ],
    call: Head { open: "<｜DSML｜invoke name=", close: ">", quoted: true },
    call_end: "</｜DSML｜invoke>",
    parameter: Head { open: "<｜DSML｜parameter name=", close: ">", quoted: true },
    value_end: "</｜DSML｜parameter>",
    declared: |head| Some(if head.contains("string=\"true\"") { Types::STRING } else { Types::ANY }),
    parameter_tail: |value| if value.is_string() { " string=\"true\"" } else { " string=\"false\"" },
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "deepseek_dsml",
    models: "DeepSeek V3.2 and V4",
    summary: "A section of invocations whose parameters say whether they are text.",
    markers: &["<｜DSML｜"],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
