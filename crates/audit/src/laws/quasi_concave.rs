use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Sweep;

/// One best length, and no dip on the way to it.
#[derive(Debug)]
pub(super) struct QuasiConcave;

/// A dip under this is noise of the words, not a branch.
const DIP: f64 = 0.08;

impl Law for QuasiConcave {
    fn about(&self) -> LawText {
        LawText {
            name: "quasi_concave",
            law: "Along a growing text every component rises to one best length and falls after it: no length pays less than \
                  both a shorter and a longer one.",
            measure: "Mean of each component over tasks along two sweeps, film trivia of 1 to 260 words and the solution with \
                      0 to 220 words of it after it: a dip of over 0.08. The total is left out: a sum of such curves may dip.",
            repair: "`kind = \"parsimony\"` with `weight = 0`, as a factor of a quality component: [[rubric.product]] of = \
                     [\"quality\", \"parsimony\"]. It is 1 at the reference's length and falls on both sides.",
            explains: &["oracle_is_best", "blind_weight", "floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let sweeps = [(Sweep::FillerWords, "film trivia"), (Sweep::PaddingWords, "the solution with trivia after it")];
        let mut breaches: Vec<Breach> = Vec::new();
        let mut seen = false;
        for (sweep, text) in sweeps {
            for name in evidence.components.iter().map(|component| component.name.as_str()) {
                let curve = evidence.curve(sweep, name, |_| true);
                seen |= !curve.is_empty();
                let Some((low, before, after)) = dip(&curve, DIP) else { continue };
                // Said once, by the first sweep that shows it.
                if breaches.iter().any(|breach| breach.component == name) {
                    continue;
                }
                let says = format!(
                    "`{name}` pays {:.2} at {} words ({text}), {:.2} at {} and {:.2} again at {}: a branch is inverted",
                    before.1, before.0, low.1, low.0, after.1, after.0
                );
                let shown: Vec<String> = curve.iter().map(|(words, value)| format!("{words}: {value:.2}")).collect();
                let line = format!("words and value: {}", shown.join(", "));
                breaches.push(Breach::new(if_paid(evidence, name), name, says).line(line));
            }
        }
        if seen { Checked::of(breaches) } else { Checked::Skipped("an answer with a place for text".into()) }
    }
}

type Point = (f64, f64);

/// The deepest interior dip: its bottom, and the best points on both sides.
fn dip(curve: &[Point], least: f64) -> Option<(Point, Point, Point)> {
    let best = |points: &[Point]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let dips = (1..curve.len().saturating_sub(1)).filter_map(|at| {
        let (before, after) = (best(&curve[..at])?, best(&curve[at + 1..])?);
        Some((before.1.min(after.1) - curve[at].1, (curve[at], before, after)))
    });
    dips.filter(|(depth, _)| *depth > least).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, found)| found)
}
