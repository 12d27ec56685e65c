//! Raw values between tags: the implementation of all XML-parameter formats.
//!
//! A format of this family is a [`Dialect`], a table of its tags. Values are everything between their tags, typed only
//! by the schema; a missing tag is inferred from what follows it, and is a fault that one repair fixes.

mod render;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::{
    draft::{Draft, Fault},
    formats::hermes,
    payload::{self, Holds, Tag},
    repair::Repair,
    reply::{Lookup, Reply},
    types::Types,
    xml::{self, Broken, Cursor, Parameter, Tagged},
};

/// An opening tag with a name in it.
pub(super) struct Head {
    pub open: &'static str,
    /// Text after the name. Empty: the name ends with its line or at the next tag.
    pub close: &'static str,
    /// The name is in quotes; further attributes may follow it.
    pub quoted: bool,
}

/// The tags of one format.
#[expect(clippy::struct_excessive_bools, reason = "a table of independent properties, filled in by name")]
pub(super) struct Dialect {
    /// Tags around the calls, the spelling used for rendering first. Empty: calls have no section.
    pub sections: &'static [(&'static str, &'static str)],
    /// A section holds one call when it is written.
    pub section_per_call: bool,
    /// A call without its section is not a fault.
    pub bare: bool,
    /// The first tag may hold JSON calls instead, which end as this tag says.
    pub json: Option<fn() -> Tag>,
    pub call: Head,
    pub call_end: &'static str,
    pub parameter: Head,
    /// A tag between a parameter's name and its value.
    pub value: Option<&'static str>,
    pub value_end: &'static str,
    /// Values are written on separate lines.
    pub value_lines: bool,
    /// One line break per side of a value belongs to the markup.
    pub strips_lines: bool,
    /// A value may be in `<![CDATA[…]]>`.
    pub cdata: bool,
    /// Names are escaped with XML entities.
    pub entities: bool,
    /// Markers around an answer, skipped.
    pub frame: &'static [&'static str],
    /// Redundant markers around each call of a section.
    pub fillers: &'static [&'static str],
    /// The type that a parameter's other attributes give its value, if the schema gives none.
    pub declared: fn(&str) -> Option<Types>,
    /// Attributes after a call's name, given its index.
    pub call_tail: fn(usize) -> String,
    /// Attributes after a parameter's name, given its value.
    pub parameter_tail: fn(&Value) -> &'static str,
}

/// Qwen3-Coder's tags, without those that every dialect must name itself.
pub(super) const BASE: Dialect = Dialect {
    sections: &[],
    section_per_call: false,
    bare: false,
    json: None,
    call: Head { open: "<function=", close: ">", quoted: false },
    call_end: "</function>",
    parameter: Head { open: "<parameter=", close: ">", quoted: false },
    value: None,
    value_end: "</parameter>",
    value_lines: false,
    strips_lines: false,
    cdata: false,
    entities: false,
    frame: &[],
    fillers: &[],
    declared: |_| None,
    call_tail: |_| String::new(),
    parameter_tail: |_| "",
};

const CDATA: (&str, &str) = ("<![CDATA[", "]]>");

/// Searches for closing tags, each in one pass over the reply.
struct Lookups {
    sections: Vec<Lookup>,
    call: Lookup,
    value: Lookup,
}

/// Reads a reply in a dialect.
pub(super) fn parse(reply: &mut Reply<'_>, dialect: &'static Dialect) {
    let sections = dialect.sections;
    let mut lookups = Lookups {
        sections: sections.iter().map(|(_, close)| Lookup::new(close)).collect(),
        call: Lookup::new(dialect.call_end),
        value: Lookup::new(dialect.value_end),
    };
    let mut tag = dialect.json.map(|make| make());
    let mut openers: Vec<&str> = sections.iter().map(|(open, _)| *open).collect();
    openers.push(dialect.call.open);
    let closers = openers.len();
    openers.extend(sections.iter().map(|(_, close)| *close));
    if sections.is_empty() {
        openers.push(dialect.call_end);
    }
    let frame = openers.len();
    openers.extend(dialect.frame);
    while let Some((which, at)) = reply.seek(&openers) {
        if which >= frame {
            reply.pos = at + openers[which].len();
            continue;
        }
        if which >= closers {
            let whole = if tag.is_some() { hermes::whole_call } else { |_: &str, _: usize| None };
            reply.stray_closer(at, openers[which], whole);
            continue;
        }
        let start = at + openers[which].len();
        let holds_json = which == 0 && reply.text[start..].trim_start().starts_with(['{', '[', '`']);
        match &mut tag {
            Some(tag) if holds_json => payload::read(reply, at, start, Holds::Call, tag),
            _ if which < sections.len() => dialect.calls(reply, at, start, Some(which), &mut lookups),
            _ => dialect.calls(reply, at, at, None, &mut lookups),
        }
    }
}

impl Dialect {
    /// The calls of a section, or one call without a section.
    fn calls(&self, reply: &mut Reply<'_>, at: usize, start: usize, section: Option<usize>, lookups: &mut Lookups) {
        let mut cursor = Cursor { text: reply.text, pos: start };
        let (mut open, first) = (at, reply.drafts.len());
        loop {
            let mut call = Tagged::default();
            let complete = self.call(reply, &mut cursor, &mut call, lookups);
            let read = complete.clone().and_then(|()| self.after_call(&mut cursor, section));
            let more = matches!(read, Ok(true));
            let draft = match read {
                Ok(_) => {
                    reply.pos = cursor.pos;
                    Some(xml::typed(reply, open..cursor.pos, &call))
                }
                Err(why) => {
                    let span = open..cursor.pos;
                    let whole = complete.is_ok() && matches!(why, Broken::Bad { .. });
                    let reopened = whole.then(|| self.reopened(reply, &span, &call)).flatten();
                    reopened.or_else(|| self.broken(reply, span, &call, why, section, lookups))
                }
            };
            reply.drafts.extend(draft);
            if !more {
                break;
            }
            open = cursor.pos;
        }
        if section.is_none()
            && !self.bare
            && let Some((tag, _)) = self.sections.first()
            && let Some(draft) = reply.drafts.get_mut(first)
        {
            draft.repaired(Fault::markup(at, format!("{tag} is missing")), Repair::MissingOpener);
        }
    }

    /// True if another call of the section opens after the one just read.
    fn after_call(&self, cursor: &mut Cursor<'_>, section: Option<usize>) -> Result<bool, Broken> {
        self.skip_fillers(cursor);
        if self.sections.iter().any(|(_, close)| cursor.eat(close)) {
            return Ok(false);
        }
        let Some(section) = section else { return Ok(false) };
        if cursor.rest().starts_with(self.call.open) {
            return Ok(true);
        }
        Err(cursor.unexpected(&[self.call.open, self.sections[section].1]))
    }

    fn skip_fillers(&self, cursor: &mut Cursor<'_>) {
        while self.fillers.iter().any(|filler| cursor.eat(filler)) {}
    }

    /// A complete call with the section's opener in place of its closer.
    fn reopened(&self, reply: &mut Reply<'_>, span: &Range<usize>, call: &Tagged<'_>) -> Option<Draft> {
        let rest = &reply.text[span.end..];
        let (tag, close) = self.sections.iter().find(|(open, _)| rest.starts_with(open))?;
        reply.pos = if rest.trim_end() == *tag { reply.text.len() } else { span.end };
        let mut draft = xml::typed(reply, span.clone(), call);
        let message = format!("{tag} where {close} should close the call");
        draft.repaired(Fault::markup(span.end, message), Repair::ReopenedTag);
        Some(draft)
    }

    /// A call that cannot be read to its end.
    fn broken(
        &self,
        reply: &mut Reply<'_>,
        Range { start: open, end: at }: Range<usize>,
        call: &Tagged<'_>,
        why: Broken,
        section: Option<usize>,
        lookups: &mut Lookups,
    ) -> Option<Draft> {
        let index = section.unwrap_or(0);
        match (self.sections.get(index), lookups.sections.get_mut(index)) {
            (Some((_, close)), Some(lookup)) => xml::broken(reply, open, at, call, why, close, lookup),
            _ => xml::broken(reply, open, at, call, why, self.call_end, &mut lookups.call),
        }
    }

    fn call<'a>(
        &self,
        reply: &Reply<'a>,
        cursor: &mut Cursor<'a>,
        call: &mut Tagged<'a>,
        lookups: &mut Lookups,
    ) -> Result<(), Broken> {
        self.skip_fillers(cursor);
        cursor.expect(self.call.open)?;
        call.name = self.name(&self.call, cursor)?;
        // `<invoke name="f"/>` is a call without arguments.
        if self.call.quoted && cursor.text[..cursor.pos].ends_with("/>") {
            return Ok(());
        }
        loop {
            if cursor.eat(self.call_end) {
                return Ok(());
            }
            if !cursor.eat(self.parameter.open) {
                if self.call_is_over(cursor.rest()) {
                    call.unclosed = Some(cursor.pos);
                    return Ok(());
                }
                return Err(cursor.unexpected(&[self.parameter.open, self.call_end]));
            }
            let head = cursor.pos;
            let name = self.name(&self.parameter, cursor)?;
            let declared = (self.declared)(&cursor.text[head..cursor.pos]);
            if let Some(tag) = self.value {
                cursor.expect(tag).map_err(|why| match why {
                    Broken::Cut { .. } => Broken::Cut { clean: false },
                    bad @ Broken::Bad { .. } => bad,
                })?;
            }
            self.parameter(reply, cursor, call, name, lookups)?;
            if let Some(parameter) = call.parameters.last_mut() {
                parameter.declared = declared;
            }
        }
    }

    /// True if `rest` can only follow a call, so that its own closer is missing.
    fn call_is_over(&self, rest: &str) -> bool {
        rest.starts_with(self.call.open)
            || self.sections.iter().any(|(open, close)| rest.starts_with(open) || rest.starts_with(close))
    }

    fn name<'a>(&self, head: &Head, cursor: &mut Cursor<'a>) -> Result<Cow<'a, str>, Broken> {
        if head.close.is_empty() {
            return Ok(Cow::Borrowed(cursor.until_tag()?.trim()));
        }
        let text = cursor.until(head.close)?.trim();
        let name = if head.quoted { attribute(text) } else { text };
        Ok(if self.entities { unescape(name) } else { Cow::Borrowed(name) })
    }

    /// The value at the cursor, and its closing tag.
    fn parameter<'a>(
        &self,
        reply: &Reply<'a>,
        cursor: &mut Cursor<'a>,
        call: &mut Tagged<'a>,
        name: Cow<'a, str>,
        lookups: &mut Lookups,
    ) -> Result<(), Broken> {
        let (text, start) = (cursor.text, cursor.pos);
        if self.cdata && cursor.eat(CDATA.0) {
            let at = cursor.pos;
            let length = cursor.rest().find(CDATA.1).ok_or(Broken::Cut { clean: false })?;
            cursor.pos += length + CDATA.1.len();
            cursor.expect(self.value_end)?;
            call.parameters.push(Parameter { name, value: &text[at..at + length], at, declared: None });
            return Ok(());
        }
        let tool = reply.tools.get(&call.name);
        let known = |other: &str| {
            let other = if self.parameter.quoted { attribute(other) } else { other };
            *other != *name
                && tool.is_some_and(|tool| tool.has_parameter(other))
                && call.parameters.iter().all(|known| known.name != other)
        };
        let (end, closed) = self.value_end(text, start, lookups, &known)?;
        let value = &text[start..end];
        let value = match (self.strips_lines, closed) {
            (true, _) => xml::strip_newlines(value),
            (false, true) => value,
            (false, false) => value.strip_suffix('\n').unwrap_or(value),
        };
        call.parameters.push(Parameter { name, value, at: start, declared: None });
        cursor.pos = end;
        if closed {
            cursor.pos += self.value_end.len();
        } else {
            call.unclosed = Some(end);
        }
        Ok(())
    }

    /// End of a raw value, and whether its closing tag is present.
    ///
    /// The value is everything up to its closing tag. It ends sooner where another parameter of the same tool opens, or
    /// where the call or its section closes and another call or nothing follows: then its own closer is missing.
    fn value_end(
        &self,
        text: &str,
        start: usize,
        lookups: &mut Lookups,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<(usize, bool), Broken> {
        let closed = lookups.value.find(text, start);
        let bound = closed.unwrap_or(text.len());
        let ends = |at: usize, length: usize| {
            let rest = text[at + length..].trim_start();
            rest.is_empty() || self.call_is_over(rest)
        };
        let call_end = lookups.call.find(text, start).filter(|end| *end < bound);
        let call_end = call_end.filter(|end| closed.is_none() || ends(*end, self.call_end.len()));
        let sections = lookups.sections.iter_mut().zip(self.sections).filter_map(|(lookup, (_, close))| {
            let at = lookup.find(text, start).filter(|at| *at < bound)?;
            (closed.is_none() || ends(at, close.len())).then_some(at)
        });
        let over = sections.chain(call_end).min();
        let value = &text[start..over.unwrap_or(bound)];
        if let Some(at) = xml::reopened(value, self.parameter.open, self.parameter.close, known) {
            return Ok((start + at, false));
        }
        match (over, closed) {
            (Some(end), _) => Ok((end, false)),
            (None, Some(end)) => Ok((end, true)),
            (None, None) => Err(Broken::Cut { clean: false }),
        }
    }
}

/// The value of the first attribute, with or without its quotes.
pub(super) fn attribute(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split(quote).next().unwrap_or(inner);
        }
    }
    text.split_whitespace().next().unwrap_or_default().trim_matches(['"', '\'', '/'])
}

const ENTITIES: [(&str, &str); 5] = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(ENTITIES.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}
