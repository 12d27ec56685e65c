//! Seed-OSS: `<seed:tool_call><function=NAME><parameter=KEY>` value `</parameter></function></seed:tool_call>`.

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::tagged;

static DIALECT: Dialect = Dialect {
    sections: &[("<seed:tool_call>", "</seed:tool_call>")],
    section_per_call: true,
    strips_lines: true,
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "seed_oss",
    models: "Seed-OSS",
    summary: "Qwen3-Coder's tags in a section of its own.",
    markers: &["<seed:tool_call>"],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
