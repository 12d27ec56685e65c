//! Gemma's calls: `call:NAME{key:value, …}`, keys bare, strings between quote tokens.
//!
//! Common parts of the Gemma formats. A value is a string between the quote tokens, a JSON or Python string, a list, an
//! object, or bare text, which the schema types.

use std::{borrow::Cow, ops::Range};

use hone_trace::ToolCall;
use serde_json::{Map, Value};

use super::{
    draft::{Draft, Fault, Reading},
    json::{self, Json, MAX_DEPTH},
    python::Python,
    repair::Repair,
    reply::{Lookup, Reply},
    toolbox::Tool,
    wide::Wide,
    work::spend,
};

/// The tokens of one format.
pub(super) struct Curly {
    pub open: &'static str,
    pub close: &'static str,
    pub quote: &'static str,
}

const CALL: &str = "call:";

/// Reason why parsing a call stopped.
struct Broken {
    at: usize,
    why: &'static str,
}

/// A value's place: its name and its text.
type Member = (String, Range<usize>);

struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    quote: &'static str,
    wide: Wide,
    /// Members of the outermost object.
    members: Vec<Member>,
}

pub(super) fn parse(reply: &mut Reply<'_>, curly: &'static Curly) {
    let mut close = Lookup::new(curly.close);
    while let Some((which, at)) = reply.seek(&[curly.open, curly.close]) {
        if which == 1 {
            reply.stray_closer(at, curly.close, |_, _| None);
        } else {
            curly.call(reply, at, &mut close);
        }
    }
}

impl Curly {
    fn call(&self, reply: &mut Reply<'_>, open: usize, close: &mut Lookup) {
        let text = reply.text;
        let start = open + self.open.len();
        let mut cursor = self.cursor(text, start);
        let read = cursor.call(|name| reply.tools.get(name));
        cursor.blank();
        let rest = &text[cursor.pos..];
        let draft = match read {
            Ok(reading) if rest.starts_with(self.close) => {
                reply.pos = cursor.pos + self.close.len();
                Draft::read(open..reply.pos, reading)
            }
            Ok(reading) if self.close.starts_with(rest) || rest.starts_with(self.open) => {
                let cut = !rest.starts_with(self.open);
                reply.pos = if cut { text.len() } else { cursor.pos };
                let kind = reply.markup_kind(cut);
                let mut draft = Draft::read(open..reply.pos, reading);
                let fault = Fault::new(kind, cursor.pos, format!("{} is missing", self.close));
                draft.repaired(fault, Repair::MissingCloser);
                draft
            }
            read => {
                let broken = match read {
                    Ok(_) => Broken { at: cursor.pos, why: "text after the arguments of a call" },
                    Err(broken) => broken,
                };
                let end = close.find(text, start).map(|at| at + self.close.len());
                let stop = end.unwrap_or(text.len());
                if reply.ends_reasoning(start..stop) {
                    return;
                }
                reply.pos = stop;
                let kind = reply.markup_kind(end.is_none());
                Draft::faulty(open..stop, Fault::new(kind, broken.at, broken.why))
            }
        };
        reply.drafts.push(draft);
    }

    fn cursor<'a>(&self, text: &'a str, pos: usize) -> Cursor<'a> {
        Cursor { text, pos, quote: self.quote, wide: Wide::new(), members: Vec::new() }
    }

    /// The members of the call in `text[span]`, if it parses to exactly these arguments.
    pub(super) fn members(&self, text: &str, span: Range<usize>, call: &ToolCall, tool: &Tool) -> Option<Vec<Member>> {
        let start = span.start + text.get(span.clone())?.strip_prefix(self.open).map(|_| self.open.len())?;
        let mut cursor = self.cursor(&text[..span.end], start);
        let reading = cursor.call(|_| Some(tool)).ok()?;
        (reading.arguments == call.arguments).then_some(cursor.members)
    }

    pub(super) fn render(&self, calls: &[ToolCall]) -> String {
        let mut out = String::new();
        for call in calls {
            out.extend([self.open, CALL, &call.name]);
            self.write_object(&call.arguments, &mut out);
            out.push_str(self.close);
        }
        out
    }

    fn write_object(&self, members: &Map<String, Value>, out: &mut String) {
        out.push('{');
        for (index, (key, value)) in members.iter().enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            if is_bare_key(key) {
                out.push_str(key);
            } else {
                out.extend([self.quote, key, self.quote]);
            }
            out.push(':');
            self.write(value, out);
        }
        out.push('}');
    }

    fn write(&self, value: &Value, out: &mut String) {
        match value {
            Value::String(text) => out.extend([self.quote, text, self.quote]),
            Value::Object(members) => self.write_object(members, out),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.write(item, out);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    pub(super) fn guidance(&self) -> String {
        let Self { open, close, quote } = self;
        format!(
            "For each call write {open}{CALL}NAME{{KEY:VALUE,…}}{close}. Text stands between two {quote}, other values as in \
             JSON, with bare keys."
        )
    }
}

fn is_bare_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|ch| ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.'))
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn blank(&mut self) {
        self.pos = self.text.len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, text: &str) -> bool {
        self.blank();
        let found = self.rest().starts_with(text);
        self.pos += if found { text.len() } else { 0 };
        found
    }

    fn fail<T>(&self, why: &'static str) -> Result<T, Broken> {
        Err(Broken { at: self.pos, why })
    }

    fn call<'t>(&mut self, tool: impl FnOnce(&str) -> Option<&'t Tool>) -> Result<Reading, Broken> {
        if !self.eat(CALL) {
            return self.fail("expected call: and the name of a tool");
        }
        let rest = self.rest();
        let window = &rest.as_bytes()[..rest.len().min(256)];
        let name = memchr::memchr2(b'{', b'<', window).and_then(|end| rest.get(..end)).map(str::trim);
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(['\n', '}'])) else {
            return self.fail("expected the name of a tool and {");
        };
        self.pos += memchr::memchr2(b'{', b'<', window).unwrap_or(0);
        if !self.eat("{") {
            return self.fail("expected { after the name of a tool");
        }
        let arguments = self.object(0, tool(name))?;
        Ok(Reading { id: None, name: name.to_owned(), arguments, wide: std::mem::take(&mut self.wide) })
    }

    /// The members after an opening brace, up to and including the closing one.
    fn object(&mut self, depth: usize, tool: Option<&Tool>) -> Result<Map<String, Value>, Broken> {
        let mut members = Map::new();
        if self.eat("}") {
            return Ok(members);
        }
        loop {
            let key = self.key()?;
            if !self.eat(":") {
                return self.fail("expected : after a key");
            }
            let before = self.pos;
            self.blank();
            let start = self.pos;
            let value = if let Some(value) = self.quoted_or_nested(depth)? {
                value
            } else {
                // Whitespace around bare text is layout, unless there is nothing else.
                self.pos = before;
                let text = self.bare();
                self.typed(text, tool.map(|tool| tool.types(&key)))?
            };
            if depth == 0 {
                let end = start + self.text[start..self.pos].trim_end().len();
                self.members.push((key.to_string(), start..end));
            }
            if members.insert(key.into_owned(), value).is_some() {
                return self.fail("an argument is given twice");
            }
            if self.eat("}") {
                return Ok(members);
            }
            if !self.eat(",") {
                return self.fail("expected , or } after a value");
            }
        }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, Broken> {
        self.blank();
        if let Some(text) = self.quoted()? {
            return Ok(text);
        }
        let rest = self.rest();
        let end =
            rest.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.' | ' '))).unwrap_or(rest.len());
        let key = rest[..end].trim();
        self.pos += end;
        if key.is_empty() { self.fail("expected a key") } else { Ok(Cow::Borrowed(key)) }
    }

    /// A string between quote tokens or quotes.
    fn quoted(&mut self) -> Result<Option<Cow<'a, str>>, Broken> {
        let rest = self.rest();
        if let Some(inner) = rest.strip_prefix(self.quote) {
            let length = memchr::memmem::find(inner.as_bytes(), self.quote.as_bytes());
            spend(length.unwrap_or(inner.len()));
            let Some(length) = length else { return self.fail("a string is never closed") };
            self.pos += 2 * self.quote.len() + length;
            return Ok(Some(Cow::Borrowed(&inner[..length])));
        }
        if rest.starts_with('"') {
            let mut json = Json::new(self.text, self.pos);
            let text = json.string().map_err(|error| Broken { at: error.at, why: error.why })?;
            self.pos = json.pos;
            return Ok(Some(text));
        }
        if rest.starts_with('\'') {
            let mut python = Python::new(self.text, self.pos);
            let value = python.value().map_err(|error| Broken { at: error.at, why: error.why })?;
            self.pos = python.pos;
            if let Value::String(text) = value {
                return Ok(Some(Cow::Owned(text)));
            }
        }
        Ok(None)
    }

    fn quoted_or_nested(&mut self, depth: usize) -> Result<Option<Value>, Broken> {
        if depth >= MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        spend(1);
        if let Some(text) = self.quoted()? {
            return Ok(Some(Value::from(text.into_owned())));
        }
        if self.eat("{") {
            return self.object(depth + 1, None).map(|members| Some(Value::Object(members)));
        }
        if !self.eat("[") {
            return Ok(None);
        }
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Some(Value::Array(items)));
        }
        loop {
            self.blank();
            let item = if let Some(item) = self.quoted_or_nested(depth + 1)? {
                item
            } else {
                let text = self.bare();
                self.typed(text, None)?
            };
            items.push(item);
            if self.eat("]") {
                return Ok(Some(Value::Array(items)));
            }
            if !self.eat(",") {
                return self.fail("expected , or ] after a value");
            }
        }
    }

    /// Bare text up to the end of the value.
    fn bare(&mut self) -> &'a str {
        let rest = self.rest();
        let length = rest.find([',', '}', ']', '<']).unwrap_or(rest.len());
        spend(length);
        self.pos += length;
        &rest[..length]
    }

    /// Bare text typed by the schema; without a type, JSON, or else text.
    fn typed(&mut self, text: &str, types: Option<super::types::Types>) -> Result<Value, Broken> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return self.fail("a value is missing");
        }
        let Some(types) = types else {
            let Ok((value, mut wide)) = json::read_all(trimmed) else { return Ok(Value::from(trimmed)) };
            self.wide.append(&mut wide);
            return Ok(value);
        };
        types.read(trimmed, &mut self.wide).map_err(|error| Broken { at: self.pos, why: error.why })
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::{ParseFailureKind, ToolSet, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::parse::{Format, Toolbox, parse};

    #[test]
    fn values_of_every_kind() {
        let tool = ToolSpec::new("f", "", json!({"type": "object", "properties": {"s": {"type": "string"}}}));
        let tools = Toolbox::new(&ToolSet::new(vec![tool]).unwrap()).unwrap();
        let format: Format = "gemma4".parse().unwrap();
        let read = |arguments: &str| {
            let text = format!("<|tool_call>call:f{arguments}<tool_call|>");
            let parsed = parse(&text, &tools, Some(format));
            match parsed.error {
                None => Ok(Value::Object(parsed.calls[0].call.arguments.clone())),
                Some(failure) => Err(failure.kind),
            }
        };
        assert_eq!(read("{}"), Ok(json!({})));
        assert_eq!(read("{ }"), Ok(json!({})));
        assert_eq!(read(r#"{s:<|"|>a, b} "c"<|"|>}"#), Ok(json!({"s": "a, b} \"c\""})));
        assert_eq!(read("{s:12}"), Ok(json!({"s": "12"})));
        assert_eq!(read(r#"{s:"a\"b",t:'x'}"#), Ok(json!({"s": "a\"b", "t": "x"})));
        assert_eq!(read(r#"{o:{a:1,b:[true,null,<|"|>x<|"|>]}}"#), Ok(json!({"o": {"a": 1, "b": [true, null, "x"]}})));
        assert_eq!(read("{s:hello}"), Ok(json!({"s": "hello"})));
        assert_eq!(read("{s:<|\"|>never}"), Err(ParseFailureKind::MalformedMarkup));
        assert_eq!(read("{s}"), Err(ParseFailureKind::MalformedMarkup));
        assert_eq!(read("{s:1,s:2}"), Err(ParseFailureKind::MalformedMarkup));
    }
}
