//! `hone`: train tool-using LLM agents with reinforcement learning, and prove the training is real.
//!
//! One short match. Data goes to stdout, everything else to stderr. Exit codes: 0 good, 1 the answer is no (a check
//! failed, a bar was missed), 2 the command could not run.

mod bench;
mod commands;
mod engines;
mod output;
mod place;
mod policies;
mod problem;
mod progress;
mod recipes;
mod scratch;
mod speaker;

use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use commands::check::Refused;
use hone_trace::clean;
use hone_train::run::TrainError;

/// Train tool-using LLM agents with reinforcement learning, and prove the training is real.
#[derive(Debug, Parser)]
#[command(name = "hone", version, max_term_width = 100, propagate_version = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(commands::init::Args),
    Train(commands::train::Args),
    Sft(commands::sft::Args),
    Recipe(commands::recipe::Args),
    Eval(commands::eval::Args),
    Compare(commands::compare::Args),
    Report(commands::report::Args),
    Check(commands::check::Args),
    Doctor(commands::doctor::Args),
    Audit(commands::audit::Args),
    Chat(commands::chat::Args),
    Generate(commands::generate::Args),
    View(commands::view::Args),
    Show(commands::show::Args),
    Export(commands::export::Args),
    Parse(commands::parse::Args),
    Render(commands::render::Args),
    Replay(commands::replay::Args),
    Score(commands::score::Args),
    Env(commands::env::Args),
    Data(commands::data::Args),
    Engine(commands::engine::Args),
    Model(commands::model::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    hone_remote::supervise::cleanup::watch_with(progress::watch);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => refused(&error),
    };
    match run(cli) {
        Ok(code) => code,
        // `hone … | head` closes our stdout: not an error of ours.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprint!("{}", problem::shown(&error));
            // A run that learned nothing, or was refused, is an answer; any other error kept the command from running.
            let verdict = error.downcast_ref::<TrainError>().is_some_and(TrainError::is_verdict);
            ExitCode::from(if verdict || error.is::<Refused>() { 1 } else { 2 })
        }
    }
}

/// Commands that take a recipe's keys by `--set`.
const WITH_RECIPE: [&str; 5] = ["train", "sft", "check", "eval", "audit"];

/// Refusal of a command line, or the help that was asked for. A recipe key given as a flag is answered with its
/// `--set`. Its words may be untrusted, so control characters do not reach the terminal.
fn refused(error: &clap::Error) -> ! {
    if let Some(words) = meant(error).or_else(|| key_as_flag(error)) {
        output::noted(&words);
        std::process::exit(error.exit_code());
    }
    let words = error.to_string();
    if !error.use_stderr() || clean(&words) == words {
        error.exit();
    }
    output::noted(words.trim_end());
    std::process::exit(error.exit_code())
}

/// Flags that a command does not have, and what does the same there.
const MEANT: [(&str, &str, &str); 4] = [
    ("train", "--out", "--run DIR names the run's directory"),
    ("view", "--port", "--addr 127.0.0.1:PORT names the address with its port"),
    ("show", "--step", "the step follows the run: hone show RUN 3"),
    ("show", "--group", "the group follows the step: hone show RUN 3 1"),
];

/// Message for a flag that a command has in another form.
fn meant(error: &clap::Error) -> Option<String> {
    let command = std::env::args().nth(1)?;
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let known = MEANT.iter().find(|(of, name, _)| *of == command && name == flag);
    let (_, _, hint) = known.filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    Some(format!("error: {flag} is not an option of `hone {command}`\nhint: {hint}"))
}

/// Message for a flag that is a recipe key.
fn key_as_flag(error: &clap::Error) -> Option<String> {
    let command = std::env::args().nth(1)?;
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || !WITH_RECIPE.contains(&&*command) {
        return None;
    }
    let name = flag.trim_start_matches('-').replace('-', "_");
    let at_top = hone_train::keys::RECIPE.iter().any(|keys| keys.iter().any(|key| key.name == name));
    let is_table = || hone_train::keys::sections().iter().any(|section| section.path == name);
    let places = if at_top && !is_table() { vec![name] } else { hone_train::keys::places(&name) };
    let sets: Vec<String> = places.iter().map(|path| format!("--set {path}=VALUE")).collect();
    let hint = format!("hint: it is a recipe's key: {}", sets.join(" or "));
    (!sets.is_empty()).then(|| format!("error: {flag} is not an option of `hone {command}`\n{hint}"))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Init(args) => commands::init::run(args),
        Command::Train(args) => commands::train::run(args),
        Command::Sft(args) => commands::sft::run(args),
        Command::Recipe(args) => commands::recipe::run(args),
        Command::Eval(args) => commands::eval::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Audit(args) => commands::audit::run(args),
        Command::Chat(args) => commands::chat::run(args),
        Command::Generate(args) => commands::generate::run(args),
        Command::View(args) => commands::view::run(args),
        Command::Show(args) => commands::show::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Parse(args) => commands::parse::run(args),
        Command::Render(args) => commands::render::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Score(args) => commands::score::run(args),
        Command::Env(args) => commands::env::run(args),
        Command::Data(args) => commands::data::run(args),
        Command::Engine(args) => commands::engine::run(args),
        Command::Model(args) => commands::model::run(args),
        Command::Bench(args) => bench::run(args),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe))
}
