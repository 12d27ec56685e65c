//! MiniCPM 5: `<function name="…"><param name="…">` value `</param></function>`.
//!
//! Tags without their spaces are repaired: a tokenizer may lose them, or show its space symbol.

use super::{Dialect, FormatEntry, Reply, Values, alone};
use crate::parse::draft::Fault;
use crate::parse::repair::Repair;
use crate::parse::tagged::{self, Head};

const CALLS: [&str; 3] = ["<function name=", "<functionname=", "<functionĠname="];
const PARAMETERS: [&str; 3] = ["<param name=", "<paramname=", "<paramĠname="];

const fn spelled(call: usize, parameter: usize) -> Dialect {
    Dialect {
        call: Head { open: CALLS[call], close: ">", quoted: true },
        parameter: Head { open: PARAMETERS[parameter], close: ">", quoted: true },
        value_end: "</param>",
        cdata: true,
        ..tagged::BASE
    }
}

static DIALECT: Dialect = spelled(0, 0);
/// By the spelling of a call, then of a parameter.
static SPELLINGS: [[Dialect; 3]; 3] = [
    [spelled(0, 0), spelled(0, 1), spelled(0, 2)],
    [spelled(1, 0), spelled(1, 1), spelled(1, 2)],
    [spelled(2, 0), spelled(2, 1), spelled(2, 2)],
];

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "minicpm5",
    models: "MiniCPM 5",
    summary: "A tag per function and per parameter; awkward values stand in CDATA.",
    markers: &CALLS,
    claims: alone,
    parse,
    render: |calls, tools| DIALECT.render(calls, tools),
    guidance: || DIALECT.guidance(),
    values: Values::Tagged(&DIALECT),
};

fn parse(reply: &mut Reply<'_>) {
    let rest = reply.rest();
    let first = |spellings: &[&str; 3]| {
        let places = spellings.iter().enumerate().filter_map(|(which, open)| Some((rest.find(open)?, which)));
        places.min().map_or(0, |(_, which)| which)
    };
    let (call, parameter) = (first(&CALLS), first(&PARAMETERS));
    let read = reply.drafts.len();
    tagged::parse(reply, &SPELLINGS[call][parameter]);
    if call + parameter > 0 {
        for draft in &mut reply.drafts[read..] {
            draft.repaired(Fault::markup(draft.span.start, "a tag without its blank"), Repair::HeaderJunk);
        }
    }
}
