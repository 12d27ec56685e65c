//! Held-out tasks in report.md: evaluations, verdict, controls, baselines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_trace::{rounded, signed};

use super::{Evaluated, HeldOut};
use crate::evaluate::{Difference, Evaluation};

impl HeldOut {
    pub(super) fn markdown(&self, page: &mut String) {
        if self.headline().before.is_none() {
            return;
        }
        *page += "\n## Held-out tasks\n\nSuccess recounted from the recorded traces, over the episodes that were scored, \
                  with Wilson's 95 % interval.\n\n";
        *page += "| | temperature | success | interval | entropy | parse failures | episodes | unscored | faults |\n";
        *page += "|---|---:|---:|---|---:|---:|---:|---:|---:|\n";
        for kind in [&self.greedy, &self.sampled] {
            for (when, evaluated) in [("before", &kind.before), ("after", &kind.after)] {
                if let Some(Evaluated { step, result }) = evaluated {
                    *page += &row(&format!("{when}, step {step}"), result);
                }
            }
        }
        for control in &self.controls {
            let kind = control.placebo.map(|placebo| format!(" ({})", placebo.name())).unwrap_or_default();
            *page += &row(&format!("{}{kind}", control.kind.words()), &control.result);
        }
        for probe in &self.probes {
            *page += &row(&format!("after, {}", probe.tools.words()), &probe.result);
        }
        if self.headline().after.is_none() {
            *page += "\nThere is no evaluation after a step: the effect of training was not measured.\n";
        }
        self.verdict(page);
        self.floors(page);
        self.components(page);
    }

    fn verdict(&self, page: &mut String) {
        if let Some(judgement) = &self.judgement {
            let _ = write!(page, "\n**{}** (", capital(&judgement.sentence()));
            *page += "paired by task, 95 % intervals; docs/training.md defines the words).\n\n";
            *page += "| difference | mean | interval | tasks |\n|---|---:|---|---:|\n";
            let rows = [
                ("greedy, after − before", Some(judgement.greedy)),
                ("sampled, after − before", Some(judgement.sampled)),
                ("sampled, after − the start, sharpened", judgement.over_sharpened),
                ("the start, sharpened − sampled before", judgement.sharpening),
            ];
            for (name, difference) in rows {
                let Some(Difference { mean, ci: [low, high], tasks }) = difference else { continue };
                let [mean, low, high] = [mean, low, high].map(signed);
                let _ = writeln!(page, "| {name} | {mean} | {low} to {high} | {tasks} |");
            }
        }
        if !self.probes.is_empty() {
            *page += "\nThe policy greedily, with its tools changed: it does worse where it knows them by place or by name.\n";
        }
        for probe in &self.probes {
            let Some(Difference { mean, ci: [low, high], .. }) = probe.difference else { continue };
            let what = capital(probe.tools.words());
            let [mean, low, high] = [mean, low, high].map(signed);
            let _ = write!(page, "\n{what}: greedy success {mean}, {low} to {high}.\n");
        }
        if let Some(gain) = &self.gain {
            let Difference { mean, ci: [low, high], .. } = gain.difference;
            let [mean, low, high] = [mean, low, high].map(signed);
            let _ = write!(
                page,
                "\nGain over the best of the start and its controls ({}), sampled: {mean}, {low} to {high}: {}.\n",
                gain.over,
                gain.difference.word()
            );
        }
        for note in self.no_verdict.iter().chain(&self.notes) {
            let _ = write!(page, "\nNote: {note}.\n");
        }
    }

    fn floors(&self, page: &mut String) {
        if let Some(best) = self.best_baseline() {
            let _ = write!(page, "\n### Policies without a model\n\nBest scripted policy: {}, ", best.name);
            let _ = write!(page, "{}.\n\n", number(best.success, 3));
            *page += "| policy | success | interval | episodes | unscored | faults |\n|---|---:|---|---:|---:|---:|\n";
            for floor in &self.baselines {
                let (success, ci) = (number(floor.success, 3), interval(floor.ci));
                let _ = writeln!(
                    page,
                    "| {} | {success} | {ci} | {} | {} | {} |",
                    floor.name, floor.n, floor.unscored, floor.faults
                );
            }
        }
        if let Some(overlap) = &self.overlap {
            let share =
                |value: Option<f64>| value.map_or_else(|| "not known".to_owned(), |value| format!("{value:.3}"));
            let _ = write!(
                page,
                "\nOf {} held-out tasks, the share whose prompt is a training task's word for word: {}; whose reference \
                 calls are: {}; both at once: {}.\n",
                overlap.held_out,
                share(overlap.prompts),
                share(overlap.calls),
                share(overlap.tasks)
            );
        }
    }

    fn components(&self, page: &mut String) {
        let kind = self.headline();
        let (Some(before), Some(after)) = (&kind.before, &kind.after) else { return };
        let _ = write!(page, "\nMeans over the {} episodes: every component, and how often", self.headline.name());
        *page += " each tool was called.\n\n| | before | after | difference |\n|---|---:|---:|---:|\n";
        let (before, after) = (&before.result, &after.result);
        for (name, before, after) in both(&before.components, &after.components) {
            let _ = writeln!(page, "| {name} | {before:.4} | {after:.4} | {:+.4} |", rounded(after - before, 4));
        }
        for (tool, before, after) in both(&before.calls, &after.calls).filter(|(_, before, after)| before + after > 0.0)
        {
            let _ = writeln!(page, "| calls of {tool} | {before:.3} | {after:.3} | {} |", signed(after - before));
        }
    }
}

fn row(name: &str, result: &Evaluation) -> String {
    let filters = if result.filters { ", filtered" } else { "" };
    format!(
        "| {name} | {}{filters} | {} | {} | {} | {} | {} | {} | {} |\n",
        (f64::from(result.temperature) * 1000.0).round() / 1000.0,
        number(result.success, 3),
        interval(result.ci),
        number(result.entropy, 4),
        number(result.parse_failure_rate, 4),
        result.n,
        result.unscored,
        result.faults
    )
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn interval(ci: Option<[f64; 2]>) -> String {
    ci.map_or_else(|| "–".to_owned(), |[low, high]| format!("{low:.3} to {high:.3}"))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Values measured both before and after.
fn both<'a>(
    before: &'a BTreeMap<String, f64>,
    after: &'a BTreeMap<String, f64>,
) -> impl Iterator<Item = (&'a str, f64, f64)> {
    before.iter().filter_map(|(name, value)| Some((name.as_str(), *value, *after.get(name)?)))
}
