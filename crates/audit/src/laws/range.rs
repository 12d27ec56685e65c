use hone_trace::Verdict;

use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, Severity, if_paid};

/// Values are numbers between -1 and 1.
#[derive(Debug)]
pub(super) struct Range;

impl Law for Range {
    fn about(&self) -> LawText {
        LawText {
            name: "range",
            law: "A component's values are finite and lie between -1 and 1: weights say how much each counts.",
            measure: "Every component of every episode. Not a number, infinite or beyond ±1e6: error. Beyond ±1: error where \
                      it is paid, since its weight is not what it says.",
            repair: "Scale the component to 0..1 (a punishment to -1..0) and put the size into its `weight`.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let mut breaches = Vec::new();
        for component in &evidence.components {
            let name = component.name.as_str();
            let values: Vec<f64> = evidence.episodes().filter_map(|played| played.value(name)).collect();
            let broken = evidence.episodes().find_map(|played| {
                let reward = played.trace.rewards.iter().find(|reward| reward.component == name)?;
                matches!(reward.verdict, Verdict::Unscored { bad_value: true, .. }).then(|| (played, reward.why()))
            });
            if let Some((played, why)) = broken {
                breaches.push(Breach::new(
                    Severity::Error,
                    name,
                    format!("`{name}` is not a number for {}: {why}", played.label),
                ));
            }
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if !values.is_empty() && (low < -1.0 || high > 1.0) {
                let says = format!("`{name}` goes from {low:.3} to {high:.3}");
                breaches.push(Breach::new(if_paid(evidence, name), name, says));
            }
        }
        Checked::of(breaches)
    }
}
