//! Rewards: a value with a reason, or no value with a reason. Never a bare zero.

use serde::{Deserialize, Serialize};

/// Reward of one trace by one component.
///
/// Written `{"component": "format", "value": 0.5, "why": "…"}` or `{"component": "judge", "unscored": "…"}`, the latter
/// with `"not_applicable": true` if the component had nothing to score, or `"bad_value": true` if its value was no score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    pub component: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A score, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Verdict {
    Scored {
        value: f64,
        why: String,
        /// Forecast that the score judges. `None` for scores of anything else, and in records of earlier versions.
        forecast: Option<Forecast>,
    },
    /// The component does not apply: the task or the episode lacks what it scores.
    NotApplicable { why: String },
    /// Something broke: a scorer, a judge, the environment.
    Unscored {
        unscored: String,
        /// True if the scorer returned a value that is not a score: not finite, or absurdly large. Absent in records of
        /// earlier versions.
        bad_value: bool,
    },
}

/// Stated probability of being right, and the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    pub confidence: f64,
    pub correct: bool,
}

impl Verdict {
    pub fn scored(value: f64, why: impl Into<String>) -> Self {
        Self::Scored { value, why: why.into(), forecast: None }
    }

    pub fn unscored(why: impl Into<String>) -> Self {
        Self::Unscored { unscored: why.into(), bad_value: false }
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Scored { value, .. } => Some(*value),
            Self::NotApplicable { .. } | Self::Unscored { .. } => None,
        }
    }

    pub fn why(&self) -> &str {
        match self {
            Self::Scored { why, .. } | Self::NotApplicable { why } | Self::Unscored { unscored: why, .. } => why,
        }
    }
}

impl Reward {
    /// The largest value of either sign that is a score. No intended reward is a million; one such value among rewards
    /// of about 1 would dominate the mean and deviation of its batch.
    pub(crate) const LARGEST: f64 = 1e6;

    /// Reward by a verdict. A value that is not finite or beyond [`Reward::LARGEST`] is a broken scorer, not a score: it is
    /// recorded as unscored.
    pub fn new(component: impl Into<String>, verdict: Verdict) -> Self {
        let said = |why: &str| if why.is_empty() { String::new() } else { format!(" ({why})") };
        let broken = match &verdict {
            Verdict::Scored { value, why, .. } if !value.is_finite() => {
                Some(format!("the scorer returned {value}{}", said(why)))
            }
            Verdict::Scored { value, why, .. } if value.abs() > Self::LARGEST => Some(format!(
                "the scorer returned {value:e}, and no reward is beyond ±{:e}{}",
                Self::LARGEST,
                said(why)
            )),
            _ => None,
        };
        let bad = |unscored| Verdict::Unscored { unscored, bad_value: true };
        Self { component: component.into(), verdict: broken.map_or(verdict, bad) }
    }

    pub fn scored(component: impl Into<String>, value: f64, why: impl Into<String>) -> Self {
        Self::new(component, Verdict::scored(value, why))
    }

    pub fn unscored(component: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(component, Verdict::unscored(why))
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<f64> {
        self.verdict.value()
    }

    pub fn why(&self) -> &str {
        self.verdict.why()
    }
}

/// Verdict as recorded.
#[derive(Serialize, Deserialize)]
struct Form {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forecast: Option<Forecast>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unscored: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    not_applicable: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    bad_value: bool,
}

impl From<Verdict> for Form {
    fn from(verdict: Verdict) -> Self {
        let not_applicable = matches!(verdict, Verdict::NotApplicable { .. });
        let bad_value = matches!(verdict, Verdict::Unscored { bad_value: true, .. });
        let empty = Self { value: None, why: None, forecast: None, unscored: None, not_applicable, bad_value };
        match verdict {
            Verdict::Scored { value, why, forecast } => Self { value: Some(value), why: Some(why), forecast, ..empty },
            Verdict::NotApplicable { why } | Verdict::Unscored { unscored: why, .. } => {
                Self { unscored: Some(why), ..empty }
            }
        }
    }
}

impl TryFrom<Form> for Verdict {
    type Error = &'static str;

    fn try_from(form: Form) -> Result<Self, Self::Error> {
        match form {
            Form { value: Some(value), why: Some(why), forecast, .. } => Ok(Self::Scored { value, why, forecast }),
            Form { unscored: Some(why), not_applicable: true, .. } => Ok(Self::NotApplicable { why }),
            Form { unscored: Some(unscored), bad_value, .. } => Ok(Self::Unscored { unscored, bad_value }),
            _ => Err("a reward has a `value` with its `why`, or `unscored`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_broken_score_quotes_a_reason_where_there_is_one() {
        let why = |value, why: &str| Reward::scored("c", value, why).why().to_owned();
        assert_eq!(why(1e12, ""), "the scorer returned 1e12, and no reward is beyond ±1e6");
        assert_eq!(why(1e12, "w"), "the scorer returned 1e12, and no reward is beyond ±1e6 (w)");
        assert_eq!(why(f64::INFINITY, ""), "the scorer returned inf");
    }

    #[test]
    fn every_kind_of_verdict_is_read_back() {
        let forecast = Some(Forecast { confidence: 0.1 + 0.2, correct: true });
        for (verdict, written) in [
            (Verdict::scored(0.5, "w"), json!({"value": 0.5, "why": "w"})),
            (
                Verdict::Scored { value: 0.5, why: "w".into(), forecast },
                json!({"value": 0.5, "why": "w", "forecast": {"confidence": 0.1 + 0.2, "correct": true}}),
            ),
            (Verdict::unscored("not_applicable: by name alone"), json!({"unscored": "not_applicable: by name alone"})),
            (Verdict::NotApplicable { why: "w".into() }, json!({"unscored": "w", "not_applicable": true})),
            (Verdict::Unscored { unscored: "w".into(), bad_value: true }, json!({"unscored": "w", "bad_value": true})),
        ] {
            let reward = Reward { component: "c".into(), verdict };
            let mut expected = json!({"component": "c"});
            expected.as_object_mut().unwrap().extend(written.as_object().unwrap().clone());
            assert_eq!(serde_json::to_value(&reward).unwrap(), expected);
            assert_eq!(serde_json::from_value::<Reward>(expected).unwrap(), reward);
        }
        for broken in [json!({"component": "c"}), json!({"component": "c", "value": null, "why": "w"})] {
            assert!(serde_json::from_value::<Reward>(broken.clone()).is_err(), "{broken}");
        }
    }
}
