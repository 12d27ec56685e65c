//! Colour, or none.

use anstream::{AutoStream, ColorChoice};

/// Style of terminal output: escapes for colour, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: bool,
}

impl Style {
    /// By `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, and whether stderr is a terminal.
    pub(crate) fn for_stderr() -> Self {
        Self { colour: AutoStream::choice(&std::io::stderr()) != ColorChoice::Never }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The first `columns` characters, colour escapes not counted, and closed if the cut left one open.
pub(super) fn clip(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut seen, mut escape, mut open) = (0, false, false);
    for character in text.chars() {
        if escape {
            out.push(character);
            escape = !character.is_ascii_alphabetic();
            continue;
        }
        if character == '\x1b' {
            (escape, open) = (true, true);
            out.push(character);
        } else if seen < columns {
            seen += 1;
            out.push(character);
        } else {
            break;
        }
    }
    if open && seen == columns {
        out.push_str("\x1b[0m");
    }
    out
}

/// Characters on the screen.
pub(super) fn columns_of(text: &str) -> usize {
    let mut escape = false;
    let visible = text.chars().filter(|&character| {
        let counted = !escape && character != '\x1b';
        escape = if escape { !character.is_ascii_alphabetic() } else { character == '\x1b' };
        counted
    });
    visible.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_counts_what_is_seen_and_closes_its_colours() {
        let style = Style { colour: true };
        let text = format!("ab{}ef", style.red("cd"));
        assert_eq!((columns_of(&text), columns_of("▁▂")), (6, 2));
        assert_eq!(clip(&text, 3), "ab\x1b[31mc\x1b[0m");
        assert_eq!(columns_of(&clip(&text, 5)), 5);
        assert_eq!(clip(&text, 99), text);
        assert_eq!(clip("plain", 2), "pl");
        assert_eq!(Style { colour: false }.red("x"), "x");
    }
}
