//! report.md: the report for people.

use std::fmt::Write as _;

use super::{Row, RunReport};

impl RunReport {
    pub fn markdown(&self) -> String {
        let mut page = format!("# {}\n\n{}\n", self.name, self.headline());
        self.held_out.markdown(&mut page);
        if let Some(windows) = &self.windows {
            let [[a, b], [c, d]] = [windows.first, windows.last];
            let _ = write!(page, "\n## Training, steps {a}–{b} against {c}–{d}\n\n");
            let _ = write!(
                page,
                "Steps {a}–{b} are early training, not the start: the policy learns from the first step on. The start is the \
                 evaluation at step 0.\n\n"
            );
            page += "| | early | late | difference | ± |\n|---|---:|---:|---:|---:|\n";
            for row in self.components.iter().chain(&self.metrics) {
                page += &line(row);
            }
        }
        if !self.advantage_shares.is_empty() {
            page += "\n## Who made the advantages\n\nEach component's share of the advantages' variance (docs/metrics.md).\n\n";
            page += "| component | share |\n|---|---:|\n";
            for (name, share) in &self.advantage_shares {
                let _ = writeln!(page, "| {name} | {share:.3} |");
            }
        }
        self.calibrations(&mut page);
        if let Some(sampled) = self.tokens.get("sampled").filter(|sampled| **sampled > 0.0) {
            let _ = write!(
                page,
                "\n## Where {sampled:.0} sampled tokens went\n\n| place | tokens | share |\n|---|---:|---:|\n"
            );
            for (place, tokens) in self.tokens.iter().filter(|(place, _)| *place != "sampled") {
                let _ = writeln!(page, "| {place} | {tokens:.0} | {:.3} |", tokens / sampled);
            }
        }
        page
    }

    fn headline(&self) -> String {
        let done = if self.steps < self.planned { format!(" of {}", self.planned) } else { String::new() };
        format!("Seed {}, {}{done} steps in {:.0} s.", self.seed, self.steps, self.seconds)
    }

    fn calibrations(&self, page: &mut String) {
        if self.calibration.is_empty() {
            return;
        }
        *page += "\n## Calibration\n\nBrier loss = reliability − resolution + uncertainty. A constant confidence has a resolution of 0.\n\n";
        *page += "| episodes | n | Brier loss | reliability | resolution | uncertainty | mean confidence | success |\n";
        *page += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
        for (set, c) in &self.calibration {
            let _ = writeln!(
                page,
                "| {set} | {} | {:.4} | {:.4} | {:.4} | {:.4} | {:.3} | {:.3} |",
                c.n, c.brier_loss, c.reliability, c.resolution, c.uncertainty, c.mean_confidence, c.success
            );
        }
    }
}

fn line(row: &Row) -> String {
    let error = row.standard_error.map_or_else(String::new, |error| format!("{error:.4}"));
    format!("| {} | {:.4} | {:.4} | {:+.4} | {error} |\n", row.name, row.first, row.last, row.difference)
}
