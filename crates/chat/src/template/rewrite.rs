//! Source rewriting before a template is compiled: the few constructs of transformers' dialect minijinja has no hook for.
//!
//! Lines keep their numbers, so that an error of the rewritten template names a line of the original.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

/// The filter around the iterable of a `for`.
pub(super) const ITERABLE_FILTER: &str = "hone_iterable";

/// A 1 that the compiler cannot see. It folds constants: a template of a few bytes would make it write pages of spaces
/// before anything is counted.
pub(super) const ONE: &str = "hone_one";

/// Marks the line of a branch in an instrumented render; private-use characters that no template writes.
const MARK: (char, char) = ('\u{f8f0}', '\u{f8f1}');

/// A template as minijinja should see it:
/// - line ends become `\n`, as in jinja2's lexer;
/// - `{% generation %}` blocks, which mark what the model wrote, become separate scopes;
/// - `{% for x in y %}` iterates over `y` as Python would, raising for None;
/// - `x * y` is left to the render.
pub(super) fn rewrite(source: &str) -> String {
    transform(source, false)
}

/// The same, with the line of every branch and loop written into the output where it is taken. Comparing two of these
/// renders shows the line of the template at which they diverge.
pub(super) fn instrument(source: &str) -> String {
    transform(source, true)
}

/// An instrumented output, split: the text, and each mark's line with its position in the text.
struct Marked {
    text: String,
    marks: Vec<(usize, usize)>,
}

impl Marked {
    fn read(output: &str) -> Self {
        let mut marked = Self { text: String::with_capacity(output.len()), marks: Vec::new() };
        let mut rest = output;
        while let Some((before, after)) = rest.split_once(MARK.0) {
            marked.text.push_str(before);
            let (digits, after) = after.split_once(MARK.1).unwrap_or((after, ""));
            marked.marks.extend(digits.parse().ok().map(|line| (marked.text.len(), line)));
            rest = after;
        }
        marked.text.push_str(rest);
        marked
    }

    /// The branches taken up to a place in the text.
    fn until(&self, place: usize) -> impl DoubleEndedIterator<Item = &(usize, usize)> {
        self.marks.iter().filter(move |(at, _)| *at <= place)
    }
}

/// The line of the template at which two instrumented outputs diverge: the nearest branch that only one of them takes
/// before their texts differ, or else the last branch both took.
pub(super) fn line_of_difference(a: &str, b: &str) -> Option<usize> {
    let (a, b) = (Marked::read(a), Marked::read(b));
    let place = a.text.bytes().zip(b.text.bytes()).take_while(|(a, b)| a == b).count();
    let only = |one: &Marked, other: &Marked| {
        let others: HashSet<(usize, usize)> = other.until(place).copied().collect();
        one.until(place).filter(|mark| !others.contains(mark)).max_by_key(|(at, _)| *at).copied()
    };
    let branch = only(&a, &b).or_else(|| only(&b, &a)).or_else(|| a.until(place).next_back().copied());
    branch.map(|(_, line)| line)
}

fn transform(source: &str, marks: bool) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source.as_str();
    let mut line = 1;
    while let Some(at) = rest.find('{') {
        let tag = &rest[at..];
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map(|end| end + 2),
            Some(b'{') => code_end(tag, "}}"),
            Some(b'%') => code_end(tag, "%}"),
            _ => Some(1),
        };
        // The compiler reports an unclosed tag.
        let Some(end) = end else { break };
        out.push_str(&rest[..at]);
        line += count_lines(&rest[..at]);
        let (tag, after) = tag.split_at(end);
        rest = after;
        let unfolded = unfold(tag);
        let tag = unfolded.as_ref();
        if !tag.starts_with("{%") {
            out.push_str(tag);
            line += count_lines(tag);
            continue;
        }
        let block = Block::read(tag);
        block.write(&mut out);
        if marks && matches!(block.word, "if" | "elif" | "else" | "for") {
            let _ = write!(out, "{{{{ '{}{line}{}' }}}}", MARK.0, MARK.1);
        }
        line += count_lines(tag);
        if block.word == "raw" {
            let end = raw_end(rest);
            out.push_str(&rest[..end]);
            line += count_lines(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// The line of the first tag that is longer than `most` bytes.
pub(super) fn long_tag(source: &str, most: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = source[from..].find('{').map(|at| from + at) {
        let tag = &source[at..];
        let end = match tag.as_bytes().get(1) {
            Some(b'{') => code_end(tag, "}}").unwrap_or(tag.len()),
            Some(b'%') => code_end(tag, "%}").unwrap_or(tag.len()),
            _ => 1,
        };
        if end > most {
            return Some(1 + count_lines(&source[..at]));
        }
        from = at + end;
    }
    None
}

/// A tag without constant products.
fn unfold(tag: &str) -> Cow<'_, str> {
    if !tag.contains('*') || tag.starts_with("{#") {
        return Cow::Borrowed(tag);
    }
    let mut out = String::with_capacity(tag.len() + 16);
    let (mut quote, mut escaped, mut last) = (None, false, '(');
    let mut chars = tag.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '*') if chars.next_if_eq(&'*').is_some() => out.push('*'),
            // A star after a value multiplies it; elsewhere it spreads the value after it.
            (None, '*') if !matches!(last, '(' | '[' | '{' | ',') => {
                out.push_str(ONE);
                out.push('*');
            }
            _ => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    Cow::Owned(out)
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

/// End of a `{{ … }}` or `{% … %}`, closing delimiter included; delimiters inside string literals do not count.
fn code_end(tag: &str, close: &str) -> Option<usize> {
    let bytes = tag.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if tag.as_bytes()[at..].starts_with(close.as_bytes()) => return Some(at + 2),
            _ => {}
        }
        at += 1;
    }
    None
}

fn raw_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%") {
        let start = from + at;
        let word = text[start + 2..].trim_start_matches(['-', '+']).trim_start();
        if word.starts_with("endraw") {
            return start;
        }
        from = start + 2;
    }
    text.len()
}

/// A `{% … %}` tag split into the text before its keyword, the keyword, and the rest.
struct Block<'t> {
    head: &'t str,
    word: &'t str,
    body: &'t str,
    tail: &'t str,
}

impl<'t> Block<'t> {
    fn read(tag: &'t str) -> Self {
        let inner = &tag[2..tag.len() - 2];
        let start = inner.len() - inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start().len();
        let tail = inner[start..].strip_suffix(['-', '+']).map_or(inner.len(), |_| inner.len() - 1);
        let word =
            inner[start..tail].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(tail, |at| start + at);
        Self { head: &tag[..2 + start], word: &inner[start..word], body: &inner[word..tail], tail: &tag[2 + tail..] }
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.head);
        match self.word {
            "generation" => out.push_str("with"),
            "endgeneration" => out.push_str("endwith"),
            word => out.push_str(word),
        }
        match (self.word, for_iterable(self.body)) {
            ("for", Some((start, end))) => {
                let (target, iterable) = self.body[..end].split_at(start);
                let _ = write!(out, "{target} ({})|{ITERABLE_FILTER} {}", iterable.trim_end(), &self.body[end..]);
                // Line breaks trimmed from the iterable are put back, to keep the numbering.
                for _ in 0..count_lines(&iterable[iterable.trim_end().len()..]) {
                    out.push('\n');
                }
            }
            _ => out.push_str(self.body),
        }
        out.push_str(self.tail);
    }
}

/// The span of the iterable in the body of a `for` tag: from after `in` to `if`, `recursive` or the end.
fn for_iterable(body: &str) -> Option<(usize, usize)> {
    let mut start = None;
    for (at, word) in words(body) {
        match (word, start) {
            ("in", None) => start = Some(at + 2),
            ("if" | "recursive", Some(start)) => return Some((start, at)),
            _ => {}
        }
    }
    start.map(|start| (start, body.len()))
}

/// The words outside string literals and brackets, with their offsets.
fn words(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut quote, mut escaped, mut word) = (0_usize, None, false, None);
    for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
        let in_word = quote.is_none() && (c.is_alphanumeric() || c == '_');
        if let (Some(start), false) = (word, in_word) {
            if depth == 0 {
                found.push((start, &code[start..at]));
            }
            word = None;
        } else if in_word && word.is_none() {
            word = Some(at);
        }
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_for_loop_checks_what_it_iterates_over() {
        for (source, expected) in [
            ("{% for a in b %}", "{% for a in ( b)|hone_iterable %}"),
            ("{%- for k, v in x.items() if k in y -%}", "{%- for k, v in ( x.items())|hone_iterable if k in y -%}"),
            ("{% for a in ['in', \" if \"] %}", "{% for a in ( ['in', \" if \"])|hone_iterable %}"),
            ("{% for a in b(c if d else e) recursive %}", "{% for a in ( b(c if d else e))|hone_iterable recursive %}"),
        ] {
            assert_eq!(rewrite(source), expected);
        }
    }

    #[test]
    fn products_are_left_to_the_render() {
        for (source, expected) in [
            ("{{ 'a' * 3 }}", "{{ 'a' *hone_one* 3 }}"),
            ("{% set x = 2 ** 3 * y %}", "{% set x = 2 ** 3 *hone_one* y %}"),
            ("{{ f(*a, **b) }}{{ '*' }}{# a * b #} a * b", "{{ f(*a, **b) }}{{ '*' }}{# a * b #} a * b"),
        ] {
            assert_eq!(rewrite(source), expected);
        }
    }

    #[test]
    fn text_comments_raw_blocks_and_strings_are_left_alone() {
        for source in [
            "plain {for a in b} text",
            "{# {% for a in b %} #}",
            "{% raw %}{% for a in b %}{% generation %}{% endraw %}",
            "{{ '{% for a in b %}' }}",
            "{% if x == '%}' %}{% endif %}",
            "{% for a in",
            "{",
        ] {
            assert_eq!(rewrite(source), source);
        }
    }

    #[test]
    fn marks_name_the_line_of_a_branch() {
        let marked = instrument("a\n{% if x %}\nb");
        assert!(marked.contains("'\u{f8f0}2\u{f8f1}'"), "{marked}");
        let mark = |line| format!("{}{line}{}", MARK.0, MARK.1);
        // One output takes the branch of line 12 where the other continues.
        let (a, b) = (format!("{}ab{}cd", mark(3), mark(12)), format!("{}ab{}xy", mark(3), mark(3)));
        assert_eq!(line_of_difference(&a, &b), Some(12));
        assert_eq!(line_of_difference(&b, &a), Some(3));
    }
}
