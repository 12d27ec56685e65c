//! Losses by name: `loss = "dapo"`, or a table with the name and whatever differs from it.

use std::collections::BTreeMap;

use hone_trace::documented;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::correction::CorrectionForm;
use super::knobs::KNOBS;
use super::{
    Anchor, BadLoss, Cispo, Clip, ClipCov, Correction, Divergence, Dppo, Importance, Kl, KlCov, Knobs, LEVELS, Level,
    Likelihood, Objective, REDUCTIONS, Reduction, Sapo, Spread, Vespo,
};
use crate::catalogue::{Entry, catalogue, find, name_or_table};

/// Builds an objective from the numbers a recipe gives.
pub(super) type Make = fn(&mut Knobs) -> Result<Objective, BadLoss>;

/// The losses and their names.
pub static LOSSES: &[Entry<Make>] = catalogue! {
    /// −min(ρA, clip(ρ, 1−clip_low, 1+clip_high)A), clips 0.2 and 0.2; token_mean.
    /// The clipped objective as PPO has it. `cap` bounds the loss of bad tokens (two-sided clip).
    "clip" => |knobs| Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.2), Reduction::TokenMean));
    /// As clip; sequence_mean.
    /// The classic. Prefer dapo unless you reproduce a GRPO result: the per-sequence mean favours long bad replies.
    "grpo" => |knobs| Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.2), Reduction::SequenceMean));
    /// As clip, with clip_high 0.28; token_mean.
    /// Start here. The wider upper clip keeps exploration alive.
    "dapo" => |knobs| Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.28), Reduction::TokenMean));
    /// As clip; token_mean.
    /// Elsewhere the mean is over one micro-batch and changes with its size; here it is over the step.
    "bnpo" => |knobs| Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.2), Reduction::TokenMean));
    /// As clip; constant_length, with `max_tokens`.
    /// No length bias. Together with `credit = "dr_grpo"` also no difficulty bias.
    "dr_grpo" => |knobs| {
        let length = constant_length(knobs)?;
        Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.2), length))
    };
    /// As clip, and at most cap·|A| for A < 0, cap 3; token_mean.
    /// Against the rare bad token whose ratio explodes, mostly in asynchronous runs.
    "dual_clip" => |knobs| {
        let clip = Clip::from_knobs(knobs, 0.2, 0.2);
        Ok(Objective::new(Clip { cap: clip.cap.or(Some(3.0)), ..clip }, Reduction::TokenMean))
    };
    /// As clip with the sequence's ratio, clips 3e-4 and 4e-4; sequence_mean.
    /// For long replies and mixtures of experts.
    "gspo" => |knobs| Ok(gspo(knobs).at(Level::Sequence));
    /// As gspo, each token's gradient through its own logprob.
    /// GSPO where the tokens of a sequence have different advantages.
    "gspo_token" => |knobs| Ok(gspo(knobs).at(Level::SequenceToken));
    /// As clip with the sequence's ratio; sequence_sum.
    /// GSPO without its bias towards short replies; lower the learning rate, the sum grows with length.
    "luspo" => |knobs| {
        Ok(Objective::new(Clip::from_knobs(knobs, 0.2, 0.2), Reduction::SequenceSum).at(Level::Sequence))
    };
    /// −sg[min(ρ, cap)]·A·l, cap 5; token_mean.
    /// Every token keeps a gradient; robust to stale samples.
    "cispo" => |knobs| Ok(Objective::new(Cispo::from_knobs(knobs), Reduction::TokenMean));
    /// −(4/τ)σ(τ(ρ−1))A, τ 1 for A > 0 and 1.05 otherwise; sequence_mean.
    /// A soft clip; nothing to tune but two temperatures.
    "sapo" => |knobs| Ok(Objective::new(Sapo::from_knobs(knobs), Reduction::SequenceMean));
    /// −sg[φ(x)]·A·l, φ(x) = exp(λ+kx−λeˣ), x the sum of l−o over the sequence; (k, λ) = (2, 3) for A ≥ 0, else (3, 2); token_mean.
    /// For very stale samples: sequences far from the policy fade out smoothly. Takes token_* corrections into x.
    "vespo" => |knobs| Ok(Objective::new(Vespo::from_knobs(knobs), Reduction::TokenMean));
    /// −ρA with ρ = e^(l−q); token_mean.
    /// The plain off-policy gradient against the sampler, unclipped. For one step per batch.
    "importance_sampling" => |_| {
        Ok(Objective::new(Importance::default(), Reduction::TokenMean).against(Anchor::Sampler))
    };
    /// −ρA with ρ = e^(l−q), and 0 outside [1−clip_low, 1+clip_high], 0.2 and 0.2; token_mean.
    /// Leaves out every token on which sampler and learner disagree, good or bad.
    "rollout_is" => |knobs| {
        let range = Some((knobs.take("clip_low", 0.2), knobs.take("clip_high", 0.2)));
        Ok(Objective::new(Importance { range }, Reduction::TokenMean).against(Anchor::Sampler))
    };
    /// −A·l; token_mean.
    /// On-policy only: one optimizer step per batch.
    "reinforce" => |_| Ok(Objective::new(Likelihood, Reduction::TokenMean));
    /// −ρA, and 0 where |π−μ| is over delta_high (A > 0, π > μ) or delta_low (A < 0, π < μ), 0.2 and 0.2; token_mean.
    /// A trust region in probability: rare tokens may move, likely ones may not run away.
    "dppo" => |knobs| {
        Ok(Objective::new(Dppo::from_knobs(knobs, Divergence::TotalVariation, 0.2), Reduction::TokenMean))
    };
    /// As dppo with μ ln(μ/π) + (1−μ) ln((1−μ)/(1−π)) for |π−μ|, deltas 0.05; token_mean.
    /// As dppo; stricter for tokens near probability 0 or 1.
    "dppo_kl" => |knobs| Ok(Objective::new(Dppo::from_knobs(knobs, Divergence::Kl, 0.05), Reduction::TokenMean));
    /// As clip, and 0 for a random `share` (2e-4) of the tokens with (A−mean A)(l−mean l) between 1 and 5; token_mean.
    /// When entropy collapses early.
    "clip_cov" => |knobs| Ok(Objective::new(ClipCov::from_knobs(knobs), Reduction::TokenMean));
    /// −ρA, + penalty·|l−o| for the `share` (0.2) of tokens with the highest (A−mean A)(l−mean l); token_mean.
    /// As clip_cov, gentler. Needs several steps per batch to act.
    "kl_cov" => |knobs| Ok(Objective::new(KlCov::from_knobs(knobs), Reduction::TokenMean));
    /// −w·l, the weight w in the advantage's place; token_mean.
    /// Supervised warm start on traces that are worth imitating.
    "cross_entropy" => |_| Ok(Objective::new(Likelihood, Reduction::TokenMean));
};

fn gspo(knobs: &mut Knobs) -> Objective {
    Objective::new(Clip::from_knobs(knobs, 3e-4, 4e-4), Reduction::SequenceMean)
}

fn constant_length(knobs: &mut Knobs) -> Result<Reduction, BadLoss> {
    let option = "max_tokens";
    let length = knobs.require(option, "sums are divided by it; take the limit on new tokens of an episode")?;
    if length > 0.0 {
        Ok(Reduction::ConstantLength(length))
    } else {
        Err(BadLoss::Range { option, value: length, must: "it must be over 0" })
    }
}

documented! {
    /// What a recipe says of its loss. In TOML either `loss = "dapo"` or
    /// `[loss]` with `name = "dapo"`, `clip_high = 0.3`, `kl = { coefficient = 0.001 }`, …
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(remote = "Self")]
    pub struct LossRecipe {
        /// The loss: a name of docs/algorithms.md.
        pub name: String,
        /// Level of the ratio: token, sequence or sequence_token; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub level: Option<String>,
        /// Policy the ratio compares with: the learner when the batch was first seen, or the sampler; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub anchor: Option<Anchor>,
        /// Weight of one token in the step: docs/algorithms.md; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reduction: Option<String>,
        /// KL to the reference policy, in the loss; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kl: Option<Kl> where table::<Kl>(),
        /// Off-policy correction; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub correction: Option<Correction> where table::<CorrectionForm>(),
        /// Leaves out tokens of bad episodes whose sequence is further than this from the policy; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub off_policy_mask: Option<f64> where real(-1e6, 1e6),
        /// Share of the step's tokens, those of the highest entropy, that are trained; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub top_entropy: Option<f64> where over(0.0, 1.0),
        /// Weight of the entropy in the objective: over 0 keeps the policy from settling early.
        #[serde(default)]
        pub entropy_bonus: f64 where real(-1e3, 1e3),
        /// Numbers the named loss reads.
        #[serde(flatten, deserialize_with = "numbers")]
        pub knobs: BTreeMap<String, f64> where flat(KNOBS),
    }
}

/// The options every loss has, as a recipe spells them.
const COMMON: &[&str] =
    &["level", "anchor", "reduction", "kl", "correction", "off_policy_mask", "top_entropy", "entropy_bonus"];

impl LossRecipe {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The objective, or what is wrong with the recipe.
    pub fn build(&self) -> Result<Objective, BadLoss> {
        let entry = find("loss", LOSSES, &self.name)?;
        let mut knobs = Knobs::new(entry.name, self.knobs.clone());
        let mut objective = (entry.make)(&mut knobs)?;
        if let Some(level) = &self.level {
            objective.level = find("ratio level", LEVELS, level)?.make;
        }
        if let Some(reduction) = &self.reduction {
            objective.reduction = match find("reduction", REDUCTIONS, reduction)?.make {
                Reduction::ConstantLength(_) => constant_length(&mut knobs)?,
                reduction => reduction,
            };
        }
        knobs.finish(COMMON)?;
        if let Some(option) = self.knobs.iter().find(|(_, value)| !value.is_finite()).map(|(name, _)| name.clone()) {
            return Err(BadLoss::NotANumber { option });
        }
        if let Some(value) = self.top_entropy.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            return Err(BadLoss::Range { option: "top_entropy", value, must: "it is a share, over 0 and at most 1" });
        }
        let objective = Objective {
            anchor: self.anchor.unwrap_or(objective.anchor),
            kl: self.kl.filter(|kl| kl.coefficient != 0.0),
            correction: self.correction,
            off_policy_mask: self.off_policy_mask,
            top_entropy: self.top_entropy.filter(|share| *share < 1.0),
            entropy_bonus: self.entropy_bonus,
            ..objective
        };
        match correction_conflict(&objective) {
            Some(why) => Err(BadLoss::Conflict { loss: entry.name.to_owned(), why }),
            None => Ok(objective),
        }
    }
}

/// Corrections that would count the same gap twice.
fn correction_conflict(objective: &Objective) -> Option<&'static str> {
    let spread = objective.correction?.spread;
    if objective.anchor == Anchor::Sampler {
        Some("its ratio already is against the sampler. Leave the correction out, or set anchor = \"old\"")
    } else if objective.surrogate.absorbs_correction() && spread != Spread::Token {
        Some("it sums the correction over the sequence itself. Use token_truncate or token_mask")
    } else {
        None
    }
}

name_or_table!(LossRecipe, "the name of a loss, or a table with its name and options");

/// A value of the wrong kind is kept by name, so that the error can say which option it is.
#[derive(Deserialize)]
#[serde(untagged)]
enum Knob {
    Number(f64),
    Other(IgnoredAny),
}

/// What is not a number is kept as such: `build` refuses it by name.
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let knobs = BTreeMap::<String, Knob>::deserialize(deserializer)?.into_iter().map(|(name, knob)| match knob {
        Knob::Number(value) => (name, value),
        Knob::Other(_) => (name, f64::NAN),
    });
    Ok(knobs.collect())
}
