//! Off-policy corrections (importance sampling) for tokens that were drawn from a distribution other than the
//! learner's.
//!
//! The mismatch has many causes (different kernels, quantised weights, top-p, a stale sampler); the correction weights
//! tokens by the importance ratio, truncates it (TIS) or masks tokens beyond a bound (MIS).

use hone_trace::documented;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, UnknownName, catalogue, find};

/// A factor on the surrogate of every token: its ratio old / behaviour, bounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CorrectionForm", into = "CorrectionForm")]
pub struct Correction {
    pub spread: Spread,
    pub bound: Bound,
    pub min: Option<f64>,
    pub max: f64,
}

/// Range of the ratio: one token, or the whole sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    Token,
    /// The product over the sequence.
    Sequence,
    /// The geometric mean over the sequence.
    Geometric,
}

/// Treatment of ratios beyond the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Truncate,
    Mask,
}

/// The corrections and their names.
pub(crate) static CORRECTIONS: &[Entry<(Spread, Bound)>] = catalogue! {
    /// c = clamp(e^d, min, max), each token its own.
    /// TIS. Mild and robust; max 2 to 3.
    "token_truncate" => (Spread::Token, Bound::Truncate), after "Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, fengyao.notion.site/off-policy-rl";
    /// c = e^d, and 0 outside [min, max].
    /// MIS per token: excludes tokens on which sampler and learner disagree.
    "token_mask" => (Spread::Token, Bound::Mask), after "Ling team 2025, IcePop, ringtech.notion.site/icepop";
    /// c = clamp(e^(sum of d), min, max), one for the sequence.
    /// Unbiased except for the truncation; the variance grows with length.
    "sequence_truncate" => (Spread::Sequence, Bound::Truncate), after "Liu, Li et al. 2025, When Speed Kills Stability, yingru.notion.site";
    /// c = e^(sum of d), and 0 outside [min, max].
    /// MIS: excludes sequences on which sampler and learner disagree. Max 3.
    "sequence_mask" => (Spread::Sequence, Bound::Mask), after "Liu, Li et al. 2025, When Speed Kills Stability, yingru.notion.site";
    /// c = clamp(e^(mean of d), min, max), one for the sequence.
    /// As "sequence_truncate" without its growth with length; slightly biased.
    "geometric_truncate" => (Spread::Geometric, Bound::Truncate);
    /// c = e^(mean of d), and 0 outside [min, max].
    /// A tight sequence filter; bounds such as 0.99 and 1.01.
    "geometric_mask" => (Spread::Geometric, Bound::Mask), after "Liu, Li et al. 2025, When Speed Kills Stability, yingru.notion.site";
};

documented! {
    /// The written form: `{ mode = "token_truncate", max = 2.0 }`.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct CorrectionForm {
        /// Level of the ratio and treatment beyond the bounds: docs/algorithms.md.
        mode: String,
        /// The least factor; absent: 0.
        #[serde(default)]
        min: Option<f64> where real(0.0, 1e6),
        /// The largest factor.
        max: f64 where over(0.0, 1e6),
    }
}

impl TryFrom<CorrectionForm> for Correction {
    type Error = UnknownName;

    fn try_from(form: CorrectionForm) -> Result<Self, UnknownName> {
        let (spread, bound) = find("off-policy correction", CORRECTIONS, &form.mode)?.make;
        Ok(Self { spread, bound, min: form.min, max: form.max })
    }
}

impl From<Correction> for CorrectionForm {
    fn from(Correction { spread, bound, min, max }: Correction) -> Self {
        // Every pair of spread and bound is in the table above.
        let entry = CORRECTIONS.iter().find(|entry| entry.make == (spread, bound));
        Self { mode: entry.map_or_else(String::new, |entry| entry.name.to_owned()), min, max }
    }
}

impl Correction {
    /// The factor of every token of one sequence.
    pub(super) fn factors(&self, old: &[f64], behaviour: &[f64], out: &mut Vec<f64>) {
        let gaps = old.iter().zip(behaviour).map(|(old, behaviour)| old - behaviour);
        out.clear();
        match self.spread {
            Spread::Token => out.extend(gaps.map(|gap| self.bounded(gap.exp()))),
            Spread::Sequence | Spread::Geometric => {
                let parts = if self.spread == Spread::Geometric { old.len().max(1) as f64 } else { 1.0 };
                let factor = self.bounded((gaps.sum::<f64>() / parts).exp());
                out.resize(old.len(), factor);
            }
        }
    }

    fn bounded(&self, ratio: f64) -> f64 {
        let min = self.min.unwrap_or(0.0);
        match self.bound {
            Bound::Truncate => ratio.max(min).min(self.max),
            Bound::Mask if ratio >= min && ratio <= self.max => ratio,
            Bound::Mask => 0.0,
        }
    }
}
