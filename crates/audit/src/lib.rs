//! The audit: attacks a recipe's rewards over real tasks of its environment, before a policy does.
//!
//! A [`Probe`] is a policy without a model; its text goes through the recipe's own parser, environment and rubric
//! ([`Stage`]). What all of them earn is the [`Evidence`], over which each [`Law`] is checked. The same episodes among
//! honest ones, credited as the recipe credits, say what would be *reinforced*. docs/audit.md is written
//! from [`PROBES`] and [`LAWS`].

mod audit;
mod evidence;
mod filler;
mod honest;
mod law;
mod laws;
mod page;
mod parity;
mod probe;
mod probes;
mod relative;
mod report;
mod scene;
mod search;
mod stage;
mod subject;
mod text;
mod texts;

use std::path::PathBuf;

use hone_arena::registry::RegistryError;
use hone_arena::rewards::spec::SpecError;
use hone_chat::{ModelDirError, RenderError, TokenizerError, TrainTokenizerError};
use hone_trace::Fault;
use hone_trace::rundir::RunDirError;
use hone_train::credit::BadCredit;

pub use audit::{Options, audit};
pub use evidence::{Component, Evidence, Line};
pub use honest::Source;
pub use law::{Breach, Checked, Law, LawText, Severity};
pub use laws::LAWS;
pub use page::page;
pub use parity::Parity;
pub use probe::{About, Probe, Role, Sweep, Variant};
pub use probes::PROBES;
pub use report::{Audit, ComponentView, Finding, HonestView, Row, SkippedLaw, Worst};
pub use scene::Scene;
pub use stage::Stage;
pub use subject::Subject;
pub use texts::write_texts;

/// Reason why a recipe cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("{0} does not show how its model writes a tool call; give it a chat template with tools")]
    NoCallFormat(PathBuf),
    #[error("{0} names no token that ends a turn; set eos_token_id in its generation_config.json")]
    NoEndOfTurn(PathBuf),
    #[error("the recipe's environments have no training tasks; raise env.tasks")]
    NoTasks,
    #[error(
        "none of {run}'s episodes is of a task of this recipe; give the recipe that the run recorded (recipe.toml)"
    )]
    OtherTasks { run: String },
    #[error("{run} has recorded no step yet; give a run that has, or leave --run out")]
    NoSteps { run: String },
    #[error(transparent)]
    Env(#[from] RegistryError),
    #[error(transparent)]
    Rubric(#[from] SpecError),
    #[error(transparent)]
    Credit(#[from] BadCredit),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    NewTokenizer(#[from] TrainTokenizerError),
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    World(#[from] Fault),
}
