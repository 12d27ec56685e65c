//! Objectives: from logprobs to d loss / d logprob, in f64.
//!
//! An [`Objective`] is a [`Surrogate`] (the term of one token) at a ratio [`Level`], weighed by a [`Reduction`], with
//! optional KL, off-policy [`Correction`] and masks. The combinations that have names are in [`LOSSES`]. Nothing here
//! knows a model, a trace or where a batch was split.

mod cispo;
mod clip;
mod clip_cov;
mod correction;
mod dppo;
mod importance;
mod kl;
mod kl_cov;
mod knobs;
mod level;
mod likelihood;
mod objective;
mod recipe;
mod reduction;
mod sapo;
mod surrogate;
mod survey;
mod vespo;

pub use cispo::Cispo;
pub use clip::Clip;
pub use clip_cov::ClipCov;
pub use correction::{Bound, CORRECTIONS, Correction, Spread};
pub use dppo::{Divergence, Dppo};
pub use importance::Importance;
pub use kl::{ESTIMATORS, Estimator, Kl};
pub use kl_cov::KlCov;
pub use knobs::{BadLoss, KNOBS, Knobs};
pub use level::{Anchor, LEVELS, Level};
pub use likelihood::Likelihood;
pub use objective::{MASKS, Objective, Surveyed};
pub use recipe::{LOSSES, LossRecipe};
pub use reduction::{REDUCTIONS, Reduction};
pub use sapo::Sapo;
pub use surrogate::{Selector, Surrogate, Term, Token};
pub use survey::Survey;
pub use vespo::Vespo;
