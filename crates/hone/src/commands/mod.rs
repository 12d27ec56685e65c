//! One file per command: its arguments, and `run`.

pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod export;
mod foreign;
pub(crate) mod generate;
pub(crate) mod init;
pub(crate) mod model;
pub(crate) mod parse;
pub(crate) mod recipe;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod score;
pub(crate) mod sft;
pub(crate) mod show;
pub(crate) mod train;
pub(crate) mod view;
