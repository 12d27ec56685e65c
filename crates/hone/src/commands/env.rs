//! `hone env`: the built-in environments: what there is, what one looks like, playing one in the terminal, serving one.

mod import;
mod serve;

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use hone_arena::registry::Environment;
use hone_arena::rewards::Case;
use hone_arena::solution::{Move, solution};
use hone_arena::users::{HumanUser, NewUser, User};
use hone_trace::{Action, Content, Episode, Message, Task, ToolCall, ToolSet, ToolSpec, Turn, TurnRecord};
use hone_worlds::registry::{self, BUILTINS, EnvEntry, EnvSpec, REMOTE};
use serde_json::{Map, Value, json};

/// Built-in environments: list, describe, play in the terminal, serve to other trainers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Names, and what they are
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
    /// Play a task: as the agent, or as the user of an agent that knows the solution
    Play {
        #[command(flatten)]
        choice: Choice,
        /// Whom you play
        #[arg(long = "as", value_name = "ROLE", default_value = "agent")]
        role: Role,
    },
    Serve(serve::Args),
    Import(import::Args),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Agent,
    User,
}

#[derive(Debug, clap::Args)]
struct Choice {
    /// One of `hone env list`; any other name with --set command=[…] for a program of your own, or --set kind=openenv for a
    /// server
    name: String,
    #[arg(long)]
    seed: Option<u64>,
    /// train and held-out for generated worlds; train, dev or test as a data directory and triage have them
    #[arg(long, default_value = "train")]
    split: String,
    /// Which task of the split: its number or its key
    #[arg(long, default_value = "0")]
    task: String,
    /// For retail and airline: the domain's directory of tau-bench or tau2-bench data. Without: a generated world
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For retail and airline: compat is tau-bench v1 to the byte, strict checks arguments, tau2 is tau2-bench
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileName>,
    /// A key of the environment's recipe table (docs/environments.md), such as size=full or difficulty=2
    #[arg(long = "set", value_name = "KEY=VALUE")]
    options: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    Compat,
    Strict,
    Tau2,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::List { json } => list(json)?,
        Command::Show { choice, json } => show(&choice, json)?,
        Command::Play { choice, role } => play(&choice, role)?,
        Command::Serve(args) => serve::run(args)?,
        Command::Import(args) => import::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(as_json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let elsewhere = REMOTE.iter().map(|entry| {
            let mut about = about(entry);
            about["kind"] = about["name"].take();
            about
        });
        let all: Value = BUILTINS.iter().map(|entry| about(entry)).chain(elsewhere).collect();
        return Ok(writeln!(out, "{all}")?);
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
    let episode = runtime.block_on(environment.arena.open(task, choice.seed.unwrap_or_default()))?;
    let mut out = io::stdout().lock();
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
        return Ok(writeln!(out, "{shown}")?);
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
            Move::Say(text) => writeln!(out, "  says: {}", clean(&text))?,
        }
    }
    Ok(())
}

impl Choice {
    /// The recipe table these flags stand for, opened.
    fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment> {
        let mut table = self.options.iter().map(|option| read_option(option)).collect::<Result<Map<_, _>>>()?;
        table.entry("name").or_insert_with(|| self.name.clone().into());
        if let Some(seed) = self.seed {
            table.insert("seed".into(), seed.into());
        }
        if let Some(data) = &self.data {
            table.insert("data".into(), data.display().to_string().into());
        }
        if let Some(profile) = self.profile.and_then(|profile| profile.to_possible_value()) {
            table.insert("profile".into(), profile.get_name().into());
        }
        Ok(EnvSpec::read(table)?.open_with(user)?)
    }

    fn task<'a>(&self, environment: &'a Environment) -> Result<&'a Task> {
        let known = || environment.splits.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let set = environment
            .splits
            .get(&self.split)
            .with_context(|| format!("{} has no split {:?}; it has {}", self.name, self.split, known()))?;
        let numbered = self.task.parse().ok().and_then(|number: usize| set[..].get(number));
        numbered.or_else(|| set.get(&self.task)).with_context(|| {
            format!("{} has no task {:?}: give a number under {} or a key", self.split, self.task, set.len())
        })
    }
}

/// `key=value`: the value as JSON where it is some, else as text.
fn read_option(option: &str) -> Result<(String, Value)> {
    let (key, value) = option.split_once('=').with_context(|| format!("{option:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")
}

fn write_opening(out: &mut impl Write, episode: &Episode) -> io::Result<()> {
    writeln!(out, "\nsystem: {}\n\ntools", clean(&episode.system))?;
    for tool in episode.tools.iter() {
        let parameters: Vec<&str> = tool.parameter_names().collect();
        let described = clean(tool.description.as_deref().unwrap_or_default());
        writeln!(out, "  {}({}): {described}", tool.name, parameters.join(", "))?;
    }
    writeln!(out)?;
    write_messages(out, &episode.first)
}

fn write_messages(out: &mut impl Write, messages: &[Message]) -> io::Result<()> {
    for message in messages {
        let text = message.content().map(Content::text).unwrap_or_default();
        writeln!(out, "{}: {}", message.role(), clean(&text))?;
    }
    Ok(())
}

/// Control characters could move the cursor or rewrite the screen; lines and tabs may stay.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

fn play(choice: &Choice, role: Role) -> Result<()> {
    let mut human: Option<Arc<NewUser>> = None;
    if role == Role::User {
        let builtin = registry::find(&choice.name)?;
        if !builtin.make.user {
            bail!("the agent of {} talks to nobody; play as the agent", builtin.name);
        }
        human = Some(Arc::new(|_, _| {
            Ok(Box::new(HumanUser::new(BufReader::new(io::stdin()), io::stdout())) as Box<dyn User>)
        }));
    }
    let environment = choice.open(human)?;
    let task = choice.task(&environment)?;
    runtime()?.block_on(async {
        if role == Role::User {
            anstream::println!("You are the user. Your instruction:\n{}\n", clean(&task.prompt));
        }
        let mut episode = environment.arena.open(task, choice.seed.unwrap_or_default()).await?;
        let mut turns = Vec::new();
        match role {
            Role::Agent => as_agent(&mut episode, &mut turns).await?,
            Role::User => as_user(&mut episode, task, &mut turns).await?,
        }
        score(&environment, &mut episode, turns).await
    })
}

/// The human acts until the episode is over or the input ends.
async fn as_agent(episode: &mut Episode, turns: &mut Vec<TurnRecord>) -> Result<()> {
    write_opening(&mut io::stdout(), episode)?;
    anstream::println!("\nType a tool's name and its arguments as JSON, or a reply. /quit leaves.");
    let mut lines = io::stdin().lock().lines();
    loop {
        anstream::print!("> ");
        io::stdout().flush()?;
        let Some(line) = lines.next().transpose()?.filter(|line| line.trim() != "/quit") else { return Ok(()) };
        if line.trim().is_empty() {
            continue;
        }
        let action = match read_action(line.trim(), &episode.tools) {
            Ok(action) => action,
            Err(error) => {
                anstream::println!("{error}");
                continue;
            }
        };
        if step(episode, action, turns).await?.done {
            return Ok(());
        }
    }
}

/// The agent plays the solution, then asks what else there is until the user ends it.
async fn as_user(episode: &mut Episode, task: &Task, turns: &mut Vec<TurnRecord>) -> Result<()> {
    let solution = solution(task).ok_or_else(|| anyhow!("task {} has no solution to play", task.key))?;
    for step_of in solution {
        let action = match step_of {
            Move::Call(call) => {
                anstream::println!("agent calls {} {}", call.name, Value::Object(call.arguments.clone()));
                Action::Calls(vec![call])
            }
            Move::Say(text) => Action::Reply(text),
        };
        if step(episode, action, turns).await?.done {
            return Ok(());
        }
    }
    while !step(episode, Action::Reply("Is there anything else?".into()), turns).await?.done {}
    Ok(())
}

async fn step(episode: &mut Episode, action: Action, turns: &mut Vec<TurnRecord>) -> Result<Turn> {
    let calls = match &action {
        Action::Calls(calls) => calls.clone(),
        _ => Vec::new(),
    };
    let turn = episode.env.step(action).await?;
    write_messages(&mut io::stdout(), &turn.messages)?;
    turns.push(TurnRecord { executed: calls.len() as u32, failed: turn.failed, calls, ..TurnRecord::default() });
    Ok(turn)
}

/// A line that starts with a tool's name is a call: its arguments are JSON, or the text of its only parameter.
fn read_action(line: &str, tools: &ToolSet) -> Result<Action> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let Some(tool) = tools.get(name) else { return Ok(Action::Reply(line.to_owned())) };
    let arguments = read_arguments(tool, rest.trim())?;
    Ok(Action::Calls(vec![ToolCall::new(name, arguments)]))
}

fn read_arguments(tool: &ToolSpec, text: &str) -> Result<Map<String, Value>> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    let only: Vec<&str> = tool.parameter_names().collect();
    match (serde_json::from_str(text), only.as_slice()) {
        (Ok(arguments), _) => Ok(arguments),
        (Err(_), [name]) if !text.starts_with('{') => Ok(Map::from_iter([((*name).to_owned(), text.into())])),
        (Err(error), _) => Err(anyhow!("the arguments of {} are a JSON object: {error}", tool.name)),
    }
}

async fn score(environment: &Environment, episode: &mut Episode, turns: Vec<TurnRecord>) -> Result<()> {
    episode.env.finish().await?;
    let mut case = Case::read(Value::Object(episode.env.end().facts)).map_err(|why| anyhow!(why))?;
    case.turns = Some(turns);
    case.tools = Some(episode.tools.clone());
    let card = environment.rubric.score_case(&case).await;
    anstream::println!("\nrewards");
    for reward in card.components.iter().chain([&card.total]) {
        let value = reward.value().map_or("unscored".to_owned(), |value| format!("{value:.3}"));
        anstream::println!("  {:<16} {value:>8}  {}", reward.component, clean(reward.why()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> ToolSet {
        let tool = |name: &str, properties: Value| ToolSpec::new(name, "", json!({"properties": properties}));
        ToolSet::new(vec![tool("search", json!({"query": {}})), tool("move", json!({"from": {}, "to": {}}))]).unwrap()
    }

    #[test]
    fn a_line_is_a_call_or_a_reply() {
        let call = |line: &str| match read_action(line, &tools()).unwrap() {
            Action::Calls(calls) => Value::Object(calls[0].arguments.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(call("search vpn drops"), json!({"query": "vpn drops"}));
        assert_eq!(call("search {\"query\": \"vpn\"}"), json!({"query": "vpn"}));
        assert_eq!(call("move {\"from\": 1, \"to\": 2}"), json!({"from": 1, "to": 2}));
        assert_eq!(call("search"), json!({}));
        assert!(read_action("move a b", &tools()).is_err());
        assert!(read_action("search {\"query\"", &tools()).is_err());
        assert_eq!(read_action("searching now", &tools()).unwrap(), Action::Reply("searching now".into()));
    }

    #[test]
    fn options_are_json_where_they_can_be() {
        assert_eq!(read_option("level=2").unwrap(), ("level".into(), json!(2)));
        assert_eq!(read_option("size=full").unwrap(), ("size".into(), json!("full")));
        assert!(read_option("size").is_err());
    }

    #[test]
    fn hostile_bytes_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\nc");
    }
}
