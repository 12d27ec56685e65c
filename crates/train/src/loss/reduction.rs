//! Reductions: each token's share of the objective.
//!
//! A reduction is settled once, over all sequences of an optimizer step, as one weight per token. The loss multiplies
//! by the weights and divides by nothing, so the gradient cannot depend on how the step was split into micro-batches.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, catalogue};

/// Reduction of the terms of an optimizer step to one number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    TokenMean,
    SequenceMean,
    SequenceSum,
    /// Divides by this many tokens, whatever a sequence's length.
    ConstantLength(f64),
    PromptMean,
}

/// The reductions and their names. "constant_length" takes its length from the option `max_tokens`.
pub(crate) static REDUCTIONS: &[Entry<Reduction>] = catalogue! {
    /// 1 / tokens of the step.
    /// Every token counts the same, so long replies count more. The usual choice.
    "token_mean" => Reduction::TokenMean, after "Yu et al. 2025, DAPO, arXiv:2503.14476";
    /// 1 / (sequences × tokens of this sequence).
    /// Every reply counts the same; long bad replies are penalised less per token, which lets replies grow.
    "sequence_mean" => Reduction::SequenceMean, after "Shao et al. 2024, DeepSeekMath, arXiv:2402.03300";
    /// 1 / sequences.
    /// Sums over tokens: the gradient grows with length. With a sequence-level ratio this is LUSPO.
    "sequence_sum" => Reduction::SequenceSum, after "Liu et al. 2026, Length-Unbiased Sequence Policy Optimization, arXiv:2602.05261";
    /// 1 / (sequences × `max_tokens`).
    /// No length bias in either direction. The constant only scales the learning rate.
    "constant_length" => Reduction::ConstantLength(1.0), after "Liu et al. 2025, Understanding R1-Zero-Like Training, arXiv:2503.20783";
    /// 1 / (prompts × tokens of this prompt's sequences).
    /// Every prompt counts the same; for mixtures of short and long tasks.
    "prompt_mean" => Reduction::PromptMean, after "Khatri et al. 2025, The Art of Scaling Reinforcement Learning Compute for LLMs, arXiv:2510.13786";
};

impl Reduction {
    /// The weight of each token of each sequence, from the token counts of the step's sequences, prompt by prompt.
    pub fn weights(self, prompts: &[Vec<usize>]) -> Vec<Vec<f64>> {
        let live = |count: &&usize| **count > 0;
        let sequences = prompts.iter().flatten().filter(live).count() as f64;
        let tokens = prompts.iter().flatten().sum::<usize>() as f64;
        let live_prompts = prompts.iter().filter(|prompt| prompt.iter().any(|&count| count > 0)).count() as f64;
        let weight = |prompt: &[usize], count: usize| match self {
            _ if count == 0 => 0.0,
            Self::TokenMean => 1.0 / tokens,
            Self::SequenceMean => 1.0 / (sequences * count as f64),
            Self::SequenceSum => 1.0 / sequences,
            Self::ConstantLength(length) => 1.0 / (sequences * length),
            Self::PromptMean => 1.0 / (live_prompts * prompt.iter().sum::<usize>() as f64),
        };
        prompts.iter().map(|prompt| prompt.iter().map(|&count| weight(prompt, count)).collect()).collect()
    }
}
