//! GLM-4.5: `<tool_call>NAME`, then `<arg_key>`/`<arg_value>` pairs, then `</tool_call>`. Hermes JSON is read too.

use hone_trace::ToolCall;

use super::{CannotRender, Holds, Reply, Toolbox, hermes, payload};
use crate::parse::{
    reply::Lookup,
    xml::{self, Broken, Cursor, Parameter, Tagged},
};

pub(in crate::parse) const KEY: &str = "<arg_key>";
pub(in crate::parse) const KEY_END: &str = "</arg_key>";
pub(in crate::parse) const VALUE: &str = "<arg_value>";
pub(in crate::parse) const VALUE_END: &str = "</arg_value>";

pub(super) fn parse(reply: &mut Reply<'_>) {
    let mut tag = hermes::tag();
    let mut call_end = Lookup::new(hermes::CLOSE);
    let mut value_end = Lookup::new(VALUE_END);
    while let Some((which, at)) = reply.seek(&[hermes::OPEN, hermes::CLOSE]) {
        let start = at + hermes::OPEN.len();
        if which == 1 {
            reply.stray_closer(at, hermes::CLOSE, hermes::whole_call);
        } else if reply.text[start..].trim_start().starts_with(['{', '[', '`']) {
            payload::read(reply, at, start, Holds::Call, &mut tag);
        } else {
            let mut cursor = Cursor { text: reply.text, pos: start };
            let mut call = Tagged { name: "", parameters: Vec::new(), unclosed: None };
            let draft = match arguments(reply, &mut cursor, &mut call, &mut value_end, &mut call_end) {
                Ok(()) => {
                    reply.pos = cursor.pos;
                    Some(xml::typed(reply, at..cursor.pos, &call))
                }
                Err(why) => xml::broken(reply, at, cursor.pos, &call, why, hermes::CLOSE, &mut call_end),
            };
            reply.drafts.extend(draft);
        }
    }
}

fn arguments<'a>(
    reply: &Reply<'a>,
    cursor: &mut Cursor<'a>,
    call: &mut Tagged<'a>,
    value_end: &mut Lookup,
    call_end: &mut Lookup,
) -> Result<(), Broken> {
    cursor.blank();
    let window = &cursor.rest().as_bytes()[..cursor.rest().len().min(256)];
    let length = memchr::memchr2(b'\n', b'<', window).unwrap_or(window.len());
    let Some(name) = cursor.rest().get(..length) else {
        return Err(Broken::Bad { at: cursor.pos, message: "expected the name of a tool".to_owned() });
    };
    call.name = name.trim();
    cursor.pos += length;
    let tool = reply.tools.get(call.name);
    loop {
        if cursor.eat(hermes::CLOSE) {
            return Ok(());
        }
        if !cursor.eat(KEY) {
            return Err(cursor.unexpected(&[KEY, hermes::CLOSE]));
        }
        let name = cursor.until(KEY_END)?.trim();
        cursor.expect(VALUE).map_err(|why| match why {
            Broken::Cut { .. } => Broken::Cut { clean: false },
            bad @ Broken::Bad { .. } => bad,
        })?;
        let start = cursor.pos;
        let known = |name: &str| {
            tool.is_some_and(|tool| tool.has_parameter(name)) && call.parameters.iter().all(|known| known.name != name)
        };
        let (end, closed) = xml::value_end(
            cursor.text,
            start,
            value_end,
            call_end,
            |rest| {
                let rest = rest[hermes::CLOSE.len()..].trim_start();
                rest.is_empty() || rest.starts_with(hermes::OPEN)
            },
            |value| xml::reopened(value, KEY, KEY_END, |other| other != name && known(other)),
        )?;
        call.parameters.push(Parameter { name, value: &cursor.text[start..end], at: start });
        cursor.pos = end;
        if closed {
            cursor.pos += VALUE_END.len();
        } else {
            call.unclosed = Some(end);
        }
    }
}

pub(super) fn render(calls: &[ToolCall], tools: &Toolbox) -> Result<String, CannotRender> {
    let mut out = String::new();
    for call in calls {
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.extend([hermes::OPEN, &call.name, "\n"]);
        for (name, value) in super::written_values(call, tools)? {
            out.extend([KEY, name, KEY_END, "\n", VALUE, &value, VALUE_END, "\n"]);
        }
        out.push_str(hermes::CLOSE);
    }
    Ok(out)
}

pub(super) fn guidance() -> String {
    format!(
        "For each call write {open}NAME, then for each argument {KEY}KEY{KEY_END} and {VALUE}its value{VALUE_END} on new \
         lines, then {close}. Text is written as it is, other values as JSON.",
        open = hermes::OPEN,
        close = hermes::CLOSE,
    )
}
