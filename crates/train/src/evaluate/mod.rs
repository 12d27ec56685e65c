//! Evaluation: held-out tasks, greedily and sampled, to distinguish learning from sharpening.
//!
//! A policy that has only become more confident gains when it is sampled but not when it is decoded greedily. So every
//! evaluation plays the tasks twice: at temperature 0, and at the training temperature without decoding filters.
//! Everything is counted from recorded traces ([`count`]), compared task by task ([`paired`]) and judged in words
//! ([`judge`]).

pub mod baselines;
mod controls;
mod count;
mod entropy;
pub mod overlap;
mod sharpen;
mod verdict;

use std::sync::Arc;

use hone_arena::perturb::{Perturbation, Perturbed};
use hone_arena::rollout::Slot;
use hone_trace::{Sampler, Seed, Trace};
use serde::{Deserialize, Serialize};

pub use crate::interval::{Difference, paired, wilson};
pub use controls::{Control, ControlKind, Controls, Sharpening, start};
pub use count::{ByTask, Counted, Evaluation, count};
pub use entropy::entropy;
pub use sharpen::Search;
pub use verdict::{Evidence, Judgement, Verdict, judge};

use crate::recipe::{EvalRecipe, Recipe};
use crate::setup::Setup;

/// A way of playing the held-out tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decoding {
    /// 0 is greedy.
    pub temperature: f32,
    /// Episodes of each task.
    pub samples: u32,
    /// True when the recipe's top-k, top-p and min-p are on.
    pub filters: bool,
    pub seed: u64,
    /// A change to the tools, as a probe: does the policy read them?
    pub tools: Option<Perturbation>,
}

impl Decoding {
    /// Greedy decoding.
    pub fn greedy(eval: &EvalRecipe) -> Self {
        Self { temperature: 0.0, samples: 1, filters: false, seed: eval.seed, tools: None }
    }

    /// At the training temperature, or at `eval.temperature`.
    pub fn sampled(recipe: &Recipe) -> Self {
        let EvalRecipe { temperature, samples, filters, seed, .. } = recipe.eval;
        let temperature = temperature.filter(|value| *value > 0.0).unwrap_or(recipe.sampling.temperature);
        Self { temperature, samples, filters, seed, tools: None }
    }
}

/// Kind of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Greedy,
    #[default]
    Sampled,
}

impl Kind {
    pub fn decoding(self, recipe: &Recipe) -> Decoding {
        match self {
            Self::Greedy => Decoding::greedy(&recipe.eval),
            Self::Sampled => Decoding::sampled(recipe),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Sampled => "sampled",
        }
    }
}

/// One policy, measured both ways.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    pub greedy: Evaluation,
    pub sampled: Evaluation,
}

impl Measured {
    /// Headline evaluation: used by `checkpoint.best`, the progress display and the first line of a report.
    pub fn headline(&self, eval: &EvalRecipe) -> &Evaluation {
        match eval.headline() {
            Kind::Greedy => &self.greedy,
            Kind::Sampled => &self.sampled,
        }
    }
}

/// Plays the held-out tasks, always with the same seeds; returns the traces, task by task.
pub async fn play(setup: &Setup, recipe: &Recipe, sampler: Arc<dyn Sampler>, decoding: Decoding) -> Vec<Trace> {
    let mut rollouts = setup.rollouts(recipe, sampler, decoding.temperature);
    if !decoding.filters {
        let sampling = &mut rollouts.sampling;
        (sampling.top_k, sampling.top_p, sampling.min_p) = (0, 1.0, 0.0);
    }
    if let Some(how) = decoding.tools {
        rollouts.arena = Arc::new(Perturbed::new(rollouts.arena, how));
    }
    let seed = Seed::root(decoding.seed).with("eval");
    let slots = recipe.eval.tasks_of(&setup.held_out).iter().flat_map(|task| {
        let seed = seed.with(&task.key);
        (0..decoding.samples.max(1)).map(move |replica| Slot {
            task,
            replica,
            seed: seed.at(u64::from(replica)).value(),
        })
    });
    rollouts.play_all(slots.collect()).await
}

/// The headline evaluation of a policy.
pub async fn evaluate(setup: &Setup, recipe: &Recipe, sampler: Arc<dyn Sampler>) -> Evaluation {
    let decoding = recipe.eval.headline().decoding(recipe);
    count(&play(setup, recipe, sampler, decoding).await, &recipe.eval.success).evaluation
}
