//! MiniMax M2: `<minimax:tool_call>` around `<invoke name="…">` with `<parameter name="…">` values.

use hone_trace::ToolCall;

use super::{CannotRender, Reply, Toolbox};
use crate::parse::{
    reply::Lookup,
    xml::{self, Broken, Cursor, Parameter, Tagged},
};

pub(in crate::parse) const OPEN: &str = "<minimax:tool_call>";
const CLOSE: &str = "</minimax:tool_call>";
pub(in crate::parse) const INVOKE: &str = "<invoke name=";
const INVOKE_END: &str = "</invoke>";
pub(in crate::parse) const PARAMETER: &str = "<parameter name=";
pub(in crate::parse) const PARAMETER_END: &str = "</parameter>";

struct Lookups {
    close: Lookup,
    invoke_end: Lookup,
    parameter_end: Lookup,
}

pub(super) fn parse(reply: &mut Reply<'_>) {
    let mut lookups = Lookups {
        close: Lookup::new(CLOSE),
        invoke_end: Lookup::new(INVOKE_END),
        parameter_end: Lookup::new(PARAMETER_END),
    };
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 0 {
            section(reply, at, &mut lookups);
        } else {
            reply.stray_closer(at, CLOSE, |_, _| None);
        }
    }
}

fn section(reply: &mut Reply<'_>, at: usize, lookups: &mut Lookups) {
    let mut cursor = Cursor { text: reply.text, pos: at + OPEN.len() };
    let mut open = at;
    loop {
        let mut call = Tagged { name: "", parameters: Vec::new(), unclosed: None };
        let read = invoke(reply, &mut cursor, &mut call, lookups);
        let last = read.is_err() || cursor.eat(CLOSE);
        let read = match read {
            // A section goes on with the next call, or it is cut or broken behind this one.
            Ok(()) if !last && !cursor.rest().starts_with(INVOKE) => Err(cursor.unexpected(&[INVOKE, CLOSE])),
            read => read,
        };
        let failed = read.is_err();
        let draft = match read {
            Ok(()) => {
                reply.pos = cursor.pos;
                Some(xml::typed(reply, open..cursor.pos, &call))
            }
            Err(why) => xml::broken(reply, open, cursor.pos, &call, why, CLOSE, &mut lookups.close),
        };
        reply.drafts.extend(draft);
        if last || failed {
            return;
        }
        open = cursor.pos;
    }
}

fn invoke<'a>(
    reply: &Reply<'a>,
    cursor: &mut Cursor<'a>,
    call: &mut Tagged<'a>,
    lookups: &mut Lookups,
) -> Result<(), Broken> {
    cursor.expect(INVOKE)?;
    call.name = unquoted(cursor.until(">")?);
    let tool = reply.tools.get(call.name);
    loop {
        if cursor.eat(INVOKE_END) {
            return Ok(());
        }
        if !cursor.eat(PARAMETER) {
            return Err(cursor.unexpected(&[PARAMETER, INVOKE_END]));
        }
        let name = unquoted(cursor.until(">")?);
        let start = cursor.pos;
        let known = |name: &str| {
            tool.is_some_and(|tool| tool.has_parameter(name)) && call.parameters.iter().all(|known| known.name != name)
        };
        let (end, closed) = xml::value_end(
            cursor.text,
            start,
            &mut lookups.parameter_end,
            &mut lookups.invoke_end,
            |rest| {
                let rest = rest[INVOKE_END.len()..].trim_start();
                rest.is_empty() || rest.starts_with(CLOSE) || rest.starts_with(INVOKE)
            },
            |value| xml::reopened(value, PARAMETER, ">", |other| unquoted(other) != name && known(unquoted(other))),
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

/// The value of an attribute, with or without its quotes.
fn unquoted(attribute: &str) -> &str {
    attribute.trim().trim_matches(['"', '\''])
}

pub(super) fn render(calls: &[ToolCall], tools: &Toolbox) -> Result<String, CannotRender> {
    let mut out = format!("{OPEN}\n");
    for call in calls {
        out.extend([INVOKE, "\"", &call.name, "\">\n"]);
        for (name, value) in super::written_values(call, tools)? {
            // A line break at an end of the value would be taken for markup; one more keeps it.
            let before = if value.starts_with('\n') { "\n" } else { "" };
            let after = if value.ends_with('\n') { "\n" } else { "" };
            out.extend([PARAMETER, "\"", name, "\">", before, &value, after, PARAMETER_END, "\n"]);
        }
        out.extend([INVOKE_END, "\n"]);
    }
    out.push_str(CLOSE);
    Ok(out)
}

pub(super) fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}. Each call is {INVOKE}\"NAME\">, then for each argument \
         {PARAMETER}\"KEY\">its value{PARAMETER_END}, then {INVOKE_END}. Text is written as it is, other values as JSON."
    )
}
