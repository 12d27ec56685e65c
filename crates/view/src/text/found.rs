//! Where in a run rollouts are that have some words.

use std::fmt::Write as _;

use super::{Page, line, padded};
use crate::run::{Filter, Run, ViewError};

/// Rollouts that are named in a line.
const NAMED: usize = 8;

/// One line per step or evaluation that has some.
pub fn found(run: &Run, filter: &Filter, page: Page) -> Result<String, ViewError> {
    let (found, notes) = run.found(filter)?;
    let mut out = String::new();
    for note in &notes {
        let _ = writeln!(out, "{}", page.ink("33", &format!("note: {}", line(note, 400))));
    }
    let count: usize = found.iter().flat_map(|(_, groups)| groups).map(|group| group.rollouts.len()).sum();
    let _ = writeln!(out, "{}  {count} rollouts that match", page.bold(&line(&run.name, 60)));
    for (part, groups) in &found {
        let rollouts: Vec<_> =
            groups.iter().flat_map(|group| group.rollouts.iter().map(move |one| (group, one))).collect();
        let named: Vec<String> = rollouts
            .iter()
            .take(NAMED)
            .map(|(group, rollout)| format!("group {} rollout {}", group.group, rollout.rollout()))
            .collect();
        let more = rollouts.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let part = padded(&part.to_string(), 24);
        let _ = writeln!(out, "  {part} {:>6}  {}", rollouts.len(), page.dim(&format!("{}{more}", named.join(", "))));
    }
    Ok(out)
}
