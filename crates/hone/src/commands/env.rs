//! `hone env`: environments: list, describe, play in the terminal, serve.

mod choice;
mod import;
mod play;
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use hone_arena::registry::Environment;
use hone_arena::solution::{Move, solution};
use hone_chat::parse::Toolbox;
use hone_trace::{Content, Episode, Message};
use hone_worlds::BUILTINS;
use hone_worlds::registry::{self, EnvEntry, REMOTE};
use serde_json::{Value, json};

pub(super) use self::choice::Choice;
use self::play::Role;
pub(super) use self::play::score;
use crate::output::{self, patiently};
use crate::problem::advised;

/// Built-in environments: list, describe, play in the terminal, serve to other trainers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Names and descriptions
    List {
        #[arg(long)]
        json: bool,
    },
    /// Tools, splits, rubric and one task of an environment
    Show {
        #[command(flatten)]
        choice: Choice,
        #[arg(long)]
        json: bool,
    },
    /// Play a task: as the agent, as the user of an agent that knows the solution, or let the solution play
    ///
    /// Playing as the agent, a line that begins with a tool's name is a call, any other a reply. Lines may come through a pipe:
    ///
    ///   printf 'look basil\nDone.\n' | hone env play recipe.toml
    ///
    /// `--as oracle` plays the task's reference calls: they should earn the full reward. Exits with code 1 if they earn none.
    #[command(verbatim_doc_comment)]
    Play {
        #[command(flatten)]
        choice: Choice,
        /// Role to play
        #[arg(long = "as", value_name = "ROLE", default_value = "agent")]
        role: Role,
    },
    Serve(serve::Args),
    Import(import::Args),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::List { json } => list(json)?,
        Command::Show { choice, json } => {
            for (at, one) in choice.each()?.iter().enumerate() {
                if at > 0 && !json {
                    writeln!(output::text())?;
                }
                show(one, json)?;
            }
        }
        Command::Play { choice, role } => return play::play(&choice, role),
        Command::Serve(args) => serve::run(args)?,
        Command::Import(args) => import::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(as_json: bool) -> Result<()> {
    let mut out = output::text();
    if as_json {
        let elsewhere = REMOTE.iter().map(|entry| {
            let mut about = about(entry);
            about["kind"] = about["name"].take();
            about
        });
        let all: Value = BUILTINS.iter().map(|entry| about(entry)).chain(elsewhere).collect();
        return Ok(writeln!(output::json(), "{all}")?);
    }
    for builtin in BUILTINS {
        writeln!(out, "{:<16} {}", builtin.name, builtin.about)?;
    }
    for remote in REMOTE {
        writeln!(out, "{:<16} {}", format!("kind={}", remote.name), remote.about)?;
    }
    Ok(())
}

fn about(entry: &EnvEntry) -> Value {
    json!({"name": entry.name, "about": entry.about, "advice": entry.advice, "user": entry.make.user})
}

fn show(choice: &Choice, as_json: bool) -> Result<()> {
    let environment = choice.open(None)?;
    let task = choice.task(&environment)?;
    let described = registry::find(&environment.name).map_or("an environment of your own", |builtin| builtin.about);
    // Kept until the episode is played: a program's process lives in its runtime.
    let runtime = runtime()?;
    let opened = environment.arena.open(task, choice.seed.unwrap_or_default());
    let opened = runtime.block_on(patiently(|| waiting(&environment.name), opened));
    let episode = opened.map_err(advised)?;
    toolbox(&environment, &episode)?;
    let mut out = output::text();
    if as_json {
        let mut shown = json!({"name": environment.name, "about": described});
        let sets = environment.splits.iter();
        shown["splits"] =
            sets.map(|(name, set)| (name.clone(), json!({"tasks": set.len(), "digest": set.digest()}))).collect();
        shown["rubric"] =
            environment.rubric.weights().map(|(name, weight)| json!({"component": name, "weight": weight})).collect();
        shown["system"] = episode.system.into();
        shown["tools"] = json!(episode.tools);
        shown["task"] = json!(task);
        shown["messages"] = json!(episode.first);
        return Ok(writeln!(output::json(), "{shown}")?);
    }
    writeln!(out, "{}: {described}\n", environment.name)?;
    for (name, set) in &environment.splits {
        writeln!(out, "{name:<8} {} tasks, {}", set.len(), set.digest().short())?;
    }
    writeln!(out, "\nrubric")?;
    for (name, weight) in environment.rubric.weights() {
        writeln!(out, "  {name:<16} {weight}")?;
    }
    writeln!(out, "\ntask {}", task.key)?;
    write_opening(&mut out, &episode)?;
    writeln!(out, "\nsolution")?;
    for step in solution(task).unwrap_or_default() {
        match step {
            Move::Call(call) => writeln!(out, "  {} {}", call.name, Value::Object(call.arguments))?,
            Move::Say(text) => writeln!(out, "  says: {text}")?,
        }
    }
    Ok(())
}

/// The tools as training reads them: an environment without tools, or with an invalid schema, is refused.
fn toolbox(environment: &Environment, episode: &Episode) -> Result<Toolbox> {
    if episode.tools.is_empty() {
        bail!("{} offers no tools; answer `open` with at least one under \"tools\"", environment.name);
    }
    Toolbox::new(&episode.tools).with_context(|| format!("the tools of {} cannot be used", environment.name))
}

/// A line for a long first wait.
pub(super) fn waiting(env: &str) -> String {
    format!(
        "waiting for {env} to open an episode; a program of your own has start_deadline_s (60 s) for its first answer, and must \
         flush stdout after each"
    )
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")
}

fn write_opening(out: &mut impl Write, episode: &Episode) -> io::Result<()> {
    writeln!(out, "\nsystem: {}\n\ntools", episode.system)?;
    for tool in episode.tools.iter() {
        let parameters: Vec<&str> = tool.parameter_names().collect();
        let described = tool.description.as_deref().unwrap_or_default();
        writeln!(out, "  {}({}): {described}", tool.name, parameters.join(", "))?;
    }
    writeln!(out)?;
    write_messages(out, &episode.first)
}

fn write_messages(out: &mut impl Write, messages: &[Message]) -> io::Result<()> {
    for message in messages {
        let text = message.content().map(Content::text).unwrap_or_default();
        writeln!(out, "{}: {}", message.role(), text)?;
    }
    Ok(())
}
