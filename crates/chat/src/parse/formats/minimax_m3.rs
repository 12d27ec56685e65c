//! MiniMax M3: elements named after the arguments, every tag after `]<]minimax[>[`; lists are `<item>` elements.

use std::ops::Range;

use hone_trace::ToolCall;
use serde_json::{Map, Value};

use super::{FormatEntry, Reply, Toolbox, Unwritable, Values, alone};
use crate::parse::{
    draft::{Draft, Fault, Reading},
    json::MAX_DEPTH,
    repair::Repair,
    reply::Lookup,
    toolbox::Tool,
    types::Types,
    wide::Wide,
};

/// The mark every tag starts with.
const MARK: &str = "]<]minimax[>[";
const OPEN: &str = "]<]minimax[>[<tool_call>";
const CLOSE: &str = "]<]minimax[>[</tool_call>";
const INVOKE: &str = "]<]minimax[>[<invoke name=";
const INVOKE_END: &str = "]<]minimax[>[</invoke>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "minimax_m3",
    models: "MiniMax M3",
    summary: "A section of invocations with an element per argument, every tag marked.",
    markers: &["<]minimax[>[<tool_call>", "<]minimax[>[<invoke name="],
    claims: alone,
    parse,
    render,
    guidance,
    values: Values::Elements,
};

/// Reason why parsing a call stopped, and whether the text ends there.
struct Broken {
    at: usize,
    why: &'static str,
}

struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    wide: Wide,
    /// Values of the arguments, as written.
    members: Vec<(String, Range<usize>)>,
}

fn parse(reply: &mut Reply<'_>) {
    let mut close = Lookup::new(CLOSE);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE, INVOKE]) {
        match which {
            0 => section(reply, at, at + OPEN.len(), &mut close),
            1 => reply.stray_closer(at, CLOSE, |_, _| None),
            _ => {
                let first = reply.drafts.len();
                section(reply, at, at, &mut close);
                if let Some(draft) = reply.drafts.get_mut(first) {
                    draft.repaired(Fault::markup(at, format!("{OPEN} is missing")), Repair::MissingOpener);
                }
            }
        }
    }
}

fn section(reply: &mut Reply<'_>, open: usize, start: usize, close: &mut Lookup) {
    let text = reply.text;
    let mut cursor = Cursor { text, pos: start, wide: Wide::new(), members: Vec::new() };
    let mut open = open;
    loop {
        let read = cursor.invoke(|name| reply.tools.get(name));
        let closed = cursor.eat(CLOSE);
        let rest = cursor.rest();
        match read {
            Ok(reading) if closed || rest.starts_with(INVOKE) => {
                reply.pos = cursor.pos;
                reply.drafts.push(Draft::read(open..cursor.pos, reading));
            }
            Ok(reading) if CLOSE.starts_with(rest) => {
                reply.pos = text.len();
                let kind = reply.markup_kind(true);
                let mut draft = Draft::read(open..reply.pos, reading);
                draft.repaired(Fault::new(kind, cursor.pos, format!("{CLOSE} is missing")), Repair::MissingCloser);
                reply.drafts.push(draft);
                return;
            }
            read => {
                let Broken { at, why } =
                    read.err().unwrap_or(Broken { at: cursor.pos, why: "expected a call or the end" });
                let end = close.find(text, start).map(|at| at + CLOSE.len());
                let stop = end.unwrap_or(text.len());
                if reply.ends_reasoning(start..stop) {
                    return;
                }
                let kind = reply.markup_kind(end.is_none());
                reply.pos = stop;
                reply.drafts.push(Draft::faulty(open..stop, Fault::new(kind, at, why)));
                return;
            }
        }
        if closed {
            return;
        }
        open = cursor.pos;
    }
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn eat(&mut self, tag: &str) -> bool {
        self.pos = self.text.len() - self.rest().trim_start().len();
        let found = self.rest().starts_with(tag);
        self.pos += if found { tag.len() } else { 0 };
        found
    }

    fn fail<T>(&self, why: &'static str) -> Result<T, Broken> {
        Err(Broken { at: self.pos, why })
    }

    /// Text up to '>', which is consumed.
    fn head(&mut self) -> Result<&'a str, Broken> {
        let rest = self.rest();
        let window = &rest.as_bytes()[..rest.len().min(256)];
        let Some(head) = memchr::memchr(b'>', window).and_then(|end| rest.get(..end)) else {
            return self.fail("a tag lacks its >");
        };
        self.pos += head.len() + 1;
        Ok(head)
    }

    fn invoke<'t>(&mut self, tool: impl FnOnce(&str) -> Option<&'t Tool>) -> Result<Reading, Broken> {
        if !self.eat(INVOKE) {
            return self.fail("expected an invocation");
        }
        let name = self.head()?.trim().trim_matches(['"', '\'']);
        let schema = tool(name).and_then(Tool::schema);
        self.members.clear();
        let mut arguments = Map::new();
        while !self.eat(INVOKE_END) {
            let (key, value, span) = self.element(schema, schema, 0)?;
            if arguments.insert(key.to_owned(), value).is_some() {
                return self.fail("an argument is given twice");
            }
            self.members.push((key.to_owned(), span));
        }
        Ok(Reading { id: None, name: name.to_owned(), arguments, wide: std::mem::take(&mut self.wide) })
    }

    /// An element: its name, its value and the value's position. `schema` is its container's.
    fn element(
        &mut self,
        schema: Option<&Value>,
        root: Option<&Value>,
        depth: usize,
    ) -> Result<(&'a str, Value, Range<usize>), Broken> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        if !self.eat(MARK) || !self.rest().starts_with('<') || self.rest().starts_with("</") {
            return self.fail("expected an element");
        }
        self.pos += 1;
        let name = self.head()?;
        let close = format!("</{name}>");
        let schema = schema.and_then(|schema| part(schema, root?, name));
        let types = schema.zip(root).map_or(Types::ANY, |(schema, root)| Types::of(schema, root));
        let start = self.pos;
        let Some(length) = self.rest().find(MARK) else { return self.fail("a value is never closed") };
        let behind = &self.rest()[length + MARK.len()..];
        if behind.starts_with(&close) {
            let text = &self.text[start..start + length];
            self.pos += length + MARK.len() + close.len();
            let value = match text.trim() {
                "" if types == Types::ARRAY => Value::Array(Vec::new()),
                "" if types == Types::OBJECT => Value::Object(Map::new()),
                _ => {
                    types.read(text, &mut self.wide).map_err(|error| Broken { at: start + error.at, why: error.why })?
                }
            };
            return Ok((name, value, start..start + length));
        }
        if !self.rest()[..length].trim().is_empty() {
            return self.fail("text beside elements");
        }
        let (mut items, mut members) = (Vec::new(), Map::new());
        loop {
            let end = self.pos;
            if self.eat(MARK) {
                if self.eat(&close) {
                    let value = if members.is_empty() { Value::Array(items) } else { Value::Object(members) };
                    return Ok((name, value, start..end));
                }
                self.pos -= MARK.len();
            }
            let (key, value, _) = self.element(schema, root, depth + 1)?;
            let doubled = if key == "item" {
                items.push(value);
                !members.is_empty()
            } else {
                members.insert(key.to_owned(), value).is_some() || !items.is_empty()
            };
            if doubled {
                return self.fail("an element is given twice");
            }
        }
    }
}

/// The schema of a member or item.
fn part<'s>(schema: &'s Value, root: &'s Value, name: &str) -> Option<&'s Value> {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    let schema = target.and_then(|target| root.pointer(target)).unwrap_or(schema);
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| if name == "item" { schema.get("items") } else { None })
}

/// The places of a call's arguments, if they parse to exactly these.
pub(in crate::parse) fn members(
    text: &str,
    span: Range<usize>,
    call: &ToolCall,
    tool: &Tool,
) -> Option<Vec<(String, Range<usize>)>> {
    let start = span.start + text.get(span.clone())?.find(INVOKE)?;
    let mut cursor = Cursor { text: &text[..span.end], pos: start, wide: Wide::new(), members: Vec::new() };
    let reading = cursor.invoke(|_| Some(tool)).ok()?;
    (reading.arguments == call.arguments).then_some(cursor.members)
}

fn render(calls: &[ToolCall], tools: &Toolbox) -> Result<String, Unwritable> {
    let mut out = format!("{OPEN}\n");
    for call in calls {
        out.extend([INVOKE, "\"", &call.name, "\">"]);
        for (name, value) in &call.arguments {
            let text = super::raw_value(tools, call, name, value)?;
            out.extend([MARK, "<", name, ">", &text, MARK, "</", name, ">"]);
        }
        out.extend([INVOKE_END, "\n"]);
    }
    out.push_str(CLOSE);
    Ok(out)
}

fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}. Each call is {INVOKE}\"NAME\">, then for each argument \
         {MARK}<KEY>its value{MARK}</KEY>, then {INVOKE_END}. Text is written as it is, other values as JSON."
    )
}
