//! `env_reward`: the environment's own reward, as remote servers send it.

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored, unscored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "env_reward",
    about: "The reward given by the environment itself, as sent by OpenEnv servers, Fleet verifiers and adapters",
    advice: "For remote environments; a null reward, or a verifier without a verdict, is unscored and never 0",
    paper: None,
    options: Options::of::<EnvReward>(),
    make: plain::<EnvReward>,
};

/// Reward that an environment gives an episode: the fact `env_reward`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Given {
    /// Value of the reward; absent if the environment gave none.
    pub value: Option<f64>,
    /// Reason, as given by the environment.
    pub why: String,
    /// True when the environment ended the episode, or judged it. Otherwise a missing reward is the policy's doing.
    pub ended: bool,
}

documented! {
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub(crate) struct EnvReward {
        /// The value of an episode that ended before the environment gave a reward: by a limit, an unreadable reply, or a
        /// reply where a call was due.
        unfinished: f64 where real(-1e6, 1e6),
    }
}

impl Measure for EnvReward {
    fn measure(&self, case: &Case) -> Verdict {
        match &case.env_reward {
            None => not_applicable("the environment gives no reward of its own (`env_reward`)"),
            Some(Given { value: Some(value), why, .. }) => {
                scored(*value, if why.is_empty() { "given: by the environment" } else { why })
            }
            Some(Given { value: None, why, ended: true }) => {
                let why = if why.is_empty() { "it ended the episode without one" } else { why };
                unscored(format!("no_reward: {why}"))
            }
            Some(Given { value: None, .. }) => {
                scored(self.unfinished, "unfinished: the episode was over before the environment gave a reward")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn verdict(given: Value) -> Option<f64> {
        let case = Case::read(json!({"env_reward": given})).unwrap();
        EnvReward::default().measure(&case).value()
    }

    #[test]
    fn no_reward_is_not_zero_and_leaving_early_is_no_way_out() {
        assert_eq!(verdict(json!({"value": 0.0, "ended": true})), Some(0.0));
        assert_eq!(verdict(json!({"value": null, "ended": true})), None);
        assert_eq!(verdict(json!({"value": 0.5})), Some(0.5));
        assert_eq!(verdict(json!({})), Some(0.0));
    }
}
