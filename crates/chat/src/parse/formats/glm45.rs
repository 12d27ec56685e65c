//! GLM-4.5: `<tool_call>NAME`, then `<arg_key>`/`<arg_value>` pairs, then `</tool_call>`. Hermes JSON is read too.

use super::{Claim, Dialect, FormatEntry, Values, hermes};
use crate::parse::tagged::{self, Head};

pub(super) const KEY: &str = "<arg_key>";

static DIALECT: Dialect = Dialect {
    json: Some(hermes::tag),
    call: Head { open: hermes::OPEN, close: "", quoted: false },
    call_end: hermes::CLOSE,
    parameter: Head { open: KEY, close: "</arg_key>", quoted: false },
    value: Some("<arg_value>"),
    value_end: "</arg_value>",
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "glm45",
    models: "GLM 4.5 to 4.7, Ling 3, Poolside",
    summary: "The name behind the opening tag, then a pair of tags per argument, values raw.",
    markers: &[hermes::OPEN],
    claims,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};

fn claims(text: &str, at: usize) -> Claim {
    let rest = text[at..].strip_prefix(hermes::OPEN).unwrap_or_default().trim_start();
    let name = rest.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.'))).unwrap_or(rest.len());
    let behind = rest[name..].trim_start();
    Claim::sure_if(name > 0 && (behind.starts_with(KEY) || behind.starts_with(hermes::CLOSE) || behind.is_empty()))
}
