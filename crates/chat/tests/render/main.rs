//! Rendering: templates, model directories, conversations that grow, the budget.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what cannot go on should panic")]

mod append;
mod budget;
mod foreign;
mod model_dir;
mod support;
mod template;
