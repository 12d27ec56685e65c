use hone_arena::rewards::TOTAL;

use crate::evidence::{Evidence, mean};
use crate::law::{Breach, Checked, Law, LawText, Severity};
use crate::probe::Mark;

/// A wrong answer earns less than the right one.
#[derive(Debug)]
pub(super) struct DefectCosts;

/// Least cost of a defect, as a share of the range from an empty reply to the solution.
const LEAST: f64 = 0.02;

impl Law for DefectCosts {
    fn about(&self) -> LawText {
        LawText {
            name: "defect_costs",
            law: "A solution with one thing wrong, which the environment's own test rejects, earns less than the \
                  solution.",
            measure: "Mean total of the solution less that of each defect, over the tasks on which the environment's \
                      test tells them apart: under 2 % of the range from nothing to the solution.",
            repair: "Pay the environment's own test: `kind = \"correct\"` (or \"tau\", \"tau_state\"), with the largest \
                     `weight` of the rubric.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let (Some(oracle), Some(nothing)) = (evidence.oracle_mean(TOTAL), evidence.nothing()) else {
            return Checked::Skipped("tasks with a reference".into());
        };
        let range = oracle - nothing;
        let (mut breaches, mut seen) = (Vec::new(), false);
        for line in evidence.lines().iter().filter(|line| line.mark == Some(Mark::OneWrong)) {
            let mine = evidence.episodes().filter(|played| played.probe == line.probe && played.label == line.label);
            let wrong = mine.filter(|played| played.solved(&evidence.success) == Some(false));
            let costs: Vec<f64> =
                wrong.filter_map(|played| Some(evidence.oracle(played.task, TOTAL)? - played.value(TOTAL)?)).collect();
            seen |= !costs.is_empty();
            let Some(cost) = mean(costs.iter().copied()).filter(|cost| range > 0.0 && *cost < LEAST * range) else {
                continue;
            };
            let says = format!(
                "{}: it costs {cost:.3} of a total of {oracle:.3}, and the environment finds it wrong",
                line.label
            );
            let breach = Breach::new(Severity::Error, TOTAL, says);
            breaches.push(
                breach.line(format!("{} tasks on which the environment tells it from the solution", costs.len())),
            );
        }
        if seen { Checked::of(breaches) } else { Checked::Skipped("a defect that the environment finds wrong".into()) }
    }
}
