//! Verdict: whether a policy can do more after training, or is only more confident in what it could do.
//!
//! All comparisons are paired by task; a gain is one whose 95 % interval lies above 0.
//!
//! - **can do more**: the greedy success gained, and the sampled success after training is above that of the start
//!   sharpened to the same entropy (above the start as sampled, if the entropy did not fall).
//! - **is more confident**: the sampled success gained, and either the start also gains when it is merely
//!   sharpened, or the greedy success did not gain.
//! - **both**, or **neither shown**. Not shown is not shown to be absent: more held-out tasks may show it.

use serde::{Deserialize, Serialize};

use super::count::ByTask;
use super::interval::{Difference, paired};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    #[serde(rename = "can do more")]
    More,
    #[serde(rename = "is more confident", alias = "is surer of what it could do")]
    Confident,
    #[serde(rename = "both")]
    Both,
    #[serde(rename = "neither shown")]
    Neither,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Self::More => "can do more",
            Self::Confident => "is more confident",
            Self::Both => "both",
            Self::Neither => "neither shown",
        }
    }

    /// As a sentence about the policy.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::More => "the policy can do more than at the start",
            Self::Confident => "the policy is only more confident; no gain in ability is shown",
            Self::Both => "both: the policy can do more, and is more confident",
            Self::Neither => "neither is shown: that the policy can do more, or that it is more confident",
        }
    }

    /// True when it was shown that the policy can do more.
    pub fn is_more(self) -> bool {
        matches!(self, Self::More | Self::Both)
    }
}

/// Success by task before and after.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub greedy: [&'a ByTask; 2],
    pub sampled: [&'a ByTask; 2],
    /// The start at the temperature at which it is as confident as the end. Absent if the end is not more confident.
    pub sharpened: Option<&'a ByTask>,
}

/// The verdict with the differences it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Final minus starting policy, greedy.
    pub greedy: Difference,
    /// Final minus starting policy, sampled.
    pub sampled: Difference,
    /// Final policy, sampled, minus the sharpened starting policy.
    pub over_sharpened: Option<Difference>,
    /// The sharpened start minus the start as sampled: the value of confidence by itself.
    pub sharpening: Option<Difference>,
}

/// `None` if a comparison has no task in common.
pub fn judge(evidence: Evidence<'_>) -> Option<Judgement> {
    let greedy = paired(evidence.greedy[0], evidence.greedy[1])?;
    let sampled = paired(evidence.sampled[0], evidence.sampled[1])?;
    let against = |sharpened| {
        let over = paired(sharpened, evidence.sampled[1])?;
        Some((over, paired(evidence.sampled[0], sharpened)?))
    };
    let (over_sharpened, sharpening) = match evidence.sharpened {
        None => (None, None),
        Some(sharpened) => {
            let (over, worth) = against(sharpened)?;
            (Some(over), Some(worth))
        }
    };
    let more = greedy.is_gain() && over_sharpened.unwrap_or(sampled).is_gain();
    let confident = sampled.is_gain() && (sharpening.is_some_and(|worth| worth.is_gain()) || !greedy.is_gain());
    let verdict = match (more, confident) {
        (true, true) => Verdict::Both,
        (true, false) => Verdict::More,
        (false, true) => Verdict::Confident,
        (false, false) => Verdict::Neither,
    };
    Some(Judgement { verdict, greedy, sampled, over_sharpened, sharpening })
}
