//! A block of lines at the end of the terminal's output, erased and written again.
//!
//! Lines never wrap, so that the block is as many rows as it has lines, until the terminal gets narrower: most then wrap what
//! was written before. The rows to go up by are counted for the width there is now. A terminal that cuts lines instead loses
//! a few lines above the block; none shows a torn one.

use super::style::{clip, columns_of};

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// The size of the terminal on stderr; 80 by 24 where it does not say.
pub(super) fn size() -> Size {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, height)) if width.0 > 0 && height.0 > 0 => Size { columns: width.0.into(), rows: height.0.into() },
        _ => Size { columns: 80, rows: 24 },
    }
}

/// What was drawn last: the columns each line takes.
#[derive(Debug, Default)]
pub(super) struct Screen {
    drawn: Vec<usize>,
}

impl Screen {
    /// The text that replaces the block by these lines, as many as the terminal has room for.
    pub(super) fn redraw(&mut self, lines: &[String], size: Size) -> String {
        let mut text = self.erase(size);
        // Wrapping is off while the block is written: a character that is wider than it looks to us is cut, not wrapped.
        text.push_str("\x1b[?7l");
        for line in lines.iter().take(size.rows.saturating_sub(1)) {
            let line = clip(line, size.columns);
            self.drawn.push(columns_of(&line));
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str("\x1b[?7h");
        text
    }

    /// The text that takes the block away and leaves the cursor where it began.
    pub(super) fn erase(&mut self, size: Size) -> String {
        let rows: usize = self.drawn.drain(..).map(|columns| columns.div_ceil(size.columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Size = Size { columns: 20, rows: 10 };

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_redraw_goes_up_by_the_rows_that_were_drawn() {
        let mut screen = Screen::default();
        assert_eq!(screen.redraw(&lines(&["one", "two"]), WIDE), "\x1b[?7lone\ntwo\n\x1b[?7h");
        assert_eq!(screen.redraw(&lines(&["three"]), WIDE), "\r\x1b[2A\x1b[J\x1b[?7lthree\n\x1b[?7h");
        assert_eq!(screen.erase(WIDE), "\r\x1b[1A\x1b[J");
        assert_eq!(screen.erase(WIDE), "", "nothing is left to erase");
    }

    #[test]
    fn lines_are_cut_to_the_terminal_in_both_directions() {
        let mut screen = Screen::default();
        let text = screen.redraw(&lines(&["0123456789"; 9]), Size { columns: 4, rows: 3 });
        assert_eq!(text, "\x1b[?7l0123\n0123\n\x1b[?7h");
    }

    #[test]
    fn after_a_resize_wrapped_rows_are_counted() {
        let mut screen = Screen::default();
        screen.redraw(&lines(&["0123456789", "01", ""]), WIDE);
        // At 4 columns the ten characters are three rows, the other two one each.
        assert!(screen.erase(Size { columns: 4, rows: 10 }).starts_with("\r\x1b[5A"));
    }
}
