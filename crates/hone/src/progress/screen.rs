//! A block of lines at the end of the terminal's output, erased and written again.
//!
//! Lines never wrap, so the block has as many rows as lines, until the terminal gets narrower: most terminals then wrap
//! earlier output. The rows to move up are counted for the current width. A terminal that cuts lines instead loses a
//! few lines above the block; none shows a torn one.

use super::style::{clip, columns_of};

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Size {
    /// Columns a line may use: a line that ends in the last one leaves the cursor on it, and clearing the rest of the line
    /// would clear that.
    pub(super) fn room(self) -> usize {
        self.columns.saturating_sub(1)
    }
}

/// The size of the terminal on stderr; 80 by 24 if unknown.
pub(super) fn size() -> Size {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, height)) if width.0 > 0 && height.0 > 0 => Size { columns: width.0.into(), rows: height.0.into() },
        _ => Size { columns: 80, rows: 24 },
    }
}

/// The last drawing: the columns each line takes.
#[derive(Debug, Default)]
pub(super) struct Screen {
    drawn: Vec<usize>,
}

impl Screen {
    /// The text that replaces the block by these lines, as many as the terminal has room for.
    ///
    /// Overwrites line by line: clearing the screen first would flicker, and some terminals keep what is cleared in
    /// their history.
    pub(super) fn redraw(&mut self, lines: &[String], size: Size) -> String {
        let old = self.rows(size);
        let mut text = up(old);
        // Wrapping is off while the block is written: a character that is wider than it looks to us is cut, not wrapped.
        text.push_str("\x1b[?7l");
        for line in lines.iter().take(size.rows.saturating_sub(1)) {
            let line = clip(line, size.room());
            self.drawn.push(columns_of(&line));
            text.push_str(&line);
            text.push_str(CLEAR_REST);
        }
        text.push_str("\x1b[?7h");
        let left = old.saturating_sub(self.drawn.len());
        text + &CLEAR_REST.repeat(left) + &up(left)
    }

    /// The text that erases the block and leaves the cursor where it began.
    pub(super) fn erase(&mut self, size: Size) -> String {
        let rows = self.rows(size);
        up(rows) + &CLEAR_REST.repeat(rows) + &up(rows)
    }

    /// Rows the block takes up at this width. Resets the block.
    fn rows(&mut self, size: Size) -> usize {
        self.drawn.drain(..).map(|columns| columns.div_ceil(size.columns).max(1)).sum()
    }
}

/// Clears the rest of the line and moves to the next.
const CLEAR_REST: &str = "\x1b[K\n";

fn up(rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A") }
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
        assert_eq!(screen.redraw(&lines(&["one", "two"]), WIDE), "\x1b[?7lone\x1b[K\ntwo\x1b[K\n\x1b[?7h");
        let text = screen.redraw(&lines(&["three"]), WIDE);
        assert_eq!(text, "\r\x1b[2A\x1b[?7lthree\x1b[K\n\x1b[?7h\x1b[K\n\r\x1b[1A", "the second line is cleared");
        assert_eq!(screen.erase(WIDE), "\r\x1b[1A\x1b[K\n\r\x1b[1A");
        assert_eq!(screen.erase(WIDE), "", "nothing is left to erase");
    }

    #[test]
    fn lines_are_cut_to_the_terminal_in_both_directions() {
        let mut screen = Screen::default();
        let text = screen.redraw(&lines(&["0123456789"; 9]), Size { columns: 5, rows: 3 });
        assert_eq!(text, "\x1b[?7l0123\x1b[K\n0123\x1b[K\n\x1b[?7h");
    }

    #[test]
    fn after_a_resize_wrapped_rows_are_counted() {
        let mut screen = Screen::default();
        screen.redraw(&lines(&["0123456789", "01", ""]), WIDE);
        // At 4 columns the ten characters are three rows, the other two one each.
        assert!(screen.erase(Size { columns: 4, rows: 10 }).starts_with("\r\x1b[5A"));
    }
}
