//! Weights & Biases: a run's history as JSON lines (`run.scan_history()`) or CSV (exported from a chart or a data frame).
//!
//! Curves alone: no episode, so that only checks of curves can be made.

use super::Reader;
use crate::ForeignError;
use crate::record::Record;
use crate::source::{Source, lines, text};

pub(super) const READER: Reader = Reader {
    what: "a W&B history (JSON lines or CSV with a _step, step or global_step column)",
    recognises: |source| {
        STEPS.iter().any(|step| source.has_line_with(&[*step]))
            || source.ending("csv").any(|path| {
                text(path).is_ok_and(|text| text.lines().next().is_some_and(|head| column(&cells(head)).is_some()))
            })
    },
    read,
};

/// Names of the step, best first.
const STEPS: [&str; 4] = ["train/global_step", "global_step", "_step", "step"];

fn column(head: &[String]) -> Option<usize> {
    STEPS.iter().find_map(|step| head.iter().position(|name| name.eq_ignore_ascii_case(step)))
}

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "wandb history", ..Record::default() };
    for path in source.json_lines() {
        for (_, row) in lines(path, &mut record.notes)? {
            let Some(step) = STEPS.iter().find_map(|step| row.get(step)?.as_f64()) else { continue };
            for (name, value) in row.as_object().into_iter().flatten() {
                if let Some(value) = value.as_f64().or_else(|| value.as_str()?.parse().ok()) {
                    record.point(step as u64, name, value);
                }
            }
        }
    }
    for path in source.ending("csv") {
        let text = text(path)?;
        let mut rows = text.lines().map(cells);
        let Some(head) = rows.next() else { continue };
        let Some(step) = column(&head) else { continue };
        for row in rows {
            let Some(at) = row.get(step).and_then(|cell| cell.parse::<f64>().ok()) else { continue };
            for (name, cell) in head.iter().zip(&row) {
                if let Ok(value) = cell.parse() {
                    // A chart's export calls its columns "run name - metric".
                    record.point(at as u64, name.rsplit(" - ").next().unwrap_or(name), value);
                }
            }
        }
    }
    record.settle();
    Ok(record)
}

/// The cells of a CSV line. Quoted cells may hold commas and doubled quotes.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells() {
        assert_eq!(cells("a,\"b, \"\"c\"\"\",,d"), ["a", "b, \"c\"", "", "d"]);
    }
}
