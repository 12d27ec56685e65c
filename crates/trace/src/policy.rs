//! Policy interface: the sampler, which generates tokens, and the learner, which trains on them.
//!
//! Both speak token ids. Stop strings and grammars are compiled to a [`TokenGate`] by `chat`, so an engine knows no
//! text.

use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::batch::{Batch, LossStats};
use crate::documented;
use crate::engine::gigabytes;
use crate::loss::Loss;
use crate::node::{PolicyVersion, Sampled};
use crate::outcome::{Boundary, Fault};

documented! {
    /// Sampling parameters. Temperature is part of the policy being trained: the learner divides by it too.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct SamplingParams {
        /// Divides the logits. 0 is greedy: fine for evaluation, an error in training (identical rollouts carry no signal).
        pub temperature: f32 where over(0.0, 100.0)
            .because("at 0 every episode of a group would be the same, with no advantage and no gradient (eval.temperature may be 0)"),
        /// Keep the k likeliest tokens; 0 keeps all.
        pub top_k: u32 where whole(0, 10_000_000),
        /// Keep the smallest set of tokens with at least this mass; 1 keeps all.
        pub top_p: f32 where over(0.0, 1.0),
        /// Drop tokens less likely than this share of the likeliest; 0 drops none.
        pub min_p: f32 where real(0.0, 1.0),
        /// Tokens of one reply.
        pub max_new_tokens: u32 where whole(1, 10_000_000),
        /// Sampling ends after one of these ids, which is kept in the reply.
        pub stop_ids: Vec<u32> where whole(0, 4_294_967_295),
    }
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, max_new_tokens: 512, stop_ids: Vec::new() }
    }
}

impl SamplingParams {
    /// True when the sampling distribution differs from the trained policy's, a gate's mask aside.
    pub fn truncates(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Values outside their range, in words.
    pub fn check(&self) -> Result<(), String> {
        let finite = self.temperature.is_finite() && self.top_p.is_finite() && self.min_p.is_finite();
        if !finite || self.temperature < 0.0 {
            return Err(format!("temperature must be a number of at least 0, found {}", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(format!("top_p must be over 0 and at most 1 (1 keeps all tokens), found {}", self.top_p));
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return Err(format!("min_p must be between 0 and 1 (0 drops no token), found {}", self.min_p));
        }
        if self.max_new_tokens == 0 {
            return Err("max_new_tokens must be at least 1".into());
        }
        Ok(())
    }
}

/// One reply to sample.
#[derive(Debug)]
pub struct SampleRequest {
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    pub seed: u64,
    pub gate: Option<Box<dyn TokenGate>>,
}

/// A sampled reply: ids, their record, and why it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub tokens: Vec<u32>,
    pub sampled: Sampled,
    pub stop: StopReason,
}

/// Stop reason of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// One of the stop ids was sampled; it is the last token.
    StopId,
    /// The gate ended the reply: a stop string, a complete grammar.
    Gate,
    /// `max_new_tokens` was reached.
    Length,
    /// The context window is full.
    Context,
}

/// Reason why a reply could not be sampled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SampleFault {
    #[error("the prompt has {prompt} tokens and the context window {window}; shorten the prompt or the tool output")]
    PromptTooLong { prompt: usize, window: usize },
    #[error("sampling parameters: {0}")]
    BadParams(String),
    #[error("the request was cancelled")]
    Cancelled,
    #[error("the sampler failed: {what}")]
    Failed { what: String, transient: bool },
}

impl From<SampleFault> for Fault {
    fn from(fault: SampleFault) -> Self {
        let transient = matches!(fault, SampleFault::Failed { transient: true, .. });
        Self { transient, ..Self::new(Boundary::Sampler, fault.to_string()) }
    }
}

/// Samples replies of one policy. Batching is the sampler's business: callers send requests concurrently.
#[async_trait]
pub trait Sampler: Send + Sync {
    async fn sample(&self, request: SampleRequest) -> Result<Sample, SampleFault>;

    /// Number of tokens whose keys and values it can keep, if known: conversations that fit compute only what is new in a turn.
    fn capacity(&self) -> Option<u64> {
        None
    }
}

/// Token-level control of one request.
pub trait TokenGate: Send + std::fmt::Debug {
    /// Called with every sampled token, in order.
    fn push(&mut self, token: u32) -> Flow;

    /// May forbid tokens before the next one is sampled. The default forbids none.
    fn mask(&mut self, _mask: &mut TokenMask<'_>) {}
}

/// Decision after a token: continue sampling or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The reply ends with this token.
    Stop,
}

/// The tokens allowed next, one flag per id of the vocabulary. All are allowed at first.
#[derive(Debug)]
pub struct TokenMask<'a> {
    allowed: &'a mut [bool],
    touched: bool,
}

impl<'a> TokenMask<'a> {
    pub fn new(allowed: &'a mut [bool]) -> Self {
        allowed.fill(true);
        Self { allowed, touched: false }
    }

    pub fn forbid(&mut self, token: u32) {
        if let Some(slot) = self.allowed.get_mut(token as usize) {
            *slot = false;
            self.touched = true;
        }
    }

    /// Forbids everything but these.
    pub fn only(&mut self, tokens: &[u32]) {
        self.allowed.fill(false);
        self.touched = true;
        for &token in tokens {
            if let Some(slot) = self.allowed.get_mut(token as usize) {
                *slot = true;
            }
        }
    }

    /// True when a token was forbidden; if none was, the sampling distribution is the policy's own.
    pub fn touched(&self) -> bool {
        self.touched
    }

    pub fn allowed(&self) -> &[bool] {
        self.allowed
    }
}

/// Learns from batches and publishes policy versions.
#[async_trait]
pub trait Learner: Send {
    /// Forward pass, d loss / d logprob of every target from `loss`, backward pass; accumulates the gradient.
    async fn accumulate(&mut self, batch: &Batch, loss: &dyn Loss) -> Result<LearnStats, LearnFault>;

    /// Clips, steps and, if asked to, publishes: when this returns, the samplers of this policy serve the new version.
    async fn step(&mut self, step: OptimizerStep) -> Result<StepReport, LearnFault>;

    /// Logprobs of the targets, without learning anything.
    async fn score(&mut self, batch: &Batch, whose: Whose) -> Result<TokenScores, LearnFault>;

    /// The version that [`Learner::accumulate`] computes with.
    fn version(&self) -> PolicyVersion;

    fn abilities(&self) -> Abilities;

    /// Name of a trained parameter that is not finite, if there is one: the policy has diverged. A run asks after every
    /// step that learned and before every checkpoint. A learner that cannot inspect its weights returns `None`.
    async fn not_finite(&mut self) -> Result<Option<String>, LearnFault> {
        Ok(None)
    }

    /// Writes everything [`Learner::restore`] needs into `dir`: the weights (or where the server keeps them) and the
    /// optimizer state. Gradients not yet applied are not saved.
    async fn save(&mut self, dir: &Path) -> Result<(), LearnFault>;

    /// Returns to the state that [`Learner::save`] wrote and publishes it as version `step` of its run.
    async fn restore(&mut self, dir: &Path, step: u64) -> Result<(), LearnFault>;

    /// Remembers the current state before a step that may be undone: in memory if the learner supports that, else in `dir`.
    async fn remember(&mut self, dir: &Path) -> Result<(), LearnFault> {
        std::fs::create_dir_all(dir)
            .map_err(|e| LearnFault::failed(format!("cannot create {}: {e}", dir.display())))?;
        self.save(dir).await
    }

    /// Returns to the state that [`Learner::remember`] kept last and publishes it as version `step`.
    async fn undo(&mut self, dir: &Path, step: u64) -> Result<(), LearnFault> {
        self.restore(dir, step).await
    }
}

/// Policy whose logprobs are computed. Those of the sampling policy are in the record ([`Sampled::logprobs`]) and need
/// no pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The current policy.
    Policy,
    /// The reference policy, see [`crate::Reference`].
    Reference,
}

/// Abilities of a learner beyond learning. A run that needs a missing one is refused before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the abilities are independent")]
pub struct Abilities {
    /// Batches may share prefixes between sequences; else every sequence is its own root.
    pub shared_prefixes: bool,
    /// [`TokenScores::entropies`] are reported, and an entropy bonus has a gradient.
    pub entropies: bool,
    /// A reference policy is there: the learner was opened with one, or has one by construction.
    pub reference: bool,
    /// The sampler's logprobs equal the learner's, bit for bit, so fresh samples need no rescoring pass.
    pub exact_sampler: bool,
}

/// Scores of a batch, one per target.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenScores {
    /// Logprobs at the batch's temperature.
    pub logprobs: Vec<f32>,
    /// Entropy of the distribution every target was drawn from, where the learner can say.
    pub entropies: Option<Vec<f32>>,
}

/// One optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimizerStep {
    pub learning_rate: f64,
    /// Global-norm clip of the accumulated gradient; `None` clips nothing.
    pub max_grad_norm: Option<f64>,
    /// True if running samplers switch to the result. `false` if more steps on the same rollout batch follow: samplers
    /// then keep their version and their KV cache.
    pub publish: bool,
}

/// Statistics of one forward and backward pass, per target and in sum.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnStats {
    /// The learner's own logprob of every target, at the batch's temperature.
    pub logprobs: Vec<f32>,
    /// Entropy of the distribution every target was drawn from, where the learner can say.
    pub entropies: Option<Vec<f32>>,
    pub loss: LossStats,
}

/// Result of an optimizer step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The version now served. Unchanged when the step was skipped.
    pub version: PolicyVersion,
    /// Global norm of the gradient before clipping. `None` when it was not finite.
    pub grad_norm: Option<f64>,
    /// Location of a gradient that is not finite: it is never applied, and the step is skipped.
    pub skipped: Option<String>,
}

/// Reason why a learner could not learn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnFault {
    #[error("the batch cannot be trained on: {0}")]
    BadBatch(String),
    #[error("the learner needs {} and may use {}; {fix}", gigabytes(*needed), gigabytes(*limit))]
    Memory { needed: u64, limit: u64, fix: String },
    /// `transient`: worth retrying, the other side was busy or unreachable. A learner retries by itself where that is
    /// safe; a fault that it reports ends the run, which can resume from its newest checkpoint.
    #[error("the learner failed: {what}")]
    Failed { what: String, transient: bool },
}

impl LearnFault {
    /// A permanent failure: retrying will not help.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), transient: false }
    }
}
