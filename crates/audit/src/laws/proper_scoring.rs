use hone_arena::rewards::TOTAL;

use crate::evidence::{Evidence, Played};
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Sweep;

/// Honesty is the best confidence.
#[derive(Debug)]
pub(super) struct ProperScoring;

impl Law for ProperScoring {
    fn about(&self) -> LawText {
        LawText {
            name: "proper_scoring",
            law: "A component that depends on the stated confidence is largest, in expectation, where the confidence is the \
                  probability of being right.",
            measure: "With R(c) and W(c) the means on right and on wrong answers at confidence c: for p = 0.1 … 0.9 the c \
                      among 0, 0.1 … 1 with the largest p R(c) + (1 - p) W(c) is p, or next to it.",
            repair: "`kind = \"calibration\"`: 1 - (c - y)² with y from the environment's own test. No clamp that binds, no \
                     graded y such as ROUGE-L; `credit.skill_over` pays what a constant does not earn.",
            explains: &["accuracy_pays", "blind_weight", "floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let right = |played: &Played| played.solved(&evidence.success) == Some(true);
        let wrong = |played: &Played| played.solved(&evidence.success) == Some(false);
        let curves = |name: &str| {
            (evidence.curve(Sweep::ConfidenceRight, name, right), evidence.curve(Sweep::ConfidenceWrong, name, wrong))
        };
        let (on_right, on_wrong) = curves(TOTAL);
        if on_right.len() < 11 || on_wrong.len() < 11 {
            return Checked::Skipped("an answer with a confidence, and tasks that can be answered wrong".into());
        }
        let mut breaches = Vec::new();
        for component in &evidence.components {
            let name = component.name.as_str();
            let (on_right, on_wrong) = curves(name);
            if on_right.len() < 11 || on_wrong.len() < 11 || (spread(&on_right) < 0.02 && spread(&on_wrong) < 0.02) {
                continue;
            }
            let best: Vec<(f64, f64)> =
                (1..10).map(|tenth| f64::from(tenth) / 10.0).map(|p| (p, best(&on_right, &on_wrong, p))).collect();
            let farthest = best.iter().copied().max_by(|a, b| (a.1 - a.0).abs().total_cmp(&(b.1 - b.0).abs()));
            let Some((p, c)) = farthest.filter(|(p, c)| (c - p).abs() > 0.1 + 1e-9) else { continue };
            let says = format!(
                "`{name}` is best served by confidence {c} where an answer is right {:.0} % of the time",
                100.0 * p
            );
            let pairs: Vec<String> = best.iter().map(|(p, c)| format!("{p}: {c}")).collect();
            let peak = on_wrong.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            let mut breach = Breach::new(if_paid(evidence, name), name, says)
                .line(format!("probability of being right and best confidence: {}", pairs.join(", ")));
            if let Some((at, value)) = peak {
                breach = breach.line(format!("wrong answers earn {value:.2} of it at a constant confidence of {at}"));
            }
            breaches.push(breach);
        }
        Checked::of(breaches)
    }
}

fn spread(curve: &[(f64, f64)]) -> f64 {
    let values = || curve.iter().map(|(_, value)| *value);
    values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
}

/// The confidence with the largest expectation; of several, the one nearest to `p`.
fn best(right: &[(f64, f64)], wrong: &[(f64, f64)], p: f64) -> f64 {
    let expected = right.iter().zip(wrong).map(|((c, right), (_, wrong))| (*c, p * right + (1.0 - p) * wrong));
    let most = expected.clone().map(|(_, value)| value).fold(f64::NEG_INFINITY, f64::max);
    let among = expected.filter(|(_, value)| *value > most - 1e-9).map(|(c, _)| c);
    among.min_by(|a, b| (a - p).abs().total_cmp(&(b - p).abs())).unwrap_or(p)
}
