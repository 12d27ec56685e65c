use hone_arena::rewards::TOTAL;

use crate::evidence::{Evidence, Played};
use crate::law::{Breach, Checked, Law, LawText, Severity};
use crate::probe::Sweep;

/// Being right more often never pays less.
#[derive(Debug)]
pub(super) struct AccuracyPays;

impl Law for AccuracyPays {
    fn about(&self) -> LawText {
        LawText {
            name: "accuracy_pays",
            law: "With the best confidence, being right more often never earns less: being predictably wrong does \
                not pay.",
            measure: "V(p), the largest expected total over confidences for an answer that is right with probability p, never \
                      lies under V(0) by more than 1 % of the solution's total. For a Brier score: correctness weighs at \
                      least as much as calibration.",
            repair: "Give `correct` at least the `weight` of `calibration`, or pay calibration to the confidence alone: \
                     `weight = 0` and `credit = { name = \"grpo\", arguments = { confidence = \"calibration\" } }`.",
            explains: &["blind_weight", "floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let solved = |played: &Played, as_wanted: bool| played.solved(&evidence.success) == Some(as_wanted);
        let right = evidence.curve(Sweep::ConfidenceRight, TOTAL, |played| solved(played, true));
        let wrong = evidence.curve(Sweep::ConfidenceWrong, TOTAL, |played| solved(played, false));
        let Some(oracle) = evidence.oracle_mean(TOTAL).filter(|_| right.len() == 11 && wrong.len() == 11) else {
            return Checked::Skipped("an answer with a confidence, and tasks that can be answered wrong".into());
        };
        let value = |p: f64| {
            let expected = right.iter().zip(&wrong).map(|((_, right), (_, wrong))| p * right + (1.0 - p) * wrong);
            expected.fold(f64::NEG_INFINITY, f64::max)
        };
        let (nothing, lowest) =
            (value(0.0), (1..=10).map(|tenth| f64::from(tenth) / 10.0).min_by(|a, b| value(*a).total_cmp(&value(*b))));
        match lowest {
            Some(p) if value(p) < nothing - 0.01 * oracle.abs() => {
                let says = format!(
                    "being right {:.0} % of the time earns {:.3} at best, never being right {nothing:.3}",
                    100.0 * p,
                    value(p)
                );
                Checked::Broken(vec![Breach::new(Severity::Error, TOTAL, says)])
            }
            _ => Checked::Holds,
        }
    }
}
