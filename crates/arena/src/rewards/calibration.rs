//! Calibration: the Brier score of the stated confidence, 1 - (c - y)².
//!
//! Strictly proper scoring rule: with success probability p the expectation is 1 - p(1 - p) - (c - p)², maximal at c =
//! p only. Two similar-looking forms are not proper, and are not offered: a binding clamp (max(0, 1 - 2(c - y)²) is
//! maximised by c = 0 or 1), and a graded y (any constant near its mean wins). y must come from a test that does not
//! look at c. A confidence that is absent or outside [0, 1] earns 0; there is no default.
//!
//! In a rubric give correctness at least the weight of calibration: below that, being predictably wrong pays.
//!
//! The score rises with accuracy whatever confidence is stated: a constant c = p earns 1 - p(1 - p). The value of
//! knowing when one is right is the skill over that constant, resolution minus reliability. It is not a separate
//! component: the base rate belongs to the batch, not to an episode, and in a total (p - y)² - (c - y)² would pay most
//! for the rarer outcome, which a policy can bring about by being wrong. Per-argument credit assigns it to the
//! confidence tokens only: `credit.skill_over`.

use std::collections::BTreeMap;

use hone_trace::{Forecast, Reward, Verdict};
use serde::Deserialize;

use super::catalogue::{ComponentEntry, plain};
use super::submission::on_submission;
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "calibration",
    about: "Brier score of the stated confidence c, 1 - (c - y)², with y from the environment's test: from 0 to 1",
    advice: "Give correctness at least its weight, or credit it only to the confidence tokens with `credit.arguments`",
    paper: Some("Brier 1950, Verification of Forecasts Expressed in Terms of Probability"),
    options: Options::NONE,
    make: plain::<Calibration>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Calibration {}

impl Measure for Calibration {
    fn measure(&self, case: &Case) -> Verdict {
        let Some(correct) = case.correct else {
            return not_applicable("nothing says whether the answer is `correct`");
        };
        on_submission(case, |submission| brier(submission.confidence, correct))
    }
}

pub fn brier(confidence: Option<f64>, correct: bool) -> Verdict {
    match confidence {
        None => scored(0.0, "no_confidence: none was stated"),
        Some(c) if !(0.0..=1.0).contains(&c) => scored(0.0, format!("bad_confidence: {c} is not in [0, 1]")),
        Some(c) => {
            let miss = c - f64::from(u8::from(correct));
            let right = if correct { "right" } else { "wrong" };
            Verdict::Scored {
                value: 1.0 - miss * miss,
                why: format!("brier: confidence {c} on a {right} answer"),
                forecast: Some(Forecast { confidence: c, correct }),
            }
        }
    }
}

/// Forecast that a recorded reward judged. Records of versions that did not record it have it in [`brier`]'s reason.
/// `None` if no confidence in [0, 1] was stated, and for other components.
pub fn forecast(reward: &Reward) -> Option<Forecast> {
    match &reward.verdict {
        Verdict::Scored { forecast: Some(forecast), .. } => Some(*forecast),
        Verdict::Scored { why, .. } => from_reason(why),
        _ => None,
    }
}

/// The forecast in a reason of [`brier`].
fn from_reason(why: &str) -> Option<Forecast> {
    let (confidence, outcome) = why.strip_prefix("brier: confidence ")?.split_once(" on a ")?;
    let correct = match outcome {
        "right answer" => true,
        "wrong answer" => false,
        _ => return None,
    };
    Some(Forecast { confidence: confidence.parse().ok()?, correct })
}

/// Murphy's decomposition of the mean Brier loss: loss = reliability - resolution + uncertainty.
///
/// A calibration reward that rises while `resolution` stays near 0 is a constant confidence, not knowledge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Murphy {
    pub loss: f64,
    pub reliability: f64,
    pub resolution: f64,
    pub uncertainty: f64,
}

/// Decomposes over the distinct confidences, so that the identity is exact. `None` for no forecasts.
pub fn murphy(forecasts: &[(f64, bool)]) -> Option<Murphy> {
    if forecasts.is_empty() {
        return None;
    }
    let n = forecasts.len() as f64;
    // The bits of non-negative floats sort like the floats; adding 0 maps -0 to 0.
    let mut bins: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let (mut loss, mut base) = (0.0, 0.0);
    for &(confidence, correct) in forecasts {
        let y = f64::from(u8::from(correct));
        let bin = bins.entry((confidence + 0.0).to_bits()).or_default();
        bin.0 += 1.0;
        bin.1 += y;
        loss += (confidence - y).powi(2) / n;
        base += y / n;
    }
    let (mut reliability, mut resolution) = (0.0, 0.0);
    for (bits, (count, hits)) in bins {
        let rate = hits / count;
        reliability += count / n * (f64::from_bits(bits) - rate).powi(2);
        resolution += count / n * (rate - base).powi(2);
    }
    Some(Murphy { loss, reliability, resolution, uncertainty: base * (1.0 - base) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_the_forecast_back_to_the_bit_with_its_field_or_without() {
        for (confidence, correct) in [(0.1 + 0.2, true), (0.0, false), (1.0, true), (1e-12, false)] {
            let reward = Reward::new("calibration", brier(Some(confidence), correct));
            let wanted = Some(Forecast { confidence, correct });
            let mut record = serde_json::to_value(&reward).unwrap();
            assert_eq!(forecast(&serde_json::from_value(record.clone()).unwrap()), wanted);
            record.as_object_mut().unwrap().remove("forecast").unwrap();
            assert_eq!(forecast(&serde_json::from_value(record).unwrap()), wanted, "as earlier versions recorded it");
        }
        for verdict in [brier(None, true), brier(Some(1.5), true), scored(1.0, "right: by the environment's own test")]
        {
            assert_eq!(forecast(&Reward::new("c", verdict)), None);
        }
    }
}
