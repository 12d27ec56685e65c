//! Tolerant JSON reader: the value of broken JSON, if it can mean only one thing.
//!
//! It runs after the strict scanner has failed, over text whose extent is known. Every repair is recorded as a
//! [`Repair`], so that a reward can see it. If two readings are possible (a quote too many, a string cut in its middle,
//! a bare word that may be anything) it gives up: a guessed argument is worse than none.

use serde_json::{Map, Value};

use super::{
    json::{Json, MAX_DEPTH},
    repair::{Repair, Repairs},
    wide::Wide,
    work::spend,
};

/// State of the end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A closing tag or an end token follows: the model said that it was done.
    Closed,
    /// The text just stops. Its last number may lack digits, and only closers may be supplied.
    Open,
}

/// Reason why there is no single reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoReading {
    /// The text stops inside a value, a key or a string.
    Cut,
    /// There are several readings, or none.
    Unclear,
}

pub(super) struct Fixed {
    pub value: Value,
    pub wide: Wide,
    pub repairs: Repairs,
    /// End of the value and its superfluous closers.
    pub end: usize,
}

/// Reads the one value at `pos`, up to the end of `text` at most.
pub(super) fn value(text: &str, pos: usize, end: End) -> Result<Fixed, NoReading> {
    let mut reader = Tolerant { json: Json::new(text, pos), text, end, open: Vec::new(), repairs: Repairs::default() };
    let value = reader.value()?;
    reader.extra_closers()?;
    if end == End::Open && reader.repairs != Repairs::of(Repair::MissingCloser) {
        return Err(NoReading::Unclear);
    }
    Ok(Fixed { value, wide: reader.json.wide, repairs: reader.repairs, end: reader.json.pos })
}

/// Reads every value of `text`, which must hold nothing else (but a code fence around them).
pub(super) fn values(text: &str, end: End) -> Result<Vec<Fixed>, NoReading> {
    let (inner, fenced) = strip_fence(text);
    if fenced && end == End::Open {
        return Err(NoReading::Unclear);
    }
    let mut found = Vec::new();
    let mut pos = 0;
    loop {
        let rest = inner[pos..].trim_start_matches(|ch: char| ch.is_ascii_whitespace() || ch == ',' || ch == ';');
        if rest.is_empty() {
            break;
        }
        if !found.is_empty() && !rest.starts_with(['{', '[']) {
            return Err(NoReading::Unclear);
        }
        let mut fixed = value(inner, inner.len() - rest.len(), end)?;
        pos = fixed.end;
        if fenced {
            fixed.repairs.add(Repair::CodeFence);
        }
        if !found.is_empty() {
            fixed.repairs.add(Repair::SeveralCalls);
        }
        found.push(fixed);
    }
    if found.is_empty() { Err(NoReading::Cut) } else { Ok(found) }
}

/// The inside of a code fence that spans the whole text.
fn strip_fence(text: &str) -> (&str, bool) {
    let trimmed = text.trim();
    let Some(inner) = trimmed.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return (text, false);
    };
    (inner.trim_start_matches(|ch: char| ch.is_ascii_alphanumeric() || ch == '_'), true)
}

struct Tolerant<'a> {
    json: Json<'a>,
    text: &'a str,
    end: End,
    /// The brackets that are open, as their closers.
    open: Vec<u8>,
    repairs: Repairs,
}

impl Tolerant<'_> {
    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.json.pos..]
    }

    /// Skips whitespace and comments.
    fn blank(&mut self) -> Result<(), NoReading> {
        loop {
            self.json.whitespace();
            let rest = self.rest();
            let skip = if rest.starts_with(b"//") || rest.starts_with(b"#") {
                memchr::memchr(b'\n', rest).unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                memchr::memmem::find(rest, b"*/").ok_or(NoReading::Cut)? + 2
            } else {
                return Ok(());
            };
            self.json.pos += skip;
            self.repairs.add(Repair::Comment);
        }
    }

    fn next(&mut self) -> Result<Option<u8>, NoReading> {
        self.blank()?;
        Ok(self.json.peek())
    }

    fn value(&mut self) -> Result<Value, NoReading> {
        spend(1);
        match self.next()?.ok_or(NoReading::Cut)? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'-' | b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => self.string().map(Value::String),
        }
    }

    fn number(&mut self) -> Result<Value, NoReading> {
        let number = self.json.number().map_err(|error| if error.eof { NoReading::Cut } else { NoReading::Unclear })?;
        match self.json.peek() {
            None if self.end == End::Open => Err(NoReading::Cut),
            Some(b'.' | b'_' | b'a'..=b'z' | b'A'..=b'Z') => Err(NoReading::Unclear),
            _ => Ok(Value::Number(number)),
        }
    }

    fn word(&mut self) -> Result<Value, NoReading> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let value = match &rest[..length] {
            b"true" | b"True" => Value::Bool(true),
            b"false" | b"False" => Value::Bool(false),
            b"null" | b"None" => Value::Null,
            _ if length == rest.len() => return Err(NoReading::Cut),
            _ => return Err(NoReading::Unclear),
        };
        if rest[0].is_ascii_uppercase() {
            self.repairs.add(Repair::PythonLiteral);
        }
        self.json.pos += length;
        Ok(value)
    }

    fn enter(&mut self, closer: u8) -> Result<(), NoReading> {
        self.json.pos += 1;
        self.open.push(closer);
        if self.open.len() > MAX_DEPTH { Err(NoReading::Unclear) } else { Ok(()) }
    }

    fn array(&mut self) -> Result<Value, NoReading> {
        self.enter(b']')?;
        let mut items = Vec::new();
        let mut first = true;
        while !self.close(b']', first)? {
            items.push(self.value()?);
            first = false;
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value, NoReading> {
        self.enter(b'}')?;
        let mut map = Map::new();
        while !self.close(b'}', map.is_empty())? {
            let key = self.key()?;
            if self.next()?.ok_or(NoReading::Cut)? != b':' {
                return Err(NoReading::Unclear);
            }
            self.json.pos += 1;
            let value = self.value()?;
            if map.insert(key, value).is_some() {
                return Err(NoReading::Unclear);
            }
        }
        Ok(Value::Object(map))
    }

    /// Before or after an item: consumes the comma or the closer, or does without the closer at the end of the text or
    /// of the enclosing bracket. True if the container is closed.
    fn close(&mut self, closer: u8, empty: bool) -> Result<bool, NoReading> {
        let mut next = self.next()?;
        let mut comma = false;
        if !empty && next == Some(b',') {
            comma = true;
            self.json.pos += 1;
            next = self.next()?;
        }
        match next {
            Some(byte) if byte == closer => {
                self.json.pos += 1;
                if comma {
                    self.repairs.add(Repair::TrailingComma);
                }
            }
            Some(b'}' | b']') if comma || empty => return Err(NoReading::Unclear),
            Some(byte @ (b'}' | b']')) if self.open[..self.open.len() - 1].contains(&byte) => {
                self.repairs.add(Repair::MissingCloser);
            }
            Some(b'}' | b']') => return Err(NoReading::Unclear),
            Some(_) if comma || empty => return Ok(false),
            Some(_) => return Err(NoReading::Unclear),
            None if comma || empty => return Err(NoReading::Cut),
            None => self.repairs.add(Repair::MissingCloser),
        }
        self.open.pop();
        Ok(true)
    }

    /// Closers after the value. Together with missing ones they only show that some are in the wrong place.
    fn extra_closers(&mut self) -> Result<(), NoReading> {
        loop {
            let before = self.json.pos;
            match self.next()? {
                Some(b'}' | b']') if self.repairs.contains(Repair::MissingCloser) => return Err(NoReading::Unclear),
                Some(b'}' | b']') => {
                    self.json.pos += 1;
                    self.repairs.add(Repair::ExtraCloser);
                }
                _ => {
                    self.json.pos = before;
                    return Ok(());
                }
            }
        }
    }

    fn key(&mut self) -> Result<String, NoReading> {
        match self.json.peek() {
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                let rest = self.rest();
                let length =
                    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
                let start = self.json.pos;
                self.json.pos += length;
                self.repairs.add(Repair::UnquotedKey);
                Ok(self.text[start..start + length].to_owned())
            }
            _ => self.string(),
        }
    }

    fn string(&mut self) -> Result<String, NoReading> {
        let rest = &self.text[self.json.pos..];
        let open = rest.chars().next().ok_or(NoReading::Cut)?;
        let close = match open {
            '"' => '"',
            '\'' => {
                self.repairs.add(Repair::SingleQuotes);
                '\''
            }
            '\u{201c}' | '\u{201d}' => {
                self.repairs.add(Repair::SmartQuotes);
                '\u{201d}'
            }
            '\u{2018}' | '\u{2019}' => {
                self.repairs.add(Repair::SmartQuotes);
                '\u{2019}'
            }
            _ => return Err(NoReading::Unclear),
        };
        self.json.pos += open.len_utf8();
        let start = self.json.pos;
        let body = self.string_body(close);
        spend(self.json.pos - start);
        body
    }

    fn string_body(&mut self, close: char) -> Result<String, NoReading> {
        let mut text = String::new();
        // A backslash that escapes nothing is taken as meant (`\d`), unless the same string also has escapes that would
        // then be doubtful: in `C:\new\data`, `\n` is not a line break.
        let (mut stray, mut doubtful) = (false, false);
        loop {
            let ch = self.text[self.json.pos..].chars().next().ok_or(NoReading::Cut)?;
            if ch == close {
                self.json.pos += ch.len_utf8();
                break;
            }
            if ch == '\\' {
                let next = self.text[self.json.pos + 1..].chars().next().ok_or(NoReading::Cut)?;
                match next {
                    '\'' => {
                        text.push(next);
                        self.json.pos += 2;
                        if close != '\'' {
                            self.repairs.add(Repair::InvalidEscape);
                        }
                    }
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u' => {
                        doubtful |= next.is_ascii_alphabetic();
                        let eof =
                            |error: super::json::JsonError| if error.eof { NoReading::Cut } else { NoReading::Unclear };
                        text.push(self.json.escape().map_err(eof)?);
                    }
                    'x' | 'U' | '0'..='9' | '\n' | '\r' => return Err(NoReading::Unclear),
                    _ => {
                        stray = true;
                        text.push('\\');
                        self.json.pos += 1;
                    }
                }
                continue;
            }
            match ch {
                '\n' | '\r' => self.repairs.add(Repair::RawNewline),
                '\0'..' ' => self.repairs.add(Repair::RawControl),
                _ => {}
            }
            text.push(ch);
            self.json.pos += ch.len_utf8();
        }
        if stray {
            if doubtful {
                return Err(NoReading::Unclear);
            }
            self.repairs.add(Repair::InvalidEscape);
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "json!() literals read better by value")]
    fn fixes(text: &str, expected: Value, repairs: &[Repair]) {
        let fixed = values(text, End::Closed).unwrap_or_else(|why| panic!("{text}: {why:?}"));
        assert_eq!(fixed.len(), 1, "{text}");
        assert_eq!(fixed[0].value, expected, "{text}");
        assert_eq!(fixed[0].repairs.iter().collect::<Vec<_>>(), repairs, "{text}");
    }

    #[test]
    fn one_reading() {
        use Repair::*;
        fixes(r#"{"a": 1,}"#, json!({"a": 1}), &[TrailingComma]);
        fixes(r#"["x", ]"#, json!(["x"]), &[TrailingComma]);
        fixes("{\"a\": \"x\ny\"}", json!({"a": "x\ny"}), &[RawNewline]);
        fixes("{\"a\": \"x\ty\"}", json!({"a": "x\ty"}), &[RawControl]);
        fixes(r#"{"a": {"b": "c"}"#, json!({"a": {"b": "c"}}), &[MissingCloser]);
        fixes(r#"{"a": ["b", "c"}"#, json!({"a": ["b", "c"]}), &[MissingCloser]);
        fixes(r#"{"a": 3"#, json!({"a": 3}), &[MissingCloser]);
        fixes(r#"{"a": "b"}}"#, json!({"a": "b"}), &[ExtraCloser]);
        fixes(r#"{"a": "b"}]} "#, json!({"a": "b"}), &[ExtraCloser]);
        fixes("{'a': 'say \"b\"'}", json!({"a": "say \"b\""}), &[SingleQuotes]);
        fixes(r"{'a': 'it\'s'}", json!({"a": "it's"}), &[SingleQuotes]);
        fixes("{“a”: “b”}", json!({"a": "b"}), &[SmartQuotes]);
        fixes(r#"{"a": True, "b": None, "c": False}"#, json!({"a": true, "b": null, "c": false}), &[PythonLiteral]);
        fixes("{\"a\": 1, // one\n \"b\": /* two */ 2}", json!({"a": 1, "b": 2}), &[Comment]);
        fixes("{\"a\": 1 # one\n}", json!({"a": 1}), &[Comment]);
        fixes(r#"{a: 1, b-c: "d"}"#, json!({"a": 1, "b-c": "d"}), &[UnquotedKey]);
        fixes(r#"{"re": "\d+\.\w"}"#, json!({"re": r"\d+\.\w"}), &[InvalidEscape]);
        fixes(r#"{"a": "it\'s"}"#, json!({"a": "it's"}), &[InvalidEscape]);
        fixes("```json\n{\"a\": 1}\n```", json!({"a": 1}), &[CodeFence]);
        fixes("{'a': True,}", json!({"a": true}), &[TrailingComma, SingleQuotes, PythonLiteral]);
    }

    #[test]
    fn several_or_no_readings() {
        for text in [
            "{'query': 'it''s'}",
            "{'query': 'it's'}",
            r#"{"query": "say "hi" now"}"#,
            r#"{"city": "Paris, "unit": "celsius"}"#,
            r#"{"a": "b" "c"}"#,
            r#"{"a": b}"#,
            r#"{"a": 1 "b": 2}"#,
            r#"{"a": 1,, "b": 2}"#,
            r#"{,"a": 1}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"path": "C:\new\data"}"#,
            r#"{"a": "\x41"}"#,
            r#"{"a": [1}, 2]"#,
            r#"{"a": undefined}"#,
            r#"{"a": 1.5.2}"#,
            r#"{"a": "b"} and so on"#,
            "{\"a\": \"b\\\nc\"}",
        ] {
            assert_eq!(values(text, End::Closed).err(), Some(NoReading::Unclear), "{text}");
        }
        for text in
            ["", "{", r#"{"a"#, r#"{"a":"#, r#"{"a": "b"#, r#"{"a": "b","#, "{\"a\": tr", "{\"a\": \"\\", "{ /* x"]
        {
            assert_eq!(values(text, End::Closed).err(), Some(NoReading::Cut), "{text}");
        }
    }

    #[test]
    fn an_open_end_allows_closers_only() {
        let closed = |text| values(text, End::Open).map(|mut fixed| fixed.remove(0).value);
        assert_eq!(closed(r#"{"a": {"b": "c""#), Ok(json!({"a": {"b": "c"}})));
        assert_eq!(closed(r#"{"a": [true"#), Ok(json!({"a": [true]})));
        assert_eq!(closed(r#"{"a": 3"#), Err(NoReading::Cut));
        assert_eq!(closed(r#"{"a": {}"#), Ok(json!({"a": {}})));
        assert_eq!(closed("{'a': 'b'"), Err(NoReading::Unclear));
        assert_eq!(closed(r#"{"a": {"b": 1,}"#), Err(NoReading::Unclear));
    }

    #[test]
    fn two_values_are_two_calls() {
        let fixed = values("{\"a\": 1}\n{\"b\": 2}", End::Closed).unwrap();
        assert_eq!(
            fixed.iter().map(|fixed| fixed.value.clone()).collect::<Vec<_>>(),
            [json!({"a": 1}), json!({"b": 2})]
        );
        assert!(fixed[1].repairs.contains(Repair::SeveralCalls));
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(values(&"[".repeat(100_000), End::Closed).err(), Some(NoReading::Unclear));
    }
}
