//! Kimi K3: `<|open|>call tool="…"<|sep|>` with `<|open|>argument key="…"<|sep|>` values, each closed by its own name.

use serde_json::Value;

use super::{Dialect, FormatEntry, Values, alone};
use crate::parse::{
    tagged::{self, Head},
    types::Types,
};

static DIALECT: Dialect = Dialect {
    sections: &[("<|open|>tools<|sep|>", "<|close|>tools<|sep|>")],
    call: Head { open: "<|open|>call tool=", close: "<|sep|>", quoted: true },
    call_end: "<|close|>call<|sep|>",
    parameter: Head { open: "<|open|>argument key=", close: "<|sep|>", quoted: true },
    value_end: "<|close|>argument<|sep|>",
    entities: true,
    frame: &["<|open|>response<|sep|>", "<|close|>response<|sep|>"],
    declared: |head| head.split("type=\"").nth(1).and_then(|rest| rest.split('"').next()).map(Types::named),
    call_tail: |index| format!(" index=\"{}\"", index + 1),
    parameter_tail: |value| match value {
        Value::String(_) => " type=\"string\"",
        Value::Number(_) => " type=\"number\"",
        Value::Bool(_) => " type=\"boolean\"",
        Value::Array(_) => " type=\"array\"",
        Value::Object(_) => " type=\"object\"",
        Value::Null => " type=\"null\"",
    },
    ..tagged::BASE
};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "kimi_k3",
    models: "Kimi K3",
    summary: "Sections, calls and arguments between open and close tokens, values raw.",
    markers: &["<|open|>tools<|sep|>", "<|open|>call tool=", "<|open|>response<|sep|>"],
    claims: alone,
    parse: |reply| tagged::parse(reply, &DIALECT),
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};
