//! The end of a run: what changed, on which evidence, where it is recorded and what to do next.

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use hone_train::report::{Evaluated, Row, RunReport};

use super::Style;

/// The table, ready to print.
pub(crate) fn summary(report: &RunReport, directory: &Path, style: Style) -> String {
    let mut out = String::new();
    if report.steps < report.planned {
        let stopped = format!("stopped after step {} of {}; everything is recorded", report.steps, report.planned);
        let _ = writeln!(out, "\n{}", style.bold(&stopped));
    }
    training(&mut out, report, style);
    held_out(&mut out, report, style);
    let _ = writeln!(out, "\n{}  {}  (report.md says more)", style.bold("run "), directory.display());
    for (index, command) in next_commands(report, directory).iter().enumerate() {
        let label = if index == 0 { style.bold("next") } else { "    ".to_owned() };
        let _ = writeln!(out, "{label}  {command}");
    }
    out
}

fn training(out: &mut String, report: &RunReport, style: Style) {
    let Some(windows) = report.windows else { return };
    let ([a, b], [c, d]) = (windows.first, windows.last);
    let title = format!("training, steps {} against {}", span(a, b), span(c, d));
    let _ = writeln!(out, "\n{}", style.bold(&title));
    let _ = writeln!(out, "{}", style.dim("                               first     last            change    share"));
    for row in &report.components {
        let share = report.advantage_shares.get(&row.name).map_or_else(String::new, |share| format!("{share:.2}"));
        let _ = writeln!(out, "  {}  {share:>7}", cells(row, style));
    }
    for name in ["reward/signal_ratio", "reward/parse_failure_rate"] {
        if let Some(row) = report.metrics.iter().find(|row| row.name == name) {
            let label = if name.ends_with("signal_ratio") { "groups with signal" } else { "parse failures" };
            let _ = writeln!(out, "  {}", cells(&Row { name: label.into(), ..row.clone() }, style));
        }
    }
    let _ = writeln!(out, "{}", style.dim("  share: of the advantages' variance, over the run"));
}

fn span(from: u64, to: u64) -> String {
    if from == to { from.to_string() } else { format!("{from}–{to}") }
}

fn cells(row: &Row, style: Style) -> String {
    let name: String = row.name.chars().take(24).collect();
    let error = row.standard_error.map_or_else(String::new, |error| format!(" ± {error:.3}"));
    let change = format!("{:>17}", format!("{:+.3}{error}", row.difference));
    let sure = row.standard_error.is_some_and(|error| row.difference.abs() > 2.0 * error);
    let change = match row.difference {
        difference if !sure || difference == 0.0 => change,
        difference if (difference > 0.0) != row.name.contains("failures") => style.green(&change),
        _ => style.red(&change),
    };
    format!("{name:<24} {:>8.3} {:>8.3} {change}", row.first, row.last)
}

fn held_out(out: &mut String, report: &RunReport, style: Style) {
    let Some(before) = &report.before else { return };
    let title = format!("held-out tasks, {} episodes", before.result.n);
    let _ = writeln!(out, "\n{}", style.bold(&title));
    let _ = writeln!(out, "{}", style.dim("                             success    95 % interval   parse failures"));
    let mut line = |label: &str, Evaluated { result, .. }: &Evaluated| {
        let [low, high] = result.ci;
        let interval = format!("[{low:.3}, {high:.3}]");
        let _ =
            writeln!(out, "  {label:<24} {:>9.3} {interval:>16} {:>16.3}", result.success, result.parse_failure_rate);
    };
    line("before", before);
    if let Some(after) = &report.after {
        line(&format!("after {} steps", after.step), after);
    }
    let _ = writeln!(out, "  {:<24} {:>9.3}", "doing nothing", before.result.do_nothing);
    let faults = [Some(before), report.after.as_ref()].into_iter().flatten().map(|e| e.result.faults).sum::<usize>();
    if faults > 0 {
        let _ = writeln!(out, "  {}", style.red(&format!("{faults} episodes broke and are not counted")));
    }
}

/// What the user may want next, of what this binary can do.
fn next_commands(report: &RunReport, directory: &Path) -> Vec<String> {
    let run = directory.display();
    let unfinished = report.steps < report.planned;
    let wanted = [
        (unfinished && has("train", Some("resume")), format!("hone train --resume {run}")),
        (has("view", None), format!("hone view {run}")),
        (has("doctor", None), format!("hone doctor {run}")),
        (has("report", None), format!("hone report {run}")),
    ];
    wanted.into_iter().filter_map(|(exists, command)| exists.then_some(command)).collect()
}

/// Whether there is such a command, with such a flag.
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
        let report = RunReport {
            name: "r".into(),
            seed: 0,
            steps: 1,
            planned: 2,
            seconds: 1.0,
            before: None,
            after: None,
            windows: None,
            components: Vec::new(),
            metrics: Vec::new(),
            advantage_shares: std::collections::BTreeMap::default(),
            tokens: std::collections::BTreeMap::default(),
            calibration: std::collections::BTreeMap::default(),
        };
        for command in next_commands(&report, Path::new("runs/x")) {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(crate::Cli::command().try_get_matches_from(words).is_ok(), "{command}");
        }
    }
}
