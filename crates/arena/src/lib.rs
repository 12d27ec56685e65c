//! Environments and scoring: the environment interface, the rollout driver, reward components, user simulators,
//! programs over stdio.
//!
//! The environments themselves live in `hone-worlds`, or in a user's own program.

pub mod baseline;
pub mod catalogue;
pub mod chat_client;
pub mod children;
pub mod perturb;
pub mod player;
pub mod registry;
pub mod rewards;
pub mod rollout;
pub mod show;
pub mod solution;
pub mod stdio;
pub mod users;

pub use hone_trace::documented;
