//! `hone view`: a run in the browser.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hone_view::server::{Server, Settings};
use hone_view::site::Site;

/// Look at runs in the browser: from a curve to the step, the group, the rollout and the token that explains it.
///
/// Serves a page on this machine, live during a run; nothing is loaded from the network and nothing is sent there.
/// Several runs are drawn over each other. The full state of a page is in its address. With --export one file is written
/// instead, which opens from disk.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run directories.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Address to listen on; port 0 picks a free one. Beyond loopback --token is required.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    addr: SocketAddr,
    /// Token that readers append to the address as ?token=…; at least 8 characters.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Write a report to this file and stop.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Traces of each run in the file: those that findings cite, then some of the last step.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "export")]
    traces: usize,
}

/// The port of the viewer.
const PORT: u16 = 7878;

const EXAMPLES: &str = "\
Examples:
  hone view runs/quickstart-1                             then open http://127.0.0.1:7878/
  hone view runs/a runs/b                                 two runs, overlaid and compared task by task
  hone view runs/a --export report.html --traces 20       one file to send to somebody
  hone view runs/a --addr 0.0.0.0:7878 --token s3cret-word for a machine without a browser; or over ssh:
  ssh -L 7878:127.0.0.1:7878 machine hone view runs/a";

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let site = Site::open(&args.runs)?;
    if let Some(path) = &args.export {
        let report = hone_view::export::report(site, args.traces)?;
        std::fs::write(path, report.as_str()).with_context(|| format!("cannot write {}", path.display()))?;
        crate::output::note!("{} written, {} kB", path.display(), report.as_str().len() / 1000);
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings { addr: args.addr, token: args.token };
    settings.check().map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let server = Server::bind(Arc::new(site), settings)
            .await
            .with_context(|| format!("cannot listen on {}; --addr 127.0.0.1:0 takes a free port", args.addr))?;
        crate::output::say!("{}", server.url());
        crate::output::note!("ctrl-c stops it");
        tokio::select! {
            () = server.serve() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Serves a run that is about to begin, as soon as it has a directory. A failure to serve does not stop the run.
pub(super) async fn beside(directory: PathBuf) {
    while !directory.join("recipe.toml").is_file() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let settings = |port: u16| Settings { addr: SocketAddr::from(([127, 0, 0, 1], port)), token: None };
    let site = match Site::open(&[directory]) {
        Ok(site) => Arc::new(site),
        Err(error) => return crate::output::note!("the run cannot be viewed: {error}"),
    };
    let server = match Server::bind(Arc::clone(&site), settings(PORT)).await {
        Ok(server) => Ok(server),
        // The usual port is taken by another run's viewer.
        Err(_) => Server::bind(site, settings(0)).await,
    };
    match server {
        Ok(server) => {
            crate::output::note!("view {}\n", server.url());
            server.serve().await;
        }
        Err(error) => crate::output::note!("the run cannot be viewed: {error}"),
    }
}
