//! Rewards: a value with a reason, or no value with a reason. Never a bare zero.

use serde::{Deserialize, Serialize};

/// Reward of one trace by one component.
///
/// Written `{"component": "format", "value": 0.5, "why": "…"}` or `{"component": "judge", "unscored": "…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    pub component: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A score, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Verdict {
    Scored { value: f64, why: String },
    Unscored { unscored: String },
}

impl Reward {
    /// The largest value of either sign that is a score. No intended reward is a million; one such value among rewards
    /// of about 1 would dominate the mean and deviation of its batch.
    pub(crate) const LARGEST: f64 = 1e6;

    /// A value that is not finite or beyond [`Reward::LARGEST`] is a broken scorer, not a score: it is recorded as unscored.
    pub fn scored(component: impl Into<String>, value: f64, why: impl Into<String>) -> Self {
        let why = why.into();
        let verdict = if !value.is_finite() {
            Verdict::Unscored { unscored: format!("the scorer returned {value} ({why})") }
        } else if value.abs() > Self::LARGEST {
            let unscored =
                format!("the scorer returned {value:e}, and no reward is beyond ±{:e} ({why})", Self::LARGEST);
            Verdict::Unscored { unscored }
        } else {
            Verdict::Scored { value, why }
        };
        Self { component: component.into(), verdict }
    }

    pub fn unscored(component: impl Into<String>, why: impl Into<String>) -> Self {
        Self { component: component.into(), verdict: Verdict::Unscored { unscored: why.into() } }
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Scored { value, .. } => Some(value),
            Verdict::Unscored { .. } => None,
        }
    }

    pub fn why(&self) -> &str {
        match &self.verdict {
            Verdict::Scored { why, .. } => why,
            Verdict::Unscored { unscored } => unscored,
        }
    }
}
