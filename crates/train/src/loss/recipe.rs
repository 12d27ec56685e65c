//! Losses by name: `loss = "dapo"`, or a table with the name and whatever differs from it.

use std::collections::BTreeMap;

use hone_trace::documented;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::clip::constant_length;
use super::correction::CorrectionForm;
use super::hyperparameters::HYPERPARAMETERS;
use super::{
    Anchor, BadLoss, Correction, Hyperparameters, Kl, LEVELS, LOSSES, Objective, REDUCTIONS, Reduction, Spread,
};
use crate::catalogue::{find, name_or_table};

documented! {
    /// Loss of a recipe. In TOML either `loss = "dapo"` or
    /// `[loss]` with `name = "dapo"`, `clip_high = 0.3`, `kl = { coefficient = 0.001 }`, …
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    #[serde(remote = "Self")]
    pub struct LossRecipe {
        /// The loss: a name from docs/algorithms.md.
        pub name: String,
        /// Level of the importance ratio: token, sequence or sequence_token; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub level: Option<String>,
        /// Policy the importance ratio compares with, old or sampler: docs/algorithms.md; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub anchor: Option<Anchor>,
        /// Weight of one token in the step: docs/algorithms.md; absent: the loss's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reduction: Option<String>,
        /// KL penalty in the loss, relative to the reference policy; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub kl: Option<Kl> where table::<Kl>(),
        /// Off-policy correction; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub correction: Option<Correction> where table::<CorrectionForm>(),
        /// Excludes tokens of bad episodes whose sequence is further than this from the policy; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub off_policy_mask: Option<f64> where real(-1e6, 1e6),
        /// Share of the step's tokens, those of the highest entropy, that are trained; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub top_entropy: Option<f64> where over(0.0, 1.0),
        /// Weight of the entropy bonus in the objective: above 0 it keeps the policy from converging early.
        #[serde(default)]
        pub entropy_bonus: f64 where real(-1e3, 1e3),
        /// Numbers the named loss reads.
        #[serde(flatten, deserialize_with = "numbers")]
        pub hyperparameters: BTreeMap<String, f64> where flat(HYPERPARAMETERS),
    }
}

/// The options every loss has, as a recipe spells them.
const COMMON: &[&str] =
    &["level", "anchor", "reduction", "kl", "correction", "off_policy_mask", "top_entropy", "entropy_bonus"];

impl LossRecipe {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The objective, or the error in the recipe.
    pub fn build(&self) -> Result<Objective, BadLoss> {
        let entry = find("loss", LOSSES, &self.name)?;
        let mut hyperparameters = Hyperparameters::new(entry.name, self.hyperparameters.clone());
        let mut objective = (entry.make.build)(&mut hyperparameters)?;
        if let Some(level) = &self.level {
            objective.level = find("ratio level", LEVELS, level)?.make;
        }
        if let Some(reduction) = &self.reduction {
            objective.reduction = match find("reduction", REDUCTIONS, reduction)?.make {
                Reduction::ConstantLength(_) => constant_length(&mut hyperparameters)?,
                reduction => reduction,
            };
        }
        hyperparameters.finish(COMMON)?;
        if let Some(option) =
            self.hyperparameters.iter().find(|(_, value)| !value.is_finite()).map(|(name, _)| name.clone())
        {
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
enum Hyperparameter {
    Number(f64),
    Other(IgnoredAny),
}

/// Values that are not numbers become NaN: `build` refuses them by name.
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let hyperparameters =
        BTreeMap::<String, Hyperparameter>::deserialize(deserializer)?.into_iter().map(|(name, hyperparameter)| {
            match hyperparameter {
                Hyperparameter::Number(value) => (name, value),
                Hyperparameter::Other(_) => (name, f64::NAN),
            }
        });
    Ok(hyperparameters.collect())
}
