//! The project's own benchmarks, printed as ratios against the peers they can find. Never an assertion on time.

mod device;
mod doctor;
mod engine;
mod env;
mod learn;
mod losses;
mod parse;
mod serve;
mod step;
mod view;

use std::process::ExitCode;

use clap::Subcommand;

/// Run one of the project's benchmarks, printed as ratios against the peers it can find.
///
/// Machines are noisy: every benchmark repeats and interleaves with its peer, and says whether it prints the best or
/// the median.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Engine(engine::Args),
    Device(device::Args),
    Parse(parse::Args),
    Env(env::Args),
    Serve(serve::Args),
    Step(step::Args),
    Losses(losses::Args),
    Learn(learn::Args),
    Doctor(doctor::Args),
    View(view::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.bench {
        Bench::Engine(args) => engine::run(args),
        Bench::Device(args) => device::run(args),
        Bench::Parse(args) => parse::run(args),
        Bench::Env(args) => env::run(args),
        Bench::Serve(args) => serve::run(args),
        Bench::Step(args) => step::run(args),
        Bench::Losses(args) => losses::run(args),
        Bench::Learn(args) => learn::run(args),
        Bench::Doctor(args) => doctor::run(args),
        Bench::View(args) => view::run(args),
    }
}
