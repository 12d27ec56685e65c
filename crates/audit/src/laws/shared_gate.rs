use hone_arena::rewards::TOTAL;

use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, Severity};
use crate::probe::Mark;

/// One fault of form does not take everything.
#[derive(Debug)]
pub(super) struct SharedGate;

impl Law for SharedGate {
    fn about(&self) -> LawText {
        LawText {
            name: "shared_gate",
            law: "A fault of form that can be repaired does not zero most of the rubric at once: a group of such \
                  replies would have no gradient.",
            measure: "The solution with a raw line break in a string or a trailing comma: at least three rewarding components \
                      with at least half of the weight lose everything the solution earns of them. Warning.",
            repair: "Parse leniently and pay in part: Hone's own content components pay 0.8 of their value for a \
                     repaired reply (`rollout.repair = \"run\"`), and `kind = \"parse_penalty\"` counts the fault by \
                     itself.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let lines = evidence.lines();
        let lines: Vec<_> = lines.iter().filter(|line| line.mark == Some(Mark::Repairable)).collect();
        if lines.is_empty() || evidence.oracle_mean(TOTAL).is_none() {
            return Checked::Skipped("an answer in a call, and tasks with a reference".into());
        }
        let all: f64 = evidence.components.iter().map(|component| component.weight).sum();
        for line in lines {
            let gone = evidence.components.iter().filter(|component| {
                let oracle = evidence.oracle_mean(&component.name).unwrap_or(0.0);
                component.weight > 0.0
                    && oracle > 0.05
                    && line.means.get(&component.name).is_some_and(|value| *value <= 0.0)
            });
            let gone: Vec<_> = gone.collect();
            let weight: f64 = gone.iter().map(|component| component.weight).sum();
            if gone.len() >= 3 && 2.0 * weight >= all {
                let names: Vec<String> = gone.iter().map(|component| format!("`{}`", component.name)).collect();
                let says = format!(
                    "{} in the right answer takes {} at once: {:.0} % of the weight behind one parse gate",
                    line.label,
                    names.join(", "),
                    100.0 * weight / all
                );
                return Checked::Broken(vec![Breach::new(Severity::Warning, TOTAL, says)]);
            }
        }
        Checked::Holds
    }
}
