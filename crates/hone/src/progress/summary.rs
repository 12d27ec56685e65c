//! Closing table of a run: what changed, the evidence, where it is recorded and what to do next.

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use hone_trace::rundir::RunReader;
use hone_trace::{rounded, signed};
use hone_train::checkpoint::{Best, BestBy, newest};
use hone_train::evaluate::{Difference, Evaluation, Judgement};
use hone_train::ledger::names::{self, Better, Metric};
use hone_train::report::{Row, RunReport};
use hone_train::run::recorded_recipe;

use super::Style;
use super::faults::in_short;
use super::train::optional;

/// The table, ready to print.
pub(crate) fn summary(report: &RunReport, directory: &Path, style: Style) -> String {
    let mut out = String::new();
    if report.steps < report.planned {
        let stopped = format!("stopped after step {} of {}; everything is recorded", report.steps, report.planned);
        let _ = writeln!(out, "\n{}", style.bold(&stopped));
    }
    broken(&mut out, report, style);
    held_out(&mut out, report, directory, style);
    training(&mut out, report, style);
    let _ = writeln!(out, "\n{}  {}  (report.md says more)", style.bold("run "), directory.display());
    for (index, command) in next_commands(report, directory).iter().enumerate() {
        let label = if index == 0 { style.bold("next") } else { "    ".to_owned() };
        let _ = writeln!(out, "{label}  {command}");
    }
    out
}

/// Faults of training, quoted, and whether anything was trained at all.
fn broken(out: &mut String, report: &RunReport, style: Style) {
    if let Some(broke) = &report.broke {
        let first = in_short(&broke.first);
        let line =
            format!("{} training episodes broke; the first, in step {}: {first}", broke.episodes, broke.first_step);
        let _ = writeln!(out, "\n{}", style.red(&line));
    }
    if report.nothing_trained() {
        let why = if report.broke.is_some() { "" } else { ": no group had signal, or none was scored" };
        let _ = writeln!(out, "\n{}", style.red(&format!("no token was trained in {}{why}", steps(report.steps))));
    }
}

/// Metrics of the table below the reward components.
const METRICS: [(&str, Metric); 2] =
    [("groups with signal", names::REWARD_SIGNAL_RATIO), ("parse failures", names::REWARD_PARSE_FAILURE_RATE)];

fn training(out: &mut String, report: &RunReport, style: Style) {
    let Some(windows) = report.windows else { return };
    let ([a, b], [c, d]) = (windows.first, windows.last);
    if windows.first == windows.last {
        // One step has no early and late part.
        return one_step(out, report, a, style);
    }
    let word = if a == b { "step" } else { "steps" };
    let title = format!("training, {word} {} (early, not the start) against {}", span(a, b), span(c, d));
    let _ = writeln!(out, "\n{}", style.bold(&title));
    let _ = writeln!(out, "{}", style.dim("                               early     late            change    share"));
    for row in &report.components {
        let share = report.advantage_shares.get(&row.name).map_or_else(String::new, |share| format!("{share:.2}"));
        let _ = writeln!(out, "  {}  {share:>7}", cells(&row.name, row, Better::Higher, style));
    }
    for (label, metric) in METRICS {
        if let Some(row) = report.metrics.iter().find(|row| row.name == metric.name) {
            let _ = writeln!(out, "  {}", cells(label, row, metric.better, style));
        }
    }
    let _ = writeln!(out, "{}", style.dim("  share: of the advantages' variance, over the run"));
}

fn steps(count: u64) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}

/// The rewards of a run of one step, which has nothing to compare.
fn one_step(out: &mut String, report: &RunReport, step: u64, style: Style) {
    let _ = writeln!(out, "\n{}", style.bold(&format!("training, step {step} alone")));
    for row in &report.components {
        let name: String = row.name.chars().take(24).collect();
        let _ = writeln!(out, "  {name:<24} {:>8.3}", rounded(row.last, 3));
    }
}

fn span(from: u64, to: u64) -> String {
    if from == to { from.to_string() } else { format!("{from}–{to}") }
}

fn cells(label: &str, row: &Row, better: Better, style: Style) -> String {
    let label: String = label.chars().take(24).collect();
    let error = row.standard_error.map_or_else(String::new, |error| format!(" ± {error:.3}"));
    let change = format!("{:>17}", signed(row.difference) + &error);
    let sure = row.standard_error.is_some_and(|error| row.difference.abs() > 2.0 * error);
    let change = match better {
        Better::Higher if sure && row.difference > 0.0 => style.green(&change),
        Better::Lower if sure && row.difference < 0.0 => style.green(&change),
        Better::Higher | Better::Lower if sure && row.difference != 0.0 => style.red(&change),
        Better::Higher | Better::Lower | Better::Neither => change,
    };
    format!("{label:<24} {:>8.3} {:>8.3} {change}", rounded(row.first, 3), rounded(row.last, 3))
}

fn held_out(out: &mut String, report: &RunReport, directory: &Path, style: Style) {
    let held_out = &report.held_out;
    let Some(before) = &report.before else { return };
    let title = format!("held-out tasks, {} of them", before.result.tasks);
    let _ = writeln!(out, "\n{}", style.bold(&title));
    let header = "                           temperature   success    95 % interval  entropy  parse failures";
    let _ = writeln!(out, "{}", style.dim(header));
    for kind in [&held_out.greedy, &held_out.sampled] {
        if let Some(before) = &kind.before {
            let _ = writeln!(out, "  {}", evaluated("before", &before.result));
        }
        if let Some(after) = &kind.after {
            let _ = writeln!(out, "  {}", evaluated(&format!("after {}", steps(after.step)), &after.result));
        }
        if let Some(change) = &kind.change {
            let _ = writeln!(out, "  {}", changed(change, style));
        }
    }
    for control in &held_out.controls {
        let _ = writeln!(out, "  {}", evaluated(control.kind.words(), &control.result));
    }
    for probe in &held_out.probes {
        let _ = writeln!(out, "  {}", evaluated(probe.tools.words(), &probe.result));
    }
    if !held_out.probes.is_empty() {
        let _ = writeln!(
            out,
            "  {}",
            style.dim("tools changed: lower where the policy knows its tools by place or by name")
        );
    }
    if let Some(best) = held_out.best_baseline() {
        let label = format!("best scripted policy: {}", best.name);
        let _ = writeln!(out, "  {label:<38} {:>8}", cell(best.success));
    }
    let all = [&held_out.greedy, &held_out.sampled].into_iter().flat_map(|kind| [&kind.before, &kind.after]);
    let lost = |count: fn(&Evaluation) -> usize| all.clone().flatten().map(|found| count(&found.result)).sum::<usize>();
    for (count, what) in [(lost(|e| e.faults), "broke"), (lost(|e| e.unscored), "were not scored")] {
        if count > 0 {
            let _ = writeln!(out, "  {}", style.red(&format!("{count} episodes {what} and are not counted")));
        }
    }
    if let (None, Some(first)) = (&report.broke, report.first_fault()) {
        let _ = writeln!(out, "  {}", style.red(&format!("the first that broke: {}", in_short(&first))));
    }
    let _ = writeln!(out, "\n{}", style.bold(&verdict_line(report)));
    if let Some(judgement) = &held_out.judgement {
        let _ = writeln!(out, "{}", grounds(judgement));
    }
    let _ = writeln!(out, "{}", gain_line(report));
    if let Some(better) = better(report, directory) {
        let _ = writeln!(out, "{}", style.red(&better));
    }
}

/// The best checkpoint of a run that ended below it, and how to use it.
fn better(report: &RunReport, directory: &Path) -> Option<String> {
    let (before, after) = (report.before.as_ref()?, report.after.as_ref()?);
    let [_, high] = after.result.ci?;
    let state = newest(directory).ok().flatten().map(|(_, state)| state);
    // The recipe may judge checkpoints by another measure.
    let judged = |_: &Best| recorded_recipe(directory).is_ok_and(|recipe| recipe.checkpoint.best == BestBy::Success);
    let best = state.and_then(|state| state.best).filter(judged).map(|best| (best.step, best.value));
    let start = before.result.success.map(|success| (before.step, success));
    let all = start.into_iter().chain(best).filter(|(step, value)| *step < after.step && *value > high);
    let (step, value) = all.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let checkpoint = RunReader::open(directory).ok()?.checkpoints().ok()?.into_iter().find(|(at, _)| *at == step)?.1;
    let (what, last) =
        (if step == 0 { "the start".to_owned() } else { format!("step {step}") }, optional(after.result.success));
    Some(format!(
        "{what} was better: success {value:.3}, and {last} at the end. Its checkpoint is kept: --set policy.model={} starts \
         from it",
        checkpoint.display()
    ))
}

/// Final minus starting policy, in the columns of the table.
fn changed(change: &Difference, style: Style) -> String {
    let Difference { mean, .. } = change;
    let word = match change.word() {
        word @ "better" => style.green(word),
        word @ "worse" => style.red(word),
        word => word.to_owned(),
    };
    format!("{:<36} {:>9} {:>16}  {word}", "after − before", signed(*mean), interval(change))
}

fn evaluated(label: &str, result: &Evaluation) -> String {
    let interval = result.ci.map_or_else(|| "–".to_owned(), |[low, high]| format!("[{low:.3}, {high:.3}]"));
    let temperature = format!("{:.3}", result.temperature);
    let temperature = temperature.trim_end_matches('0').trim_end_matches('.');
    format!(
        "{label:<24} {temperature:>11} {:>9} {interval:>16} {:>8} {:>15}",
        cell(result.success),
        cell(result.entropy),
        cell(result.parse_failure_rate)
    )
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{:.3}", rounded(value, 3)))
}

/// A difference's 95 % interval.
fn interval(difference: &Difference) -> String {
    let [low, high] = difference.ci.map(signed);
    format!("[{low}, {high}]")
}

/// The verdict on the policy, and the reason if there is none.
fn verdict_line(report: &RunReport) -> String {
    match (&report.held_out.judgement, report.steps < report.planned) {
        (Some(judgement), _) => format!("verdict: {}", judgement.sentence()),
        (None, true) => "no verdict: training is not over".to_owned(),
        (None, false) => report.held_out.no_verdict.clone().unwrap_or_else(|| "no verdict".to_owned()),
    }
}

/// The comparisons that the verdict rests on.
fn grounds(judgement: &Judgement) -> String {
    let line = |what: &str, found: &Difference| format!("{what} {} {}", signed(found.mean), interval(found));
    let sampled = match &judgement.over_sharpened {
        Some(over) => line("sampled, over the sharpened start", over),
        None => line("sampled, over the start", &judgement.sampled),
    };
    format!("it rests on: {}; {sampled}", line("greedy, over the start", &judgement.greedy))
}

/// The gain over the best of the controls.
pub(crate) fn gain_line(report: &RunReport) -> String {
    match &report.held_out.gain {
        None => "no gain: there is no evaluation after a step".to_owned(),
        Some(gain) => {
            let difference = &gain.difference;
            format!(
                "gain over the best of the start and its controls ({}), sampled: {} {}: {}",
                gain.over,
                signed(difference.mean),
                interval(difference),
                difference.word()
            )
        }
    }
}

/// Commands the user may want next, of those this binary has.
fn next_commands(report: &RunReport, directory: &Path) -> Vec<String> {
    let run = directory.display();
    let unfinished = report.steps < report.planned;
    let wanted = [
        (unfinished && has("train", Some("resume")), format!("hone train --resume {run}")),
        (has("view", None), format!("hone view {run}")),
        (has("show", None), format!("hone show {run}")),
        (has("doctor", None), format!("hone doctor {run}")),
        (has("report", None), format!("hone report {run}")),
        (has("eval", None), format!("hone eval {run}")),
    ];
    wanted.into_iter().filter_map(|(exists, command)| exists.then_some(command)).collect()
}

/// True if the command exists, with the flag if one is given.
pub(crate) fn has(command: &str, flag: Option<&str>) -> bool {
    let cli = crate::Cli::command();
    let Some(command) = cli.find_subcommand(command) else { return false };
    flag.is_none_or(|flag| command.get_arguments().any(|argument| argument.get_long() == Some(flag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_exist_are_named() {
        assert!(has("train", None) && has("train", Some("set")));
        assert!(!has("train", Some("no-such-flag")) && !has("no-such-command", None));
        let report = RunReport { steps: 1, planned: 2, ..RunReport::default() };
        for command in next_commands(&report, Path::new("runs/x")) {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(crate::Cli::command().try_get_matches_from(words).is_ok(), "{command}");
        }
    }
}
