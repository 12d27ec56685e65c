//! The steps of a run with their main metrics.

use std::fmt::Write as _;

use hone_train::ledger::names::{self, Metric};

use super::{Page, line, padded};
use crate::number::{cell, short, span};
use crate::run::{Played, Run};

/// Columns: heading, metric. The first [`SHARES`] are rates and rewards.
const COLUMNS: [(&str, Metric); 9] = [
    ("reward", names::BATCH_REWARD_TOTAL),
    ("success", names::REWARD_SUCCESS_RATE),
    ("signal", names::REWARD_SIGNAL_RATIO),
    ("parse fail", names::REWARD_PARSE_FAILURE_RATE),
    ("entropy", names::POLICY_POLICY_ENTROPY),
    ("kl", names::POLICY_POLICY_KL),
    ("mismatch", names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN),
    ("grad", names::POLICY_GRAD_NORM),
    ("tokens/s", names::TIMING_SAMPLED_TOKENS_PER_SECOND),
];

const SHARES: usize = 4;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The run: curves, evaluations, and one line per step; of more than `most` steps, an even selection.
pub fn steps(run: &Run, page: Page, most: usize) -> String {
    let mut out = String::new();
    let planned = run.planned().map_or_else(String::new, |planned| format!(" of {planned}"));
    let trains = run.trains();
    let steps = if trains { format!("{}{planned} steps", run.done()) } else { "no training".to_owned() };
    let _ = writeln!(out, "{}  {steps}", page.bold(&line(&run.name, 60)));
    for note in run.notes() {
        let _ = writeln!(out, "{}", page.ink("33", &format!("note: {}", line(&note, 400))));
    }
    for played in &run.events.played {
        let _ = writeln!(out, "  {}", evaluation(played));
    }
    rejected(run, page, most, &mut out);
    if !trains {
        return out;
    }
    out.push('\n');
    curves(run, page, &mut out);
    let present: Vec<_> = COLUMNS.iter().filter(|(_, metric)| !run.metrics.points(metric.name).is_empty()).collect();
    let mut header = format!("{:>6}", "step");
    for (name, _) in &present {
        let _ = write!(header, " {name:>10}");
    }
    let _ = writeln!(out, "{}", page.dim(&header));
    let all = run.metrics.steps();
    let chosen: Vec<u64> = if all.len() <= most.max(2) {
        all.to_vec()
    } else {
        (0..most).map(|at| all[at * (all.len() - 1) / (most - 1)]).collect()
    };
    for step in &chosen {
        let _ = write!(out, "{step:>6}");
        for (_, metric) in &present {
            let _ = write!(out, " {:>10}", cell(run.metrics.at(*step, metric.name)));
        }
        let mut marks = Vec::new();
        if run.events.faults.contains_key(step) {
            marks.push(page.ink("31", "faults"));
        }
        marks.extend(
            run.events
                .evaluations()
                .filter(|played| played.step == *step)
                .map(|played| page.ink("36", &format!("{} {}", played.name(), cell(played.success)))),
        );
        let _ = writeln!(out, "  {}", marks.join("  "));
    }
    if chosen.len() < all.len() {
        let _ =
            writeln!(out, "{}", page.dim(&format!("{} of {} steps; --all prints every one", chosen.len(), all.len())));
    }
    out
}

/// The tasks that a validation rejected; `hone show RUN --trace N` shows how one was played.
fn rejected(run: &Run, page: Page, most: usize, out: &mut String) {
    let (tasks, notes) = run.rejected();
    for note in notes {
        let _ = writeln!(out, "{}", page.ink("33", &format!("note: {}", line(&note, 400))));
    }
    if tasks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", page.bold(&format!("{} tasks were rejected", tasks.len())));
    for task in tasks.iter().take(most) {
        let traces: Vec<String> = task.traces.iter().map(u64::to_string).collect();
        let traces = if traces.is_empty() { String::new() } else { format!("  (traces {})", traces.join(", ")) };
        let said = line(&format!("{}: {}", task.reason, task.detail), page.columns.max(60));
        let _ = writeln!(out, "  {} {said}{}", padded(&task.task, 28), page.dim(&traces));
    }
    if tasks.len() > most {
        let _ = writeln!(out, "  and {} more in rejected.jsonl", tasks.len() - most);
    }
}

fn curves(run: &Run, page: Page, out: &mut String) {
    for (at, (name, metric)) in COLUMNS.into_iter().enumerate() {
        let points = run.metrics.points(metric.name);
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let curve = sparkline(&values, page.columns.saturating_sub(40).clamp(10, 60), at < SHARES);
        let _ =
            writeln!(out, "  {}  {}  {} → {}", padded(name, 10), page.ink("36", &curve), short(first.1), short(last.1));
    }
    out.push('\n');
}

/// Curve of values: shares on their fixed scale (0 to 1, -1 to 0, -1 to 1), other quantities from 0.
fn sparkline(values: &[f64], columns: usize, shares: bool) -> String {
    let count = values.len().min(columns);
    let mean = |at: usize| {
        let part = &values[at * values.len() / count..(at + 1) * values.len() / count];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let means: Vec<f64> = (0..count).map(mean).collect();
    let Some([least, most]) = span(means.iter().copied()) else { return String::new() };
    let fixed =
        [[0.0, 1.0], [-1.0, 0.0], [-1.0, 1.0]].into_iter().find(|[low, high]| shares && *low <= least && most <= *high);
    let [low, high] = fixed.unwrap_or([least.min(0.0), most.max(0.0)]);
    let height = |value: f64| if high - low > 1e-12 { (value - low) / (high - low) } else { 0.0 };
    means.iter().map(|value| BLOCKS[((height(*value) * 8.0) as usize).min(7)]).collect()
}

fn evaluation(played: &Played) -> String {
    let interval =
        played.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
    let tasks = played.tasks.map_or_else(String::new, |tasks| format!(" on {tasks} tasks"));
    format!("{}  success {}{interval}{tasks}", padded(&played.name(), 24), cell(played.success))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_fixed_scale_and_other_curves_begin_at_0() {
        assert_eq!(sparkline(&[0.50, 0.52, 0.49], 3, true), "▅▅▄");
        assert_eq!(sparkline(&[-0.02, -0.06], 2, true), "██");
        assert_eq!(sparkline(&[4000.0, 4100.0], 2, false), "██");
        assert_eq!(sparkline(&[0.001, 0.002], 2, false), "▅█");
        assert_eq!(sparkline(&[], 2, true), "");
    }
}
