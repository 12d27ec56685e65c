//! One file per command: its arguments, and `run`.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod env;
mod foreign;
pub(crate) mod model;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod score;
pub(crate) mod sft;
pub(crate) mod train;
