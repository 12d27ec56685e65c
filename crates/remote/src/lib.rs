//! Remote environments: OpenEnv, MCP and Fleet clients for recipes, and a server that exposes Hone's own to other
//! trainers.
//!
//! A remote environment is an [`Env`](hone_trace::Env) like any other. [`supervise`] has what all of them share:
//! deadlines, retries for infrastructure failures only, a circuit breaker per server, and the wait table. A server that
//! fails costs episodes, each with a transient fault; it never becomes a reward.

pub mod fleet;
pub mod http;
pub mod mcp;
pub mod openenv;
mod rpc;
pub mod serve;
pub mod supervise;
mod tasks;
