//! Calls written in a dialect, and instructions for writing them.

use std::borrow::Cow;

use hone_trace::ToolCall;

use super::{Dialect, ENTITIES, Head};
use crate::parse::{
    formats::{Unwritable, raw_value},
    toolbox::Toolbox,
};

impl Dialect {
    /// The calls as this dialect writes them.
    pub(in crate::parse) fn render(&self, calls: &[ToolCall], tools: &Toolbox) -> Result<String, Unwritable> {
        let calls: Vec<String> =
            calls.iter().enumerate().map(|(index, call)| self.write(index, call, tools)).collect::<Result<_, _>>()?;
        Ok(match self.sections.first() {
            None => calls.join("\n"),
            Some((open, close)) if self.section_per_call => {
                calls.iter().map(|call| format!("{open}\n{call}\n{close}")).collect::<Vec<_>>().join("\n")
            }
            Some((open, close)) => format!("{open}\n{}\n{close}", calls.join("\n")),
        })
    }

    fn write(&self, index: usize, call: &ToolCall, tools: &Toolbox) -> Result<String, Unwritable> {
        let head = |head: &Head, name: &str, tail: &str| {
            let name = if self.entities { escape(name) } else { Cow::Borrowed(name) };
            let quote = if head.quoted { "\"" } else { "" };
            [head.open, quote, &name, quote, tail, head.close].concat()
        };
        let mut out = head(&self.call, &call.name, &(self.call_tail)(index));
        out.push('\n');
        for (name, value) in &call.arguments {
            let text = raw_value(tools, call, name, value)?;
            // A line break at an end of the value would be taken for markup; one more keeps it.
            let line = |at_end: bool| {
                let kept = self.strips_lines && at_end;
                if self.value_lines || kept { "\n" } else { "" }
            };
            let (before, after) = (line(text.starts_with('\n')), line(text.ends_with('\n')));
            out.push_str(&head(&self.parameter, name, (self.parameter_tail)(value)));
            if let Some(tag) = self.value {
                out.extend(["\n", tag]);
            }
            out.extend([before, &text, after, self.value_end, "\n"]);
        }
        out.push_str(self.call_end);
        Ok(out)
    }

    /// Instructions for writing a call, in words for a prompt.
    pub(in crate::parse) fn guidance(&self) -> String {
        let head = |head: &Head, name: &str| {
            let quote = if head.quoted { "\"" } else { "" };
            [head.open, quote, name, quote, head.close].concat()
        };
        let place = if self.value_lines { " on lines of its own" } else { "" };
        let each = format!(
            "{}, then for each argument {}{}its value{}{place}, then {}",
            head(&self.call, "NAME"),
            head(&self.parameter, "KEY"),
            self.value.unwrap_or_default(),
            self.value_end,
            self.call_end
        );
        let calls = match self.sections.first() {
            None => format!("For each call write {each}."),
            Some((open, close)) if self.section_per_call => format!("For each call write {open}, {each} and {close}."),
            Some((open, close)) => format!("Write all calls between one {open} and {close}. Each call is {each}."),
        };
        format!("{calls} Text is written as it is, other values as JSON.")
    }
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"']) {
        return Cow::Borrowed(text);
    }
    let escaped = ENTITIES.iter().rev().filter(|(_, plain)| *plain != "'");
    Cow::Owned(escaped.fold(text.to_owned(), |text, (entity, plain)| text.replace(plain, entity)))
}
