//! A step's or an evaluation's groups: rewards and advantages as dots.

use std::fmt::Write as _;

use hone_train::ledger::names::{self, Metric};

use super::{Page, dots, line, padded};
use crate::fates::FATES;
use crate::number::{cell, short, span};
use crate::run::{Brief, Filter, Group, Part, Run, Silent, ViewError};

const SCALE: usize = 17;

pub fn part(run: &Run, part: &Part, filter: &Filter, page: Page) -> Result<String, ViewError> {
    let (groups, notes) = run.groups(part, filter)?;
    let mut out = String::new();
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let _ = writeln!(
        out,
        "{}  {} groups, {} rollouts{}",
        page.bold(&format!("{} {part}", line(&run.name, 60))),
        groups.len(),
        rollouts().count(),
        if filter.is_empty() { "" } else { " that match" }
    );
    for note in &notes {
        let _ = writeln!(out, "{}", page.ink("33", &format!("note: {}", line(note, 400))));
    }
    if let Part::Step(step) = part {
        for silent in Silent::of(&groups, run.success()).iter().filter(|_| filter.is_empty()) {
            let Silent { why, groups: count, by_all, by_none } = silent;
            let _ = writeln!(
                out,
                "{count} of {} groups have no signal and train nothing: {why} ({by_all} solved by every rollout, \
                 {by_none} by none)",
                groups.len()
            );
        }
        summary(run, *step, page, &mut out);
    }
    if groups.is_empty() {
        return Ok(out);
    }
    let rewards = span(rollouts().filter_map(Brief::total)).unwrap_or([0.0, 1.0]);
    let advantages = matches!(part, Part::Step(_))
        .then(|| span(rollouts().filter_map(|rollout| rollout.advantage.value()).chain([0.0])).unwrap_or([-1.0, 1.0]));
    let scale = |[low, high]: [f64; 2]| {
        let (low, high) = (short(low), short(high));
        format!("{low}{}{high}", " ".repeat(SCALE.saturating_sub(low.chars().count() + high.chars().count())))
    };
    let header = format!(
        "{:>5} {:<8} {:<28} {:>6} {:>7}  {:<SCALE$}  {:<SCALE$}",
        "group",
        "env",
        "task",
        "mean",
        "solved",
        scale(rewards),
        advantages.map(scale).unwrap_or_default()
    );
    let what = if advantages.is_some() { "advantage" } else { "" };
    let scales = format!("{:>60}{:<SCALE$}  {what}", "", "reward");
    let _ = writeln!(out, "{}", page.dim(scales.trim_end()));
    let _ = writeln!(out, "{}", page.dim(header.trim_end()));
    for group in &groups {
        row(run, group, rewards, advantages, page, &mut out);
    }
    Ok(out)
}

/// A group's line; `advantages` is the scale of a step's advantages; evaluations have none.
fn row(run: &Run, group: &Group, rewards: [f64; 2], advantages: Option<[f64; 2]>, page: Page, out: &mut String) {
    let totals: Vec<f64> = group.rollouts.iter().filter_map(Brief::total).collect();
    let worth: Vec<f64> = group.rollouts.iter().filter_map(|rollout| rollout.advantage.value()).collect();
    let (solved, scored) = group.solved(run.success());
    let worth = if let Some(advantages) = advantages.filter(|_| !worth.is_empty()) {
        format!("{}  ", dots(&worth, advantages, SCALE))
    } else if advantages.is_none() {
        String::new()
    } else {
        let why = group.rollouts.first().map_or_else(String::new, |rollout| {
            if rollout.advantage == crate::run::Worth::NotRecorded {
                "not recorded".to_owned()
            } else {
                "no signal".to_owned()
            }
        });
        format!("{}  ", page.dim(&padded(&why, SCALE)))
    };
    let broken = group.rollouts.iter().filter(|rollout| rollout.is_broken()).count();
    let failures = group.rollouts.iter().filter(|rollout| !rollout.parse_failures.is_empty()).count();
    let mut marks = Vec::new();
    if failures > 0 {
        marks.push(page.ink("33", &format!("{failures} with parse failures")));
    }
    if broken > 0 {
        marks.push(page.ink("31", &format!("{broken} broken, excluded")));
    }
    let row = format!(
        "{:>5} {} {} {:>6} {:>7}  {}  {worth}{}",
        group.group,
        padded(&group.env, 8),
        padded(&group.task, 28),
        cell(group.mean()),
        format!("{solved}/{scored}"),
        dots(&totals, rewards, SCALE),
        marks.join("  ")
    );
    let _ = writeln!(out, "{}", row.trim_end());
}

fn summary(run: &Run, step: u64, page: Page, out: &mut String) {
    let tokens = |metric: Metric| run.metrics.at(step, metric.name).filter(|tokens| *tokens > 0.0);
    if let Some(sampled) = tokens(names::TOKENS_SAMPLED) {
        let parts = FATES.iter().filter_map(|fate| {
            let tokens = tokens(fate.tokens)?;
            Some(format!("{} {tokens:.0} ({:.1} %)", fate.name, 100.0 * tokens / sampled))
        });
        let _ = writeln!(out, "{sampled:.0} sampled tokens: {}", parts.collect::<Vec<_>>().join(", "));
    }
    if let Some(faults) = run.events.faults.get(&step) {
        let _ = writeln!(
            out,
            "{}",
            page.ink("31", &line(&format!("faults: {}", serde_json::Value::Object(faults.clone())), 400))
        );
    }
    out.push('\n');
}
