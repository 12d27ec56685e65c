//! report.md: the report for people.

use std::fmt::Write as _;

use hone_trace::rounded;

use super::{Change, Rollback, Row, RunReport, Skill};

impl RunReport {
    pub fn markdown(&self) -> String {
        let mut page = format!("# {}\n\n{}\n", self.name, self.headline());
        self.broken(&mut page);
        for Rollback { step, back_to, why, rate_factor } in &self.rollbacks {
            let _ = write!(
                page,
                "\nAfter step {step} the guard went back to the checkpoint of step {back_to}, with the learning rate times \
                 {rate_factor}: {}.\n",
                hone_trace::clean_line(why)
            );
        }
        self.held_out.markdown(&mut page);
        if let Some(windows) = self.windows.filter(|windows| windows.first != windows.last) {
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
            page += "\n## Advantage variance by component\n\nEach component's share of the advantages' variance (docs/metrics.md).\n\n";
            page += "| component | share |\n|---|---:|\n";
            for (name, share) in &self.advantage_shares {
                let _ = writeln!(page, "| {name} | {share:.3} |");
            }
        }
        self.calibrations(&mut page);
        let sampled = self.tokens.sampled;
        if sampled > 0.0 {
            let _ = write!(
                page,
                "\n## Fate of the {sampled:.0} sampled tokens\n\n| fate | tokens | share | meaning |\n|---|---:|---:|---|\n"
            );
            for (fate, tokens) in &self.tokens.fates {
                let _ = writeln!(page, "| {fate} | {tokens:.0} | {:.3} | {} |", tokens / sampled, fate.sentence());
            }
        }
        page
    }

    /// First fault's message, so that readers need not look for it.
    fn broken(&self, page: &mut String) {
        if self.nothing_trained() {
            *page += "\n**No token was trained in this run.**\n";
        }
        if let Some(broke) = &self.broke {
            let _ = write!(
                page,
                "\n{} training episodes broke, in {} steps, and are in no statistics. The first, in step {}:\n\n{}",
                broke.episodes,
                broke.steps,
                broke.first_step,
                quoted(&broke.first)
            );
        } else if let Some(first) = self.first_fault() {
            let _ =
                write!(page, "\nEpisodes of evaluations broke and are not counted. The first:\n\n{}", quoted(&first));
        }
    }

    fn headline(&self) -> String {
        let done = if self.steps < self.planned { format!(" of {}", self.planned) } else { String::new() };
        let taken = match self.optimizer_steps {
            0 => String::new(),
            taken => format!(" ({taken} optimizer steps)"),
        };
        format!("Seed {}, {}{done} steps{taken} in {:.0} s.", self.seed, self.steps, self.seconds)
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
        self.skills(page);
    }

    /// Skill of the confidences over a constant.
    fn skills(&self, page: &mut String) {
        let skilled: Vec<_> = self.calibration.iter().filter_map(|(set, c)| Some((set, c.skill?))).collect();
        if !skilled.is_empty() {
            *page += "\nSkill = 1 − Brier loss / uncertainty: 0 for the best constant, which is the base rate. Intervals are \
                      bootstrapped over tasks; p is the share of permutations of the outcomes that resolve as much.\n\n";
            *page +=
                "| episodes | skill | 95 % interval | p of the resolution | earned | best constant | it would earn |\n";
            *page += "|---|---:|---|---:|---:|---:|---:|\n";
        }
        for (set, skill) in skilled {
            let Skill { value, interval, resolution_p, earned, best_constant, constant_earns } = skill;
            let interval = interval.map_or_else(String::new, |[low, high]| format!("{low:.3} to {high:.3}"));
            let _ = writeln!(
                page,
                "| {set} | {value:.3} | {interval} | {resolution_p:.4} | {earned:.4} | {best_constant:.3} | {constant_earns:.4} |"
            );
        }
        *page += "\n";
        for (set, c) in &self.calibration {
            let _ = write!(page, "- {set}: {}.", c.verdict());
            if let Some(Change { total, accuracy, confidence }) = c.change {
                let _ = write!(
                    page,
                    " The reward for calibration changed by {total:+.4} since the first such episodes: {accuracy:+.4} by how \
                     often answers are right, {confidence:+.4} by what the confidences say."
                );
            }
            *page += "\n";
        }
    }
}

fn line(row: &Row) -> String {
    let error = row.standard_error.map_or_else(String::new, |error| format!("{error:.4}"));
    let [first, last, difference] = [row.first, row.last, row.difference].map(|value| rounded(value, 4));
    format!("| {} | {first:.4} | {last:.4} | {difference:+.4} | {error} |\n", row.name)
}

/// Foreign text as a block quote that its contents cannot close.
fn quoted(text: &str) -> String {
    hone_trace::clean(text).lines().map(|line| format!("    {line}\n")).collect()
}
