//! Why a run stopped.

use std::path::PathBuf;

use hone_trace::rundir::RunDirError;
use hone_trace::{EngineFault, LearnFault};

use crate::credit::BadCredit;
use crate::loss::BadLoss;
use crate::pack::PackError;
use crate::recipe::RecipeError;
use crate::setup::SetupError;

/// Why a run stopped.
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
    #[error("checkpoint {}: {what}; delete that directory to go on from the one before it", path.display())]
    Checkpoint { path: PathBuf, what: String },
    #[error(
        "nothing was learned in {steps} steps in a row, at last because {why}\neverything is recorded in {}; put it right and go \
         on with `--resume {}` (train.patience sets how long is waited)",
        run.display(), run.display()
    )]
    Stuck { steps: u32, why: String, run: PathBuf },
}
