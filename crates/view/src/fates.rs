//! Fates of sampled tokens: trained, or not trained and why.

use hone_train::ledger::names::{self, Metric};

/// Fate of some of the sampled tokens of a step.
pub(crate) struct Fate {
    pub name: &'static str,
    pub tokens: Metric,
    /// Class of its colour on a page.
    pub class: &'static str,
    pub means: &'static str,
}

/// All fates, the trained tokens first.
pub(crate) static FATES: [Fate; 8] = [
    Fate { name: "trained", tokens: names::TOKENS_TRAINED, class: "good", means: "the advantage reached the gradient" },
    Fate {
        name: "zero advantage",
        tokens: names::TOKENS_ZERO_ADVANTAGE,
        class: "flat",
        means: "all rollouts of the group earned the same, or there was no other: there is no preference to learn",
    },
    Fate { name: "clipped", tokens: names::TOKENS_CLIPPED, class: "warn", means: "the clip set the gradient to zero" },
    Fate {
        name: "masked",
        tokens: names::TOKENS_MASKED,
        class: "warn",
        means: "a mask or an off-policy correction took them out",
    },
    Fate {
        name: "skipped",
        tokens: names::TOKENS_SKIPPED,
        class: "warn",
        means: "the optimizer step was not taken, or was taken back",
    },
    Fate { name: "unscored", tokens: names::TOKENS_UNSCORED, class: "bad", means: "the rollout has no reward" },
    Fate {
        name: "truncated",
        tokens: names::TOKENS_TRUNCATED,
        class: "bad",
        means: "a length limit cut the rollout short, and the recipe does not train on such",
    },
    Fate {
        name: "faulted",
        tokens: names::TOKENS_FAULTED,
        class: "bad",
        means: "something outside the policy broke the rollout: it is in no statistics",
    },
];
