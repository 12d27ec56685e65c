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
        matches!(self, Self::Stuck { .. } | Self::Diverged { .. })
    }
}

/// The reason and the way back. The recorded recipe would diverge again, so it is changed first.
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
            "step {step} made the policy's weights not finite ({what}), and they were not saved; lower \
             train.learning_rate or train.max_grad_norm in {run}/recipe.toml and resume from the checkpoint of step {newest} \
             with `hone train --resume {run}` (a warm start: `hone sft … --resume` with the lower sft.learning_rate)"
        ),
    }
}
