//! Sanitiser for foreign text: everything an environment, a model or a file said passes through here before it reaches
//! a terminal.

/// Escapes control characters (escape sequences, C0 and C1), direction controls and invisible format characters
/// visibly; newlines and tabs are kept.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            // U+0080 to U+009F are controls too: CSI and OSC in one character.
            c if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Like [`clean`], but on one line: newlines and tabs are escaped too.
pub fn clean_line(text: &str) -> String {
    clean(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// JSON in which the same characters are written as `\u` escapes; the value is unchanged.
pub fn clean_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\n' | '\t') || !(character.is_control() || is_invisible(character)) {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// A value to print with so many decimals: what would round to `-0.000` is 0.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    if value.abs() < 0.5 * 10f64.powi(-decimals) { 0.0 } else { value }
}

/// A difference with its sign, to three decimals.
pub fn signed(value: f64) -> String {
    format!("{:+.3}", rounded(value, 3))
}

/// Direction controls can make a line read as something else; the others hide text or split a word in two.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_zero_is_negative() {
        let shown: Vec<String> = [-0.0, -0.0004, -0.0006, 0.25].map(signed).to_vec();
        assert_eq!(shown, ["+0.000", "+0.000", "-0.001", "+0.250"]);
        assert_eq!(format!("{:.3}", rounded(-0.0, 3)), "0.000");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let hostile = "a\x1b]52;c;aGk=\x07b\u{9b}2Jc\u{202e}d\u{2066}e\x08f\rg\u{7f}h\u{200f}i";
        let shown = clean(hostile);
        assert!(shown.chars().all(|c| !c.is_control() && !is_invisible(c)), "{shown:?}");
        assert!(shown.contains("\\u{1b}]52") && shown.contains("\\u{9b}2J") && shown.contains("\\u{202e}"), "{shown}");
        assert_eq!(clean("Grüße, 世界 👩‍👩‍👧\n\tok"), "Grüße, 世界 👩‍👩‍👧\n\tok");
        assert_eq!(clean_line("a\nb\tc"), "a\\nb\\tc");
        let value = serde_json::json!({"a": format!("{hostile}\u{e0041}")});
        let json = clean_json(&value.to_string());
        assert!(json.chars().all(|c| !c.is_control() && !is_invisible(c)), "{json:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }
}
