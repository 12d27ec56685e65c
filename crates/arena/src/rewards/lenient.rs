//! JSON as policies write it: strict first, then with the two defects that have only one reading.
//!
//! Most broken replies contain raw control characters inside strings or trailing commas, and repairing these cannot
//! change the meaning. Nothing else is repaired here: guessing belongs in the parser, not in a reward.

use std::fmt::Write as _;

use serde_json::Value;

/// Parsed JSON, and whether it had to be repaired.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reading {
    Strict(Value),
    Lenient(Value),
    Unreadable(String),
}

pub(super) fn read(text: &str) -> Reading {
    match serde_json::from_str(text) {
        Ok(value) => Reading::Strict(value),
        Err(error) => match serde_json::from_str(&mended(text)) {
            Ok(value) => Reading::Lenient(value),
            Err(_) => Reading::Unreadable(error.to_string()),
        },
    }
}

fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        if in_string {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                c if c < ' ' => {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                    continue;
                }
                _ => {}
            }
            out.push(c);
            continue;
        }
        in_string = c == '"';
        let trailing = c == ','
            && text[at + 1..].trim_start().starts_with(['}', ']'])
            && !out.trim_end().ends_with(['[', '{', ',']);
        if !trailing {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mends_two_defects_and_no_more() {
        assert_eq!(read(r#"{"a": [1, 2]}"#), Reading::Strict(json!({"a": [1, 2]})));
        assert_eq!(read("{\"a\": \"x\ny\", \"b\": [1,],}"), Reading::Lenient(json!({"a": "x\ny", "b": [1]})));
        assert_eq!(read("{\"a\": \"q,}\\\" ,]\n\"}"), Reading::Lenient(json!({"a": "q,}\" ,]\n"})));
        assert!(matches!(read("{a: 1}"), Reading::Unreadable(_)));
        assert!(matches!(read("[,]"), Reading::Unreadable(_)));
        assert!(matches!(read("[1,,]"), Reading::Unreadable(_)));
        assert!(matches!(read(&"[".repeat(1 << 20)), Reading::Unreadable(_)));
    }
}
