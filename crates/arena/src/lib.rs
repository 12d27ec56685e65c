//! Environments and scoring: built-in domains, user simulators, reward components, the rollout driver.

pub mod baseline;
pub mod chat_client;
pub mod domains;
mod process_group;
pub mod registry;
pub mod rewards;
pub mod rollout;
pub mod shop;
pub mod show;
pub mod solution;
pub mod stdio;
pub mod triage;
pub mod users;
