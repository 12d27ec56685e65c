use hone_arena::rewards::TOTAL;
use hone_trace::Trace;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "no_signal",
    what: "Groups without variance: all episodes of a task earn the same, so there is nothing to learn from.",
    measure: "Groups of the start policy whose totals differ. At a rate p the first group with signal is expected \
              after 1 / (p x train.groups) steps; where none of n groups has any, p is under 3 / n with 95 % \
              confidence. Warning under 15 %; error where the first is not expected within a tenth of the run, or \
              every episode solves its task.",
    fix: "Mix in easier tasks, pay for partial progress (a shaped component), sample larger groups, or warm up with \
          `hone sft`.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let total = |trace: &Trace| trace.reward(TOTAL);
    let scored: Vec<Vec<f64>> = played.groups.iter().map(|group| group.iter().filter_map(total).collect()).collect();
    let scored: Vec<Vec<f64>> = scored.into_iter().filter(|values: &Vec<f64>| values.len() > 1).collect();
    if scored.is_empty() {
        return Looked::skipped("a group with two scored episodes");
    }
    let varies = |values: &&Vec<f64>| values.iter().any(|value| (value - values[0]).abs() > 1e-9);
    let with = scored.iter().filter(varies).count();
    let (groups, train) = (scored.len(), &probe.recipe.train);
    let rate = with as f64 / groups as f64;
    if rate >= 0.15 {
        return Ok(Looked::Healthy);
    }
    let success = &probe.recipe.eval.success;
    let values: Vec<f64> = played.episodes().filter_map(|(_, trace)| trace.reward(success)).collect();
    let solved = values.iter().filter(|value| **value == 1.0).count();
    let easy = !values.is_empty() && solved as f64 > 0.9 * values.len() as f64;
    // None of n: the rate may still be up to 3 / n.
    let most = if with == 0 { 3.0 / groups as f64 } else { rate };
    let wait = 1.0 / (most * train.groups.max(1) as f64);
    let hopeless = wait > 0.1 * train.steps as f64 || (easy && solved == values.len());
    let severity = if hopeless { Severity::Error } else { Severity::Warning };
    let mut finding = Finding::new(
        severity,
        format!("{} groups of the start policy have any variance in reward", share(with, groups)),
    )
    .line(format!("{} episodes succeed", share(solved, values.len())))
    .line(format!(
        "the first group with signal is expected after {}{wait:.1} steps of {} groups",
        if with == 0 { "at least " } else { "" },
        train.groups
    ))
    .likely();
    if let [first, ..] = scored[0][..]
        && with == 0
        && scored.iter().flatten().all(|value| (value - first).abs() < 1e-9)
    {
        finding = finding.line(format!("every episode earns {first}"));
    }
    if easy {
        return finding.fix("Train on harder tasks: the start policy solves these.").into();
    }
    if with > 0 {
        let odds = |size: f64| 1.0 - (1.0 - rate).powf(size / f64::from(train.group_size.max(1)));
        finding = finding.line(format!(
            "groups of {} would have signal in about {:.0} %",
            4 * train.group_size,
            100.0 * odds(4.0 * f64::from(train.group_size))
        ));
    }
    finding.into()
}
