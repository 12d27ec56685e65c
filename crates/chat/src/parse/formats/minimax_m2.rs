//! MiniMax M2: `<minimax:tool_call>` around `<invoke name="…">` with `<parameter name="…">` values.

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::tagged::{self, Head};

const OPEN: &str = "<minimax:tool_call>";
pub(super) const INVOKE: &str = "<invoke name=";
pub(super) const INVOKE_END: &str = "</invoke>";
pub(super) const PARAMETER: &str = "<parameter name=";

static DIALECT: Dialect = Dialect {
    sections: &[(OPEN, "</minimax:tool_call>")],
    call: Head { open: INVOKE, close: ">", quoted: true },
    call_end: INVOKE_END,
    parameter: Head { open: PARAMETER, close: ">", quoted: true },
    strips_lines: true,
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "minimax_m2",
    models: "MiniMax M2",
    summary: "A section of `<invoke>` tags with raw parameter values.",
    markers: &[OPEN],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
