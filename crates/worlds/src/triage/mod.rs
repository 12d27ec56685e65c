//! IT triage: enterprise tickets to be resolved from a generated knowledge base, or escalated when it has no answer.
//!
//! Two environments share the world and the tasks. In `triage-reader` the ticket, the right documents and distractors
//! are in the prompt and the agent submits once. In `triage-searcher` it has to find them with real BM25 search first.
//! Everything follows from a seed: no data is downloaded, and two machines make the same tasks.
//!
//! - [`WorldSpec`] selects a knowledge base; [`World`] is one, immutable and shared by every episode in it.
//! - [`TaskSpec`] selects tasks; [`TaskSpec::generate`] creates the three [`Splits`], disjoint by construction and
//!   checked.
//! - [`TriageArena`] opens any of these tasks: a task names its world, and its episodes share it.
//! - [`rubric`] is the reward of a triage episode.
//!
//! It knows nothing about token ids, samplers or training.

mod arena;
mod baselines;
mod bm25;
mod catalog;
mod distractors;
mod env;
mod facts;
mod invented;
mod novice;
mod options;
mod problems;
mod rubric;
mod tasks;
mod text;
mod tools;
mod world;

pub use arena::TriageArena;
pub use baselines::baselines;
pub use facts::{Gold, Submitted};
pub use hone_arena::solution::Demonstrator;
pub use options::{HeldOut, TriageSpec};
pub(crate) use options::{READER, SEARCHER};
pub use rubric::rubric;
pub use tasks::{GenerateError, Mode, Split, Splits, TaskSpec};
pub use world::{Document, Scope, Shelf, Size, World, WorldSpec};
