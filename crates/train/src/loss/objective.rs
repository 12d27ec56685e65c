//! The composition: surrogate × masks × correction + KL, at a ratio level, weighed by the batch.

use std::ops::Range;

use hone_trace::{Fate, Loss, LossStats, Rng, TokenBatch};

use super::level::LOG_RATIO_BOUND;
use super::step_stats::{StepStats, kth_highest, quantile};
use super::{Anchor, Correction, Kl, Level, Reduction, Surrogate, Token};
use crate::catalogue::{Entry, catalogue};

/// Loss composed of parts. The reduction is applied when batches are packed, see [`Reduction::weights`].
#[derive(Debug)]
pub struct Objective {
    pub surrogate: Box<dyn Surrogate>,
    pub level: Level,
    pub anchor: Anchor,
    pub reduction: Reduction,
    pub kl: Option<Kl>,
    pub correction: Option<Correction>,
    /// See [`MASKS`].
    pub off_policy_mask: Option<f64>,
    pub top_entropy: Option<f64>,
    pub entropy_bonus: f64,
}

/// The masks and their names. Overlong filtering belongs to credit, see [`crate::credit::mask_overlong`].
pub(crate) static MASKS: &[Entry<()>] = catalogue! {
    /// `loss.off_policy_mask = θ` keeps tokens with A ≥ 0, and of the others those in sequences with mean(q−l) ≤ θ.
    /// Negative examples far from the policy teach little and destabilise; try 0.05 to 0.1 in asynchronous runs.
    "off_policy_mask" => (), after "DeepSeek-AI 2025, DeepSeek-V3.2, arXiv:2512.02556";
    /// `loss.top_entropy = p` keeps the share p of the step's tokens whose distribution has the highest entropy.
    /// Trains only on decision points; the paper trains 0.2 of them.
    "top_entropy" => (), after "Wang et al. 2025, Beyond the 80/20 Rule, arXiv:2506.01939";
    /// `overlong_filter = true` trains no episode that a length limit cut short; its reward stays in the statistics.
    /// Avoids punishing good replies for being truncated. Without it the policy learns to be brief.
    "overlong_filter" => (), after "Yu et al. 2025, DAPO, arXiv:2503.14476";
};

/// Scratch for the tokens of one sequence, reused across sequences.
#[derive(Debug, Default)]
struct Scratch {
    differences: Vec<f64>,
    log_ratios: Vec<f64>,
    factors: Vec<f64>,
    slopes: Vec<f64>,
    tokens: Vec<Token>,
}

impl Objective {
    pub fn new(surrogate: impl Surrogate + 'static, reduction: Reduction) -> Self {
        Self {
            surrogate: Box::new(surrogate),
            level: Level::default(),
            anchor: Anchor::default(),
            reduction,
            kl: None,
            correction: None,
            off_policy_mask: None,
            top_entropy: None,
            entropy_bonus: 0.0,
        }
    }

    #[must_use]
    pub fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }

    #[must_use]
    pub fn against(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// True when one token's gradient depends on statistics of the whole optimizer step. It then needs either the step
    /// in one batch, or statistics from an earlier pass over it.
    pub fn needs_step_stats(&self) -> bool {
        self.surrogate.selector().is_some() || self.top_entropy.is_some()
    }

    /// Stop-gradient: true if the surrogate or the level of the ratio holds something fixed in the gradient.
    pub fn stops_gradient(&self) -> bool {
        self.surrogate.stops_gradient() || self.level == Level::SequenceToken
    }

    /// True when it looks at the entropies of targets, or needs their gradient.
    pub(crate) fn needs_entropies(&self) -> bool {
        self.top_entropy.is_some() || self.entropy_bonus != 0.0
    }

    /// Surveys a whole optimizer step, given all its parts.
    pub fn step_stats(&self, parts: &[TokenBatch<'_>]) -> StepStats {
        let count: usize = parts.iter().map(|part| part.logp.len()).sum();
        let mean = |of: fn(&TokenBatch<'_>) -> f64| parts.iter().map(of).sum::<f64>() / count.max(1) as f64;
        let mut step_stats = StepStats {
            mean_advantage: mean(|part| part.advantage.iter().sum()),
            mean_logp: mean(|part| part.logp.iter().sum()),
            ..StepStats::default()
        };
        if let Some(share) = self.top_entropy {
            let entropies = parts.iter().filter_map(|part| part.entropy).flatten().copied().collect();
            step_stats.entropy_floor = quantile(entropies, 1.0 - share);
        }
        if let Some(selector) = self.surrogate.selector() {
            let mut scores = Vec::new();
            let mut scratch = Scratch::default();
            for part in parts {
                for range in part.sequences {
                    self.view(part, range, &step_stats, &mut scratch);
                    scores.extend(scratch.tokens.iter().filter_map(|token| selector.score(token)));
                }
            }
            let wanted = ((count as f64 * selector.share()) as usize).max(1);
            step_stats.score_floor = kth_highest(scores, wanted);
        }
        step_stats
    }

    /// Fills `scratch` with the surrogate's inputs for one sequence.
    fn view(&self, batch: &TokenBatch<'_>, range: &Range<usize>, step_stats: &StepStats, scratch: &mut Scratch) {
        let (logp, advantage) = (&batch.logp[range.clone()], &batch.advantage[range.clone()]);
        let sampler = &batch.sampler[range.clone()];
        let anchor = match self.anchor {
            Anchor::Old => &batch.old[range.clone()],
            Anchor::Sampler => sampler,
        };
        scratch.differences.clear();
        scratch.differences.extend(logp.iter().zip(anchor).map(|(logp, anchor)| logp - anchor));
        self.level.log_ratios(&scratch.differences, &mut scratch.log_ratios);
        if let Some(correction) = &self.correction {
            let old = &batch.old[range.clone()];
            correction.factors(old, &batch.behaviour[range.clone()], &mut scratch.factors);
        } else {
            scratch.factors.clear();
            scratch.factors.resize(logp.len(), 1.0);
        }
        let held = |difference: f64| difference.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND);
        let drift = scratch.differences.iter().map(|difference| held(*difference)).sum::<f64>()
            + scratch.factors.iter().map(|factor| factor.max(1e-8).ln().min(LOG_RATIO_BOUND)).sum::<f64>();
        let fingerprint = sampler.iter().sum::<f64>().to_bits();
        scratch.tokens.clear();
        for (index, log_ratio) in scratch.log_ratios.iter().enumerate() {
            let mut token = Token {
                logp: logp[index],
                anchor: anchor[index],
                log_ratio: *log_ratio,
                ratio: log_ratio.exp(),
                advantage: advantage[index],
                drift,
                covariance: (advantage[index] - step_stats.mean_advantage) * (logp[index] - step_stats.mean_logp),
                draw: Rng::new(fingerprint ^ advantage[index].to_bits().rotate_left(17) ^ index as u64).unit(),
                selected: false,
            };
            let score = self.surrogate.selector().and_then(|selector| selector.score(&token));
            token.selected = score.zip(step_stats.score_floor).is_some_and(|(score, floor)| score >= floor);
            scratch.tokens.push(token);
        }
    }

    /// True when the policy has moved so far from the sequence that its bad tokens are masked.
    fn is_stale(&self, batch: &TokenBatch<'_>, range: &Range<usize>) -> bool {
        self.off_policy_mask.is_some_and(|threshold| {
            let gap: f64 = range.clone().map(|at| batch.sampler[at] - batch.logp[at]).sum();
            gap / range.len().max(1) as f64 > threshold
        })
    }

    /// The factor on a token's surrogate: 0 if a mask excludes it.
    fn factor(&self, token: &Token, entropy: Option<f64>, correction: f64, stale: bool, step_stats: &StepStats) -> f64 {
        let settled = step_stats.entropy_floor.zip(entropy).is_some_and(|(floor, entropy)| entropy < floor);
        match correction {
            _ if settled || (stale && token.advantage < 0.0) => 0.0,
            _ if self.surrogate.absorbs_correction() => 1.0,
            factor => factor,
        }
    }

    /// Fate of each token of one sequence, as [`Self::sequence`] counts them.
    fn fates(
        &self,
        batch: &TokenBatch<'_>,
        range: &Range<usize>,
        step_stats: &StepStats,
        scratch: &mut Scratch,
    ) -> Vec<Fate> {
        self.view(batch, range, step_stats, scratch);
        let stale = self.is_stale(batch, range);
        let fate = |(index, token): (usize, &Token)| {
            let entropy = batch.entropy.map(|entropies| entropies[range.start + index]);
            if token.advantage == 0.0 {
                Fate::Zero
            } else if self.surrogate.term(token).clipped {
                Fate::Clipped
            } else if self.factor(token, entropy, scratch.factors[index], stale, step_stats) == 0.0 {
                Fate::Masked
            } else {
                Fate::Trained
            }
        };
        scratch.tokens.iter().enumerate().map(fate).collect()
    }

    /// The value and gradient of one sequence.
    fn sequence(
        &self,
        batch: &TokenBatch<'_>,
        range: &Range<usize>,
        step_stats: &StepStats,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) -> LossStats {
        self.view(batch, range, step_stats, scratch);
        let mut stats = LossStats { targets: range.len() as u64, ..LossStats::default() };
        let stale = self.is_stale(batch, range);
        scratch.slopes.clear();
        for (index, token) in scratch.tokens.iter().enumerate() {
            let at = range.start + index;
            let entropy = batch.entropy.map(|entropies| entropies[at]);
            let factor = self.factor(token, entropy, scratch.factors[index], stale, step_stats);
            let term = self.surrogate.term(token);
            let mut total = term.scaled(factor);
            if let (Some(kl), Some(reference)) = (&self.kl, batch.reference) {
                let estimate = kl.term(token, reference[at]);
                *stats.kl.get_or_insert(0.0) += estimate.value;
                total = total.plus(estimate.scaled(kl.coefficient));
            }
            // A ratio held at its bound no longer moves with the logprob.
            let moves = token.log_ratio.abs() < LOG_RATIO_BOUND;
            let weight = batch.weight[at];
            let bonus = entropy.map_or(0.0, |entropy| self.entropy_bonus * entropy);
            stats.loss += weight * (total.value - bonus);
            let live = token.advantage != 0.0;
            stats.clipped += u64::from(live && term.clipped);
            stats.masked += u64::from(factor == 0.0);
            stats.trained += u64::from(live && !term.clipped && factor != 0.0);
            scratch.slopes.push(if moves { weight * total.slope } else { 0.0 });
            out[at] = weight * total.direct;
        }
        self.level.pull_back(&scratch.slopes, &mut out[range.clone()]);
        stats
    }
}

impl Objective {
    /// Objective of an optimizer step with step-wide statistics. Without them every batch uses its own.
    pub fn over(&self, step_stats: Option<StepStats>) -> StepObjective<'_> {
        StepObjective { objective: self, step_stats }
    }
}

/// Objective together with the statistics of the whole optimizer step.
#[derive(Debug, Clone, Copy)]
pub struct StepObjective<'a> {
    objective: &'a Objective,
    step_stats: Option<StepStats>,
}

impl StepObjective<'_> {
    fn step_stats(&self, tokens: &TokenBatch<'_>) -> StepStats {
        match self.step_stats {
            Some(step_stats) => step_stats,
            None if self.objective.needs_step_stats() => self.objective.step_stats(&[*tokens]),
            None => StepStats::default(),
        }
    }

    /// Fate of each target, sequence after sequence.
    pub fn fates(&self, tokens: &TokenBatch<'_>) -> Vec<Fate> {
        let (step_stats, mut scratch) = (self.step_stats(tokens), Scratch::default());
        let sequences = tokens.sequences.iter();
        sequences.flat_map(|range| self.objective.fates(tokens, range, &step_stats, &mut scratch)).collect()
    }
}

impl Loss for StepObjective<'_> {
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats {
        let (objective, step_stats) = (self.objective, self.step_stats(tokens));
        let mut scratch = Scratch::default();
        let mut stats = LossStats::default();
        for range in tokens.sequences {
            stats += objective.sequence(tokens, range, &step_stats, &mut scratch, out);
        }
        stats
    }

    fn needs_reference(&self) -> bool {
        self.objective.needs_reference()
    }

    fn entropy_coefficient(&self) -> f64 {
        self.objective.entropy_coefficient()
    }
}

impl Loss for Objective {
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats {
        self.over(None).grad(tokens, out)
    }

    fn needs_reference(&self) -> bool {
        self.kl.is_some()
    }

    fn entropy_coefficient(&self) -> f64 {
        self.entropy_bonus
    }
}
