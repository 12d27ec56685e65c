//! Reasons why a run stopped.

use std::path::{Path, PathBuf};

use hone_trace::rundir::RunDirError;
use hone_trace::{EngineFault, LearnFault};

use crate::credit::BadCredit;
use crate::faults::Broke;
use crate::loss::BadLoss;
use crate::pack::PackError;
use crate::recipe::RecipeError;
use crate::setup::SetupError;

/// Reason why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Credit(#[from] BadCredit),
    #[error(transparent)]
    Loss(#[from] BadLoss),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Learn(#[from] LearnFault),
    #[error(transparent)]
    Engine(#[from] EngineFault),
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("checkpoint {}: {what}; delete that directory to resume from the previous checkpoint", path.display())]
    Checkpoint { path: PathBuf, what: String },
    #[error(
        "{broke}\nhint: nothing can be learned like this; correct the environment (`hone env play RECIPE --as oracle` plays it \
         without a model) and start again"
    )]
    Broken { broke: Broke },
    #[error("{}", diverged(*step, what, *newest, run))]
    Diverged { step: u64, what: String, newest: Option<u64>, run: PathBuf },
    #[error(
        "nothing was learned in {steps} consecutive steps, most recently because {why}\neverything is recorded in {}\nhint: \
         correct the cause and resume with `--resume {}` (train.patience sets how many such steps are tolerated)",
        run.display(), run.display()
    )]
    Stuck { steps: u32, why: String, run: PathBuf },
}

impl TrainError {
    /// True if the run itself failed: it ran and recorded everything, but learned nothing. Other errors kept it from
    /// running.
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Stuck { .. } | Self::Diverged { .. }) && !self.is_unusable()
    }

    /// True if the policy was unusable before the first step: nothing was recorded that is worth keeping.
    pub fn is_unusable(&self) -> bool {
        matches!(self, Self::Diverged { step: 0, newest: None, .. })
    }
}

/// The reason and the way on. The recorded recipe would diverge again, and a run keeps its recipe: a new run starts from
/// the last good weights.
fn diverged(step: u64, what: &str, newest: Option<u64>, run: &Path) -> String {
    let run = run.display();
    match newest {
        None if step > 0 => format!(
            "step {step} made the policy's weights not finite ({what}), before any checkpoint; lower the learning rate and \
             start again"
        ),
        None => format!(
            "the policy's weights are not finite ({what}) before the first step; give another policy.model: this one is \
             damaged"
        ),
        Some(newest) => format!(
            "step {step} made the policy's weights not finite ({what}), and they were not saved; start a new run from the \
             last good ones with a lower train.learning_rate or train.max_grad_norm: `hone train {run}/recipe.toml --set \
             policy.model={run}/checkpoints/step-{newest:08} --set train.learning_rate=…` (a warm start: delete {run} and \
             start again with a lower sft.learning_rate)"
        ),
    }
}
