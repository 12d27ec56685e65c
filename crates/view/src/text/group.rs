//! The rollouts of one task side by side, the same call in the same row.

use std::fmt::Write as _;

use super::{Page, line, padded};
use crate::align::align;
use crate::number::cell;
use crate::run::{Filter, Full, Group, Part, Run, ViewError, Worth};

/// The matching rollouts of a group, by their number in the group.
pub fn group(run: &Run, part: &Part, number: usize, filter: &Filter, page: Page) -> Result<String, ViewError> {
    let (group, _) = run.group(part, number)?;
    let wanted: Vec<u64> = if filter.is_empty() {
        group.rollouts.iter().map(|rollout| rollout.trace).collect()
    } else {
        let (found, _) = run.groups(part, filter)?;
        let same = found.iter().filter(|found| found.group == number).flat_map(|found| &found.rollouts);
        same.map(|rollout| rollout.trace).collect()
    };
    let chosen = group.rollouts.iter().filter(|rollout| wanted.contains(&rollout.trace));
    let rollouts = chosen.map(|rollout| run.trace(rollout.trace)).collect::<Result<Vec<_>, _>>()?;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}  {}/{}  {} rollouts{}",
        page.bold(&format!("{} {part}, group {number}", line(&run.name, 60))),
        line(&group.env, 40),
        line(&group.task, 80),
        rollouts.len(),
        if filter.is_empty() { "" } else { " that match" }
    );
    let width = (page.columns / rollouts.len().max(1)).clamp(26, 60).min(page.columns.max(26));
    let beside = (page.columns / width).max(1);
    for part in rollouts.chunks(beside) {
        out.push('\n');
        table(&group, part, width - 2, page, &mut out);
    }
    Ok(out)
}

fn table(group: &Group, rollouts: &[Full], width: usize, page: Page, out: &mut String) {
    let mut row = |cells: Vec<String>| {
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    };
    let place = |full: &Full| {
        group.rollouts.iter().position(|rollout| rollout.trace == full.brief.trace).map_or(0, |place| place + 1)
    };
    row(rollouts
        .iter()
        .map(|full| page.bold(&padded(&format!("{}  (trace {})", place(full), full.brief.trace), width)))
        .collect());
    row(rollouts
        .iter()
        .map(|full| page.sign(full.brief.total(), &padded(&format!("reward {}", cell(full.brief.total())), width)))
        .collect());
    row(rollouts
        .iter()
        .map(|full| page.sign(full.brief.advantage.value(), &padded(&advantage(&full.brief.advantage), width)))
        .collect());
    row(rollouts.iter().map(|full| padded(&format!("{} {}", full.brief.outcome, full.brief.why), width)).collect());
    row(rollouts
        .iter()
        .map(|full| {
            page.dim(&padded(
                &format!("{} turns, {} sampled of {} tokens", full.brief.turns, full.brief.sampled, full.brief.tokens),
                width,
            ))
        })
        .collect());
    let most = rollouts.iter().map(|full| full.brief.rewards.len()).max().unwrap_or(0);
    for index in 0..most {
        row(rollouts
            .iter()
            .map(|full| match full.brief.rewards.get(index) {
                Some(reward) => padded(&format!("{} {}  {}", reward.component, cell(reward.value), reward.why), width),
                None => padded("", width),
            })
            .collect());
    }
    row(vec![page.dim(&"─".repeat((width + 2) * rollouts.len() - 2))]);
    let keys: Vec<Vec<String>> = rollouts.iter().map(Full::turn_keys).collect();
    for cells in align(&keys) {
        let texts: Vec<Vec<String>> = cells
            .iter()
            .zip(rollouts)
            .map(|(turn, full)| turn.map_or_else(Vec::new, |turn| full.turn_lines(turn)))
            .collect();
        for index in 0..texts.iter().map(Vec::len).max().unwrap_or(0) {
            row(texts
                .iter()
                .map(|lines| {
                    let text = lines.get(index).map_or("", String::as_str);
                    let text = padded(text, width);
                    if index == 0 { page.ink("36", &text) } else { text }
                })
                .collect());
        }
        row(vec![String::new()]);
    }
}

fn advantage(worth: &Worth) -> String {
    match worth {
        Worth::Nothing(why) => format!("no signal: {why}"),
        other => format!("advantage {}", other.words()),
    }
}
