//! A run in the terminal: its steps, a step's groups, a group side by side, a conversation, a table of tokens.

mod conversation;
mod found;
mod group;
mod part;
mod steps;
mod tokens;

pub use conversation::conversation;
pub use found::found;
pub use group::group;
pub use part::part;
pub use steps::steps;
pub use tokens::tokens;

/// Print settings: colour, and width.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub colour: bool,
    pub columns: usize,
}

impl Page {
    fn ink(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.ink("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.ink("2", text)
    }

    /// Green above zero, red below.
    fn sign(self, value: Option<f64>, text: &str) -> String {
        match value {
            Some(value) if value > 0.0 => self.ink("32", text),
            Some(value) if value < 0.0 => self.ink("31", text),
            _ => text.to_owned(),
        }
    }
}

/// Sanitised text that cannot move the cursor or change direction: control characters and direction marks as escapes.
/// Newlines and tabs stay.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            c if c.is_control() || is_direction(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Marks that change the direction of what follows them.
pub(crate) fn is_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One line of at most `columns` characters.
fn line(text: &str, columns: usize) -> String {
    let flat: String =
        clean(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).take(columns + 1).collect();
    if flat.chars().count() <= columns {
        return flat;
    }
    flat.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

fn padded(text: &str, columns: usize) -> String {
    let text = line(text, columns);
    let missing = columns.saturating_sub(text.chars().count());
    text + &" ".repeat(missing)
}

/// Values as dots on a scale of `columns` characters from `low` to `high`; 2 to 9 and + where several coincide.
fn dots(values: &[f64], [low, high]: [f64; 2], columns: usize) -> String {
    let mut counts = vec![0_usize; columns.max(1)];
    for value in values {
        let place = if high > low { (value - low) / (high - low) * (columns - 1) as f64 } else { 0.0 };
        counts[(place.round().max(0.0) as usize).min(columns - 1)] += 1;
    }
    let glyph = |count: &usize| match count {
        0 => '·',
        1 => '●',
        2..=9 => char::from_digit(*count as u32, 10).unwrap_or('+'),
        _ => '+',
    };
    counts.iter().map(glyph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_inert() {
        let hostile = "a\x1b[2J\u{202e}evil\u{2066}\r\nb\u{7}";
        let shown = clean(hostile);
        assert_eq!(shown, "a\\u{1b}[2J\\u{202e}evil\\u{2066}\\u{d}\nb\\u{7}");
        assert_eq!(line(&"x".repeat(1 << 20), 5), "xxxx…");
    }

    #[test]
    fn dots_lie_where_their_values_are() {
        assert_eq!(dots(&[0.0, 1.0, 1.0, 0.5], [0.0, 1.0], 5), "●·●·2");
        assert_eq!(dots(&[3.0; 12], [3.0, 3.0], 3), "+··");
        assert_eq!(dots(&[], [0.0, 1.0], 2), "··");
    }
}
