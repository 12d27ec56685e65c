//! Rollout settings: limits, deadlines, and the treatment of calls and malformed replies.

use std::time::Duration;

use hone_chat::SpecialTokens;
use hone_chat::parse::Format;
use hone_trace::Action;
use serde::{Deserialize, Serialize};

use crate::documented;

documented! {
    /// Settings of the rollout driver, as a recipe's `[rollout]` table.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct RolloutSettings {
        /// Context window in tokens: prompt, replies and observations together.
        pub window: usize where whole(1, 10_000_000),
        /// Agent turns of an episode.
        pub max_turns: u32 where whole(1, 10_000),
        /// Tokens one tool result may take; longer ones are cut in the middle, and the cut is marked in the text.
        pub tool_output_tokens: usize where whole(1, 10_000_000),
        /// Tokens all observations of an episode may take.
        pub episode_output_tokens: usize where whole(1, 100_000_000),
        /// Seconds an episode may take, waiting for memory not counted.
        pub wall_s: f64 where over(0.0, 1e6),
        /// Seconds the environment may take to answer one action.
        pub env_deadline_s: f64 where over(0.0, 1e6),
        /// Seconds it may take to answer a reply, or to open: a simulated user may be a model that thinks.
        pub user_deadline_s: f64 where over(0.0, 1e6),
        /// Seconds one reply may take to sample.
        pub sampler_deadline_s: f64 where over(0.0, 1e6),
        /// Attempts at an episode before a fault excludes it from its group.
        pub attempts: u32 where whole(1, 100),
        /// Seconds before the second attempt; doubled for each further one.
        pub backoff_s: f64 where real(0.0, 3_600.0),
        /// Concurrent episodes. Where the native engine has no memory for the keys and values of all of them, the younger
        /// ones wait between turns.
        pub concurrency: usize where whole(1, 65_536).may_change(),
        /// Execution of several calls in one reply: only the first, all in order, or all at once.
        pub calls: CallMode,
        /// Treatment of a malformed reply: the agent is told and may try again, or the episode ends.
        pub malformed: OnMalformed,
        /// Treatment of a reply with exactly one repaired reading: it runs, or it is rejected. A parse failure either way.
        pub repair: OnRepair,
        /// Treatment of special tokens spelt out in messages of users and tools: `defuse` makes them text, so that no tool's
        /// answer ends its own turn; `keep` makes them tokens, as transformers does.
        pub special_tokens: SpecialTokens,
        /// Tool-call format; absent: the format that the model's chat template writes.
        #[serde(skip_serializing_if = "Option::is_none", with = "format_name")]
        pub format: Option<Format>,
    }
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self {
            window: 4096,
            max_turns: 16,
            tool_output_tokens: 1024,
            episode_output_tokens: 16_384,
            wall_s: 600.0,
            env_deadline_s: 30.0,
            user_deadline_s: 120.0,
            sampler_deadline_s: 300.0,
            attempts: 3,
            backoff_s: 0.2,
            concurrency: 64,
            calls: CallMode::default(),
            malformed: OnMalformed::default(),
            repair: OnRepair::default(),
            special_tokens: SpecialTokens::default(),
            format: None,
        }
    }
}

impl RolloutSettings {
    /// Deadline of the environment for an action.
    pub(super) fn step_deadline(&self, action: &Action) -> Duration {
        match action {
            Action::Calls(_) | Action::Malformed(_) => seconds(self.env_deadline_s),
            Action::Reply(_) => self.open_deadline(),
        }
    }

    pub(super) fn open_deadline(&self) -> Duration {
        seconds(self.user_deadline_s.max(self.env_deadline_s))
    }

    /// Longest text in bytes that is passed to the tokenizer: at 64 bytes per token nothing longer fits the window, and
    /// encoding 10 MB just to find that out takes over a gigabyte.
    pub(super) fn longest_text(&self) -> usize {
        self.window.saturating_mul(64)
    }

    pub(super) fn sampler_deadline(&self) -> Duration {
        seconds(self.sampler_deadline_s)
    }

    pub(super) fn backoff(&self, attempt: u32) -> Duration {
        seconds(self.backoff_s * f64::from(1u32 << attempt.min(10)))
    }
}

/// An invalid duration (negative, not a number) means none.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

/// Treatment of a reply that makes several calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// Only the first; the tokens after it are cut from the record, so that the next prompt extends what was trained.
    First,
    /// All, one after the other; calls after the one that ends the episode do not run.
    #[default]
    InOrder,
    /// All at once, as one action.
    Parallel,
}

/// Treatment of a reply that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMalformed {
    /// The agent is told what is wrong and may retry.
    #[default]
    Answer,
    /// The episode ends there.
    End,
}

/// Treatment of a reply with exactly one repaired reading. Counted as a parse failure either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRepair {
    #[default]
    Run,
    Reject,
}

mod format_name {
    use hone_chat::parse::Format;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(format: &Option<Format>, serializer: S) -> Result<S::Ok, S::Error> {
        match format {
            Some(format) => serializer.serialize_str(format.name()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Format>, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == "auto" {
            return Ok(None);
        }
        name.parse().map(Some).map_err(serde::de::Error::custom)
    }
}
