use hone_arena::rewards::TOTAL;

use crate::evidence::{Evidence, mean};
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Role;

/// Nothing earns more than the solution.
#[derive(Debug)]
pub(super) struct OracleIsBest;

/// On the mean over tasks: a hundredth of a component's range.
const SLACK: f64 = 0.01;

impl Law for OracleIsBest {
    fn about(&self) -> LawText {
        LawText {
            name: "oracle_is_best",
            law: "The task's own solution earns the most of every component that rewards, and of the total.",
            measure: "Mean over tasks of what a probe's variant earns above the solution (the better of the two that state \
                      its own confidence and full confidence): over 0.01. Components that only punish are left out; doing \
                      nothing breaks no rule.",
            repair: "Measure against the reference: `kind = \"parsimony\"` is 1 at the reference's own length, `kind = \
                     \"rouge_l\"` with `on = \"resolution\"` at its own words. A component that the solution cannot earn in \
                     full teaches something else.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        if evidence.oracle_mean(TOTAL).is_none() {
            return Checked::Skipped("tasks with a reference".into());
        }
        let names = || evidence.components.iter().map(|component| component.name.as_str()).chain([TOTAL]);
        let mut breaches: Vec<Breach> = Vec::new();
        for name in names() {
            let punishes = evidence.episodes().filter_map(|played| played.value(name)).all(|value| value <= 0.0);
            if punishes {
                continue;
            }
            let Some((above, label, value)) = best(evidence, name).filter(|(above, ..)| *above > SLACK) else {
                continue;
            };
            let oracle = evidence.oracle_mean(name).unwrap_or_default();
            let says = format!("`{name}` pays {value:.3} for {label} and {oracle:.3} for the solution");
            let line = format!("{above:.3} more, on the mean over tasks");
            breaches.push(Breach::new(if_paid(evidence, name), name, says).line(line));
        }
        Checked::of(breaches)
    }
}

/// The variant that is most above the solution: by how much, its label, its mean.
fn best(evidence: &Evidence, component: &str) -> Option<(f64, String, f64)> {
    let lines = evidence.lines();
    let others = lines.iter().filter(|line| line.role != Role::Oracle && 2 * line.tasks > evidence.tasks);
    let above = others.filter_map(|line| {
        let mine = || evidence.episodes().filter(|played| played.probe == line.probe && played.label == line.label);
        let gain =
            mine().filter_map(|played| Some(played.value(component)? - evidence.oracle(played.task, component)?));
        Some((mean(gain)?, line.label.clone(), *line.means.get(component)?))
    });
    above.max_by(|a, b| a.0.total_cmp(&b.0))
}
