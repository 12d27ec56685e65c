//! Objectives: from logprobs to d loss / d logprob, in f64.
//!
//! An [`Objective`] is a [`Surrogate`] (the term of one token) at a ratio [`Level`], weighed by a [`Reduction`], with
//! optional KL, off-policy [`Correction`] and masks. The combinations that have names are in [`LOSSES`]. Nothing here
//! knows a model, a trace or where a batch was split.
//!
//! A new loss is one file with its entry and one line of [`LOSSES`].

mod correction;
mod hyperparameters;
mod kl;
mod level;
mod objective;
mod recipe;
mod reduction;
mod step_stats;
mod surrogate;

use hone_trace::entries;
use hone_trace::keys::Key;

pub use cispo::Cispo;
pub use clip::Clip;
pub(crate) use correction::CORRECTIONS;
pub use correction::{Bound, Correction, Spread};
pub use hyperparameters::{BadLoss, HYPERPARAMETERS, Hyperparameters};
pub use importance::Importance;
pub(crate) use kl::ESTIMATORS;
pub use kl::{Estimator, Kl};
pub(crate) use level::LEVELS;
pub use level::{Anchor, Level};
pub(crate) use objective::MASKS;
pub use objective::{Objective, StepObjective};
pub use recipe::LossRecipe;
pub(crate) use reduction::REDUCTIONS;
pub use reduction::Reduction;
pub use step_stats::StepStats;
pub use surrogate::{Selector, Surrogate, Term, Token};

use crate::catalogue::Entry;

pub(crate) type LossEntry = Entry<MakeLoss>;

/// Maker of an objective.
#[derive(Debug, Clone, Copy)]
pub struct MakeLoss {
    /// Numbers that no other loss reads.
    pub(crate) hyperparameters: &'static [Key],
    /// Objective from the numbers a recipe gives.
    build: fn(&mut Hyperparameters) -> Result<Objective, BadLoss>,
}

entries! {
    /// The losses and their names.
    pub static LOSSES: [LossEntry];
    mod clip: CLIP, GRPO, DAPO, BNPO, DR_GRPO, DUAL_CLIP, GSPO, GSPO_TOKEN, LUSPO;
    mod cispo: CISPO;
    mod sapo: SAPO;
    mod vespo: VESPO;
    mod importance: IMPORTANCE_SAMPLING, ROLLOUT_IS;
    mod likelihood: REINFORCE, CROSS_ENTROPY;
    mod dppo: DPPO, DPPO_KL;
    mod clip_cov: CLIP_COV;
    mod kl_cov: KL_COV;
}
