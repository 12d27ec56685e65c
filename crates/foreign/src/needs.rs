//! Checks of the doctor that a record supports, and what the others would need.

use crate::record::{Curve, Record};

impl Record {
    /// Data that a check lacks in this record; `None` if it can be made.
    pub fn lacks(&self, check: &str) -> Option<&'static str> {
        let groups = self.group_size() >= 2 && self.episodes.iter().any(|episode| episode.total.is_some());
        let (there, needs) = match check {
            "no_signal" => (groups, "groups of at least two scored episodes of one task"),
            "dead_component" => {
                (groups && self.components.len() > 1, "groups of episodes with several reward components")
            }
            // Several rewards have weights that are not recorded: their sum need not be what was paid.
            "advantage_sign" => (
                groups && self.components.len() == 1 && self.episodes.iter().any(|episode| episode.advantage.is_some()),
                "advantages of the episodes, and one reward or the weights of several",
            ),
            "shared_gate" => (self.components.len() >= 3, "episodes with three reward components"),
            "unscored" => (!self.episodes.is_empty(), "episodes"),
            "truncated" => (self.has_endings, "how each episode ended (a stop reason)"),
            "faulted" => (self.has_faults, "which episodes broke outside the policy"),
            "gradients" => (self.has(Curve::GradNorm) || !self.not_finite.is_empty(), "the gradient's norm by step"),
            "kl_runaway" => (self.has(Curve::Kl), "the KL to the reference by step"),
            "learning_rate" => (self.has(Curve::LearningRate), "the learning rate by step"),
            "entropy_collapse" => {
                (self.has(Curve::Entropy) && groups, "the entropy by step, and episodes with their success")
            }
            "identical_rollouts" | "length_paid" => (false, "token ids of the episodes"),
            "logprob_mismatch" | "staleness" => (false, "logprobs and policy versions of the sampled tokens"),
            "nothing_trained" => (false, "which sampled tokens were trained"),
            "parse_failures" | "calls_not_run" => (false, "how each reply was parsed and what was run"),
            "reward_without_success"
            | "sharpening"
            | "placebo_collapse"
            | "too_few_tasks"
            | "decoding_filter"
            | "constant_confidence"
            | "do_nothing"
            | "no_recovery"
            | "scripted_shortcut"
            | "held_out_overlap" => (false, "evaluations on held-out tasks as Hone records them"),
            _ => (false, "a run that Hone recorded"),
        };
        (!there).then_some(needs)
    }
}
