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
use crate::interval::{Difference, paired};

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

    /// As a sentence about the policy, where the evidence adds nothing to it.
    fn sentence(self) -> &'static str {
        match self {
            Self::More => "the policy can do more than at the start",
            Self::Confident => "the policy is only more confident; no gain in ability is shown",
            Self::Both => "both: the policy can do more, and is more confident",
            Self::Neither => "no change is shown, neither in what the policy can do nor in its confidence",
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

impl Judgement {
    /// The verdict as a sentence about the policy that contradicts none of the differences.
    pub fn sentence(&self) -> String {
        let Self { verdict, greedy, sampled, .. } = self;
        let what = |difference: &Difference| match difference.ci {
            [low, _] if low > 0.0 => "improved",
            [_, high] if high < 0.0 => "got worse",
            _ => "shows no difference",
        };
        match (verdict, what(greedy), what(sampled)) {
            (Verdict::Confident, "improved", _) => {
                "the policy is more confident; greedy success improved too, but sampled success is not shown to be above \
                 that of the sharpened start"
                    .to_owned()
            }
            (Verdict::Neither, "improved", "improved") => format!(
                "greedy and sampled success improved, but not shown to be above that of the sharpened start on {} tasks: more \
                 held-out tasks would tell",
                sampled.tasks
            ),
            (Verdict::Neither, "shows no difference", "shows no difference") => verdict.sentence().to_owned(),
            (Verdict::Neither, "got worse", "got worse") => "greedy and sampled success got worse".to_owned(),
            (Verdict::Neither, of_greedy, of_sampled) => {
                let unsure = [of_greedy, of_sampled].contains(&"shows no difference");
                let more = if unsure { ": more held-out tasks would tell" } else { "" };
                format!("greedy success {of_greedy}; sampled success {of_sampled}, on {} tasks{more}", sampled.tasks)
            }
            _ => verdict.sentence().to_owned(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_contradicts_no_difference() {
        let difference =
            |low: f64, high: f64| Difference { mean: f64::midpoint(low, high), ci: [low, high], tasks: 32 };
        let (up, none, down) = (difference(0.05, 0.4), difference(-0.2, 0.2), difference(-0.4, -0.1));
        let says = |verdict, greedy, sampled| {
            Judgement { verdict, greedy, sampled, over_sharpened: None, sharpening: None }.sentence()
        };
        assert_eq!(
            says(Verdict::Neither, up, none),
            "greedy success improved; sampled success shows no difference, on 32 tasks: more held-out tasks would tell"
        );
        assert_eq!(
            says(Verdict::Neither, none, down),
            "greedy success shows no difference; sampled success got worse, on 32 tasks: more held-out tasks would tell"
        );
        assert!(says(Verdict::Neither, none, none).starts_with("no change is shown"));
        assert!(says(Verdict::Neither, up, up).starts_with("greedy and sampled success improved, but not shown"));
        assert!(says(Verdict::Confident, up, up).contains("greedy success improved too"));
        assert!(says(Verdict::Confident, none, up).starts_with("the policy is only more confident"));
        assert!(says(Verdict::More, up, up).starts_with("the policy can do more"));
    }
}
