//! The report in plain text.

use std::fmt::Write as _;

use crate::law::Severity;
use crate::parity::Parity;
use crate::probe::Role;
use crate::report::{Audit, ComponentView, Finding, HonestView, Row, SkippedLaw, Worst};

impl Audit {
    /// The report in plain text.
    pub fn text(&self, verbose: bool) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out, verbose);
        out
    }

    fn write(&self, out: &mut String, verbose: bool) -> std::fmt::Result {
        for finding in &self.findings {
            let Finding { law, breach, repair, consequences } = finding;
            let word = match breach.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            writeln!(out, "{word}: {}  [{law}]", breach.says)?;
            for line in &breach.lines {
                writeln!(out, "    {line}")?;
            }
            for other in consequences {
                writeln!(out, "    from it follows: {other}")?;
            }
            writeln!(out, "  repair: {repair}\n")?;
        }
        self.write_table(out)?;
        self.write_worst(out)?;
        if verbose {
            self.write_lines(out)?;
        }
        let HonestView { who, total, success, note, .. } = &self.honest;
        if let Some(note) = note {
            writeln!(out, "{note}; junk is compared with {who}")?;
        }
        let percent = success.map_or(String::new(), |success| format!(", success {:.0} %", 100.0 * success));
        writeln!(out, "honest work: {who}; total {}{percent}", number(*total))?;
        let Parity { pairs, inverted, right_wrong, unpriced, .. } = &self.parity;
        writeln!(
            out,
            "against the environment's own rubric: {inverted} of {pairs} pairs of episodes are ordered the other way; \
             {unpriced} of {right_wrong} wrong episodes earn as much as a right one"
        )?;
        if let Some([better, worse]) = self.parity.example.as_ref().filter(|_| self.parity.inverted > 0) {
            writeln!(out, "  such as: the environment prefers {better}, the recipe {worse}")?;
        }
        writeln!(
            out,
            "{} laws hold, {} could not be checked, over {} episodes of {} tasks{}",
            self.held.len(),
            self.skipped.len(),
            self.episodes,
            self.tasks,
            if self.faults > 0 { format!(" ({} broke)", self.faults) } else { String::new() }
        )?;
        if verbose {
            writeln!(out, "  hold: {}", self.held.join(", "))?;
        }
        for SkippedLaw { law, needs } in self.skipped.iter().filter(|_| verbose) {
            writeln!(out, "  not checked: {law}, which needs {needs}")?;
        }
        Ok(())
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let width = self.components.iter().map(|component| component.name.len()).max().unwrap_or(0).max(9);
        writeln!(
            out,
            "{:<width$}  {:>6}  {:>8}  {:>10}  {:>9}  {:>16}",
            "component", "weight", "solution", "worst junk", "most junk", "advantage share"
        )?;
        for component in &self.components {
            let ComponentView { name, weight, oracle, junk, most, advantage_share, paid } = component;
            let share = advantage_share.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
            let watched = if *paid { "" } else { "  watched" };
            writeln!(
                out,
                "{name:<width$}  {weight:>6.2}  {:>8}  {:>10}  {:>9}  {share:>16}{watched}",
                number(*oracle),
                number(*junk),
                number(*most)
            )?;
        }
        writeln!(out)
    }

    fn write_worst(&self, out: &mut String) -> std::fmt::Result {
        let Some(Worst { label, task, text, share, probe, .. }) = &self.worst else { return Ok(()) };
        let share = share.map_or(String::new(), |share| format!(", {:.0} % of the way to the solution", 100.0 * share));
        writeln!(out, "worst junk [{probe}]: {label}{share}; on task {task} it reads")?;
        let short: String = text.chars().take(600).map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
        for line in short.lines() {
            writeln!(out, "  | {line}")?;
        }
        if text.chars().count() > 600 {
            writeln!(out, "  | …")?;
        }
        writeln!(out)
    }

    fn write_lines(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{:<10}  {:>7}  {:>7}  {:>9}  {:>8}  probe", "role", "total", "solved", "advantage", "positive")?;
        for Row { line, advantage, positive } in &self.lines {
            let role = match line.role {
                Role::Oracle => "oracle",
                Role::Dressed => "dressed",
                Role::Defect => "defect",
                Role::Broken => "broken",
                Role::Junk => "junk",
            };
            let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.0} %", 100.0 * value));
            let advantage = advantage.map_or("-".to_owned(), |value| format!("{value:+.2}"));
            writeln!(
                out,
                "{role:<10}  {:>7}  {:>7}  {advantage:>9}  {:>8}  {}: {}",
                number(line.total()),
                percent(line.solved),
                percent(*positive),
                line.probe,
                line.label
            )?;
        }
        writeln!(out)
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{:.3}", hone_trace::rounded(value, 3)))
}
