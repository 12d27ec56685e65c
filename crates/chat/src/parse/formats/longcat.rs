//! LongCat: `<longcat_tool_call>NAME` with `<longcat_arg_key>`/`<longcat_arg_value>` pairs, or with a JSON object.

use super::{Dialect, FormatEntry, Tag, Values, alone};
use crate::parse::tagged::{self, Head};

const OPEN: &str = "<longcat_tool_call>";
const CLOSE: &str = "</longcat_tool_call>";

static DIALECT: Dialect = Dialect {
    json: Some(|| Tag::new(CLOSE, &[OPEN])),
    call: Head { open: OPEN, close: "", quoted: false },
    call_end: CLOSE,
    parameter: Head { open: "<longcat_arg_key>", close: "</longcat_arg_key>", quoted: false },
    value: Some("<longcat_arg_value>"),
    value_end: "</longcat_arg_value>",
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "longcat",
    models: "LongCat",
    summary: "GLM's pairs, or a JSON object, in tags of its own.",
    markers: &["<longcat_tool_call>"],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
