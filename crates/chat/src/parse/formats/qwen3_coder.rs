//! Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>` value `</parameter></function></tool_call>`.
//!
//! The value stands on lines of its own; exactly one line break per side is markup. The model often leaves out
//! `<tool_call>`, and may fall back to Hermes JSON inside it: both are read.

use hone_trace::ToolCall;

use super::{CannotRender, Holds, Reply, Toolbox, hermes, payload};
use crate::parse::{
    draft::{Draft, Fault},
    reply::Lookup,
    xml::{self, Broken, Cursor, Parameter, Tagged},
};

pub(in crate::parse) const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
pub(in crate::parse) const PARAMETER: &str = "<parameter=";
pub(in crate::parse) const PARAMETER_END: &str = "</parameter>";

/// Searches for closing tags, each of which runs through the whole reply once.
struct Lookups {
    call: Lookup,
    function: Lookup,
    parameter: Lookup,
}

pub(super) fn parse(reply: &mut Reply<'_>) {
    let mut tag = hermes::tag();
    let mut lookups = Lookups {
        call: Lookup::new(hermes::CLOSE),
        function: Lookup::new(FUNCTION_END),
        parameter: Lookup::new(PARAMETER_END),
    };
    while let Some((which, at)) = reply.seek(&[hermes::OPEN, FUNCTION, hermes::CLOSE]) {
        match which {
            0 => {
                let start = at + hermes::OPEN.len();
                let rest = reply.text[start..].trim_start();
                if rest.starts_with(['{', '[', '`']) {
                    payload::read(reply, at, start, Holds::Call, &mut tag);
                } else {
                    functions(reply, at, start, true, &mut lookups);
                }
            }
            1 => functions(reply, at, at, false, &mut lookups),
            _ => reply.stray_closer(at, hermes::CLOSE, hermes::whole_call),
        }
    }
}

/// The functions of one `<tool_call>`, or those that stand without one.
fn functions(reply: &mut Reply<'_>, open: usize, start: usize, tagged: bool, lookups: &mut Lookups) {
    let mut cursor = Cursor { text: reply.text, pos: start };
    let mut open = open;
    loop {
        let mut call = Tagged { name: "", parameters: Vec::new(), unclosed: None };
        let read = function(reply, &mut cursor, &mut call, lookups);
        let (more, read) = match read {
            Ok(()) if tagged => finish(&mut cursor),
            Ok(()) => {
                cursor.eat(hermes::CLOSE);
                (false, Ok(()))
            }
            Err(why) => (false, Err(why)),
        };
        match read {
            Ok(()) => {
                reply.pos = cursor.pos;
                let draft = xml::typed(reply, open..cursor.pos, &call);
                reply.drafts.push(draft);
            }
            Err(why) => {
                let draft = broken(reply, open, cursor.pos, &call, why, lookups);
                reply.drafts.extend(draft);
            }
        }
        if !more {
            return;
        }
        open = cursor.pos;
    }
}

/// After `</function>`: the call closes, or (first result) a further function opens.
fn finish(cursor: &mut Cursor<'_>) -> (bool, Result<(), Broken>) {
    if cursor.eat(hermes::CLOSE) {
        return (false, Ok(()));
    }
    if cursor.rest().starts_with(FUNCTION) {
        return (true, Ok(()));
    }
    (false, Err(cursor.unexpected(&[hermes::CLOSE])))
}

fn broken(
    reply: &mut Reply<'_>,
    open: usize,
    at: usize,
    call: &Tagged<'_>,
    why: Broken,
    lookups: &mut Lookups,
) -> Option<Draft> {
    // `<tool_call>` again where `</tool_call>` belongs: the function before it is whole.
    let text = reply.text;
    if matches!(why, Broken::Bad { .. })
        && text[at..].starts_with(hermes::OPEN)
        && text[..at].trim_end().ends_with(FUNCTION_END)
    {
        let rest = &text[at..];
        reply.pos = if rest.trim_end() == hermes::OPEN { text.len() } else { at };
        let mut draft = xml::typed(reply, open..at, call);
        let message = format!("{} where {} should close the call", hermes::OPEN, hermes::CLOSE);
        draft.mended(Fault::markup(at, message), crate::parse::Repair::ReopenedTag);
        return Some(draft);
    }
    xml::broken(reply, open, at, call, why, hermes::CLOSE, &mut lookups.call)
}

fn function<'a>(
    reply: &Reply<'a>,
    cursor: &mut Cursor<'a>,
    call: &mut Tagged<'a>,
    lookups: &mut Lookups,
) -> Result<(), Broken> {
    cursor.expect(FUNCTION)?;
    call.name = cursor.until(">")?.trim();
    let tool = reply.tools.get(call.name);
    loop {
        if cursor.eat(FUNCTION_END) {
            return Ok(());
        }
        if !cursor.eat(PARAMETER) {
            return Err(cursor.unexpected(&[PARAMETER, FUNCTION_END]));
        }
        let name = cursor.until(">")?.trim();
        let start = cursor.pos;
        let known = |name: &str| {
            tool.is_some_and(|tool| tool.has_parameter(name)) && call.parameters.iter().all(|known| known.name != name)
        };
        let (end, closed) = xml::value_end(
            cursor.text,
            start,
            &mut lookups.parameter,
            &mut lookups.function,
            |rest| {
                let rest = rest[FUNCTION_END.len()..].trim_start();
                rest.is_empty() || rest.starts_with(hermes::CLOSE)
            },
            |value| xml::reopened(value, PARAMETER, ">", |other| other != name && known(other)),
        )?;
        let value = xml::strip_newlines(&cursor.text[start..end]);
        call.parameters.push(Parameter { name, value, at: start });
        cursor.pos = end;
        if closed {
            cursor.pos += PARAMETER_END.len();
        } else {
            call.unclosed = Some(end);
        }
    }
}

pub(super) fn render(calls: &[ToolCall], tools: &Toolbox) -> Result<String, CannotRender> {
    let mut out = String::new();
    for call in calls {
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.extend([hermes::OPEN, "\n", FUNCTION, &call.name, ">\n"]);
        for (name, value) in super::written_values(call, tools)? {
            out.extend([PARAMETER, name, ">\n", &value, "\n", PARAMETER_END, "\n"]);
        }
        out.extend([FUNCTION_END, "\n", hermes::CLOSE]);
    }
    Ok(out)
}

pub(super) fn guidance() -> String {
    format!(
        "For each call write {open}, {FUNCTION}NAME>, then for each argument {PARAMETER}KEY>, its value on lines of its \
         own and {PARAMETER_END}, then {FUNCTION_END} and {close}. Text is written as it is, other values as JSON.",
        open = hermes::OPEN,
        close = hermes::CLOSE,
    )
}
