//! `hone env serve`: an environment as a server for other trainers.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_remote::serve::{self, Host, Options};
use hone_worlds::registry;

use super::Choice;

/// Serve an environment to other trainers: OpenEnv and MCP on one port
///
/// Everything that a recipe's [env] table can name can be served. OpenEnv clients find a session for each connection at
/// /ws, plain HTTP, the Task API and OpenEnv's JSON-RPC; MCP clients find the environment's tools at /mcp, and `respond`,
/// which speaks to the user or gives the final answer. The address is printed on stdout.
///
/// Examples:
///   hone env serve retail
///   hone env serve triage-reader --addr 0.0.0.0:8000 --token-env HONE_TOKEN
///   hone env serve my.toml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// One of `hone env list`, a recipe (its [env]), or a name of your own with --set command=[…]
    name: String,
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    addr: SocketAddr,
    /// A key of the environment's recipe table, such as difficulty=2
    #[arg(long = "set", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Concurrent sessions
    #[arg(long, default_value_t = 1024)]
    sessions: usize,
    /// Concurrent sessions of one client address
    #[arg(long, default_value_t = 1024)]
    per_client: usize,
    /// Steps of an episode; the last of them truncates it
    #[arg(long, default_value_t = 100)]
    max_steps: u64,
    /// Refuse a step after the end of an episode, which the protocol does not
    #[arg(long)]
    strict_end: bool,
    /// Seconds that a session without a connection lives unused
    #[arg(long, default_value_t = 1800)]
    idle_s: u64,
    /// Environment variable with the operator's token: without it every route but /health is refused
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// Environment variable with the agent's token, which may act in a session and neither reset it nor see its reward
    #[arg(long, value_name = "NAME", requires = "token_env")]
    agent_token_env: Option<String>,
    /// Leave out /reset, /step and /state, as OpenEnv's production mode does
    #[arg(long)]
    production: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let environment = Choice::of(&args.name, "", "", &args.options).open(None)?;
    let about = registry::find(&environment.name).map_or("a program of its owner's", |builtin| builtin.about);
    let options = Options {
        sessions: args.sessions,
        per_client: args.per_client,
        max_steps: args.max_steps,
        strict_end: args.strict_end,
        idle: Duration::from_secs(args.idle_s),
        token: args.token_env.as_deref().map(token).transpose()?,
        agent_token: args.agent_token_env.as_deref().map(token).transpose()?,
        production: args.production,
        ..Options::default()
    };
    if options.token.is_none() && !args.addr.ip().is_loopback() {
        crate::output::note!(
            "warning: anybody who reaches {} may use it; --token-env NAME asks for a token",
            args.addr
        );
    }
    let name = environment.name.clone();
    let host = Arc::new(Host::new(environment, about, options));
    tokio::runtime::Runtime::new().context("cannot start the runtime")?.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.addr).await.with_context(|| {
            format!("cannot listen at {}; choose another --addr, or port 0 for a free one", args.addr)
        })?;
        let url = format!("http://{}", listener.local_addr()?);
        writeln!(std::io::stdout(), "{url}")?;
        crate::output::note!("serving {name} by OpenEnv and MCP ({url}/mcp); ctrl-c stops");
        tokio::select! {
            served = serve::serve(listener, host) => served.context("the server broke"),
            stopped = tokio::signal::ctrl_c() => stopped.context("listening for ctrl-c"),
        }
    })
}

fn token(name: &str) -> Result<String> {
    match std::env::var(name) {
        Ok(token) if token.len() >= 16 => Ok(token),
        Ok(_) => bail!("the token in {name} is shorter than 16 characters; anybody could guess it. Take a longer one"),
        Err(_) => bail!("{name} is not set; put a token into it: export {name}=$(openssl rand -hex 16)"),
    }
}
