//! Environments elsewhere: OpenEnv, MCP and Fleet as environments of a recipe, and Hone's own served to other trainers.
//!
//! A remote environment is an [`Env`](hone_trace::Env) like any other. What all of them share stands in [`supervise`]:
//! deadlines, retries of infrastructure errors alone, a circuit breaker for each server, and a table of who waits for what.
//! A server that fails costs episodes, each with a transient fault; it never becomes a reward.

pub mod fleet;
pub mod http;
pub mod mcp;
pub mod openenv;
pub mod rpc;
pub mod serve;
pub mod supervise;
mod tasks;
