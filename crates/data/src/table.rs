//! Tables as text and as Markdown.

use hone_trace::clean_line;

/// A table: names of the columns, then rows. The first column is text, the others are right-aligned numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Cells may contain names from task files: control characters are made visible.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| clean_line(&cell.into())).collect());
    }

    pub fn head(&self) -> &[String] {
        &self.head
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns aligned by spaces.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let width =
            |at: usize| lines().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for row in lines() {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
                if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let rule = (0..self.head.len()).map(|at| if at == 0 { "---" } else { "---:" }).collect::<Vec<_>>().join("|");
        let mut text = line(&self.head) + &format!("|{rule}|\n");
        text.extend(self.rows.iter().map(|row| line(row)));
        text
    }
}

/// A count with thousands separated: `1,827`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in per cent; `–` if there is nothing to divide by.
pub fn percent(part: u64, of: u64) -> String {
    if of == 0 { "–".into() } else { format!("{:.0} %", 100.0 * part as f64 / of as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_to_the_right() {
        let mut table = Table::new(["environment", "total"]);
        table.row(["a|b".to_owned(), count(1_234_567)]);
        table.row(["c".to_owned(), count(12)]);
        assert_eq!(table.text(), "environment      total\na|b          1,234,567\nc                   12\n");
        assert_eq!(table.markdown(), "| environment | total |\n|---|---:|\n| a\\|b | 1,234,567 |\n| c | 12 |\n");
        let mut hostile = Table::new(["environment"]);
        hostile.row(["\u{1b}]0;title\u{7}e\nf\u{202e}"]);
        assert!(!hostile.text().contains(['\u{1b}', '\u{7}', '\u{202e}']) && hostile.text().lines().count() == 2);
        assert_eq!((percent(19, 20), percent(0, 0)), ("95 %".into(), "–".into()));
    }
}
