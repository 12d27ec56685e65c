//! Location of the rollouts in a run that contain some words.

use std::fmt::Write as _;

use super::{Page, line, padded};
use crate::run::{Filter, Group, Run, ViewError};

/// Groups that are named in a line.
const NAMED: usize = 6;

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
        let count: usize = groups.iter().map(|group| group.rollouts.len()).sum();
        let named: Vec<String> = groups.iter().take(NAMED).map(named).collect();
        let more = groups.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more groups") } else { String::new() };
        let part = padded(&part.to_string(), 24);
        let _ = writeln!(out, "  {part} {count:>6}  {}", page.dim(&format!("{}{more}", named.join("; "))));
    }
    Ok(out)
}

/// A group with its rollouts, as `hone show` takes their numbers.
fn named(group: &Group) -> String {
    let rollouts: Vec<String> = group.rollouts.iter().map(|rollout| rollout.rollout().to_string()).collect();
    format!("group {}: {}", group.group, rollouts.join(" "))
}
