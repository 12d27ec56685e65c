//! Level of the importance ratio: a token, or the whole sequence.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, catalogue};

/// The level a ratio is taken at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    #[default]
    Token,
    Sequence,
    SequenceToken,
}

/// The levels and their names.
pub(crate) static LEVELS: &[Entry<Level>] = catalogue! {
    /// ρ = e^(l−o), each token its own.
    /// The default.
    "token" => Level::Token;
    /// ρ = e^(mean of l−o over the sequence), the same for all its tokens.
    /// GSPO. For long sequences and mixtures of experts, where single-token ratios are noise; clip ranges are then 1000 times smaller.
    "sequence" => Level::Sequence, after "Zheng et al. 2025, Group Sequence Policy Optimization, arXiv:2507.18071";
    /// The sequence's ratio as a value, but each token's gradient flows through its own logprob only.
    /// GSPO-token. As "sequence", when tokens of one sequence have different advantages (per-turn credit).
    "sequence_token" => Level::SequenceToken, after "Zheng et al. 2025, Group Sequence Policy Optimization, arXiv:2507.18071";
};

/// The policy the ratio compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// The sampler; with a `loss.correction`, the learner before its first update on the batch.
    #[default]
    Old,
    /// The sampler, under the trained policy's distribution.
    Sampler,
}

/// Log ratios beyond this are held there, without a gradient: e^20 is far outside every clip range already.
pub(super) const LOG_RATIO_BOUND: f64 = 20.0;

impl Level {
    /// The log ratio of every token, from the differences logp − anchor of one sequence.
    pub(super) fn log_ratios(self, differences: &[f64], out: &mut Vec<f64>) {
        out.clear();
        match self {
            Self::Token => out.extend(differences),
            Self::Sequence | Self::SequenceToken => {
                let mean = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
                out.resize(differences.len(), mean);
            }
        }
        for ratio in out {
            *ratio = ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND);
        }
    }

    /// Carries d loss / d log ratio of one sequence's tokens back to their logprobs, adding to `out`.
    pub(super) fn pull_back(self, slopes: &[f64], out: &mut [f64]) {
        match self {
            Self::Token | Self::SequenceToken => {
                for (out, slope) in out.iter_mut().zip(slopes) {
                    *out += slope;
                }
            }
            Self::Sequence => {
                let shared = slopes.iter().sum::<f64>() / slopes.len().max(1) as f64;
                for out in out {
                    *out += shared;
                }
            }
        }
    }
}
