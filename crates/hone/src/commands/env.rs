//! `hone env`: environments: list, describe, play in the terminal, serve.

mod import;
mod serve;

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use hone_arena::registry::{Environment, RegistryError};
use hone_arena::rewards::Case;
use hone_arena::solution::{Move, solution};
use hone_arena::users::{HumanUser, NewUser, User};
use hone_chat::parse::{Format, Toolbox, parse};
use hone_trace::{
    Action, Content, Episode, Message, Task, ToolCall, ToolSet, ToolSpec, Turn, TurnRecord, did_you_mean,
};
use hone_worlds::BUILTINS;
use hone_worlds::registry::{self, EnvEntry, EnvSpec, REMOTE};
use serde_json::{Map, Value, json};

use crate::output::{self, patiently};
use crate::problem::advised;
use crate::recipes::{Source, setting};

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
    /// As the agent, a line that begins with a tool's name is a call, any other a reply; lines may come through a pipe:
    ///
    ///   printf 'look basil\nDone.\n' | hone env play recipe.toml
    ///
    /// `--as oracle` plays the task's reference calls: they should earn the full reward.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Agent,
    User,
    Oracle,
}

#[derive(Debug, clap::Args)]
pub(super) struct Choice {
    /// One of `hone env list`; a recipe's file, for its (first) environment; any other name with --set command=[…] for a
    /// program of your own, or --set kind=openenv for a server
    name: String,
    #[arg(long)]
    seed: Option<u64>,
    /// train and held-out for generated worlds; train, dev or test as a data directory and triage have them
    #[arg(long, default_value = "train")]
    split: String,
    /// Task of the split: its number or its key
    #[arg(long, default_value = "0")]
    task: String,
    /// For retail and airline: the domain's directory of tau-bench or tau2-bench data. Without: a generated world
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For retail and airline: compat is tau-bench v1 to the byte, strict checks arguments, tau2 is tau2-bench
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileName>,
    /// A key of the environment's recipe table (docs/environments.md), such as size=full or difficulty=2. Values are TOML, or
    /// text where they are not
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

impl Choice {
    /// As if these flags had been given.
    pub(super) fn of(name: &str, split: &str, task: &str, options: &[String]) -> Self {
        let (name, split, task, options) = (name.into(), split.into(), task.into(), options.to_vec());
        Self { name, seed: None, split, task, data: None, profile: None, options }
    }

    /// Opens the recipe table that these flags describe.
    pub(super) fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment> {
        let recipe = match Path::new(&self.name) {
            file if file.extension().is_some_and(|ending| ending == "toml") => Some(Source::find(file)?.read(&[])?),
            _ => None,
        };
        let mut table = Map::new();
        if let Some(spec) = recipe.as_ref().and_then(|recipe| recipe.env.first()) {
            let Value::Object(own) = spec.as_ref().table()? else { bail!("{} has no [env] table", self.name) };
            table = own;
        }
        for option in &self.options {
            let (key, value) = setting(option)?;
            table.insert(key, value);
        }
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
        let spec = match EnvSpec::read(table) {
            Err(RegistryError::Unknown(_)) if Path::new(&self.name).exists() => bail!(
                "{} is a file or a directory, not an environment; name a recipe with it (recipe.toml), or give a program of your own: \
                 mine --set 'command=[\"python3\", \"my_env.py\"]'",
                self.name
            ),
            read => read?,
        };
        let mut environment = spec.open_with(user)?;
        if let Some(recipe) = recipe {
            environment.rubric = recipe.rubric.build()?;
        }
        Ok(environment)
    }

    pub(super) fn task<'a>(&self, environment: &'a Environment) -> Result<&'a Task> {
        let known = || environment.splits.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let set = environment.splits.get(&self.split).with_context(|| {
            let near = did_you_mean(&self.split, environment.splits.keys().map(String::as_str));
            format!("{} has no split {:?}; {near}it has {}", self.name, self.split, known())
        })?;
        let numbered = self.task.parse().ok().and_then(|number: usize| set[..].get(number));
        numbered.or_else(|| set.get(&self.task)).with_context(|| {
            format!("{} has no task {:?}; give a number under {} or a key", self.split, self.task, set.len())
        })
    }
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

fn play(choice: &Choice, role: Role) -> Result<()> {
    let mut human: Option<Arc<NewUser>> = None;
    if role == Role::User {
        let builtin = registry::find(&choice.name)?;
        if !builtin.make.user {
            bail!("the agent of {} talks to nobody; play as the agent", builtin.name);
        }
        human = Some(Arc::new(|_, _| {
            Ok(Box::new(HumanUser::new(BufReader::new(io::stdin()), output::text())) as Box<dyn User>)
        }));
    }
    let environment = choice.open(human)?;
    let task = choice.task(&environment)?;
    runtime()?.block_on(async {
        if role == Role::User {
            writeln!(output::text(), "You are the user. Your instruction:\n{}\n", task.prompt)?;
        }
        let opened = environment.arena.open(task, choice.seed.unwrap_or_default());
        let mut episode = patiently(|| waiting(&environment.name), opened).await.map_err(advised)?;
        let toolbox = toolbox(&environment, &episode)?;
        let mut turns = Vec::new();
        match role {
            Role::Agent => as_agent(&mut episode, &toolbox, &mut turns).await?,
            Role::User => {
                if !as_oracle(&mut episode, task, &mut turns).await? {
                    while !step(&mut episode, Action::Reply("Is there anything else?".into()), &mut turns).await?.done {
                    }
                }
            }
            Role::Oracle => {
                write_opening(&mut output::text(), &episode)?;
                as_oracle(&mut episode, task, &mut turns).await?;
            }
        }
        episode.env.finish().await?;
        let facts = episode.env.end().facts;
        score(&environment, facts, episode.tools, turns, false).await
    })
}

/// The human acts until the episode is over or the input ends.
async fn as_agent(episode: &mut Episode, toolbox: &Toolbox, turns: &mut Vec<TurnRecord>) -> Result<()> {
    write_opening(&mut output::text(), episode)?;
    writeln!(output::text(), "\nType a tool's name and its arguments as JSON, or a reply. /quit leaves.")?;
    let mut lines = io::stdin().lock().lines();
    loop {
        write!(output::text(), "> ")?;
        let Some(line) = lines.next().transpose()?.filter(|line| line.trim() != "/quit") else { return Ok(()) };
        if line.trim().is_empty() {
            continue;
        }
        let action = match read_action(line.trim(), &episode.tools, toolbox) {
            Ok(action) => action,
            Err(error) => {
                writeln!(output::text(), "{error}")?;
                continue;
            }
        };
        if step(episode, action, turns).await?.done {
            return Ok(());
        }
    }
}

/// The agent plays the solution; returns whether that ended the episode.
async fn as_oracle(episode: &mut Episode, task: &Task, turns: &mut Vec<TurnRecord>) -> Result<bool> {
    let solution = solution(task).ok_or_else(|| {
        anyhow!("task {} has no solution to play; give it reference calls: {{\"reference\": [{{\"name\": …, \"arguments\": …}}]}}", task.key)
    })?;
    for step_of in solution {
        let action = match step_of {
            Move::Call(call) => {
                writeln!(output::text(), "agent calls {} {}", call.name, Value::Object(call.arguments.clone()))?;
                Action::Calls(vec![call])
            }
            Move::Say(text) => {
                writeln!(output::text(), "agent says: {text}")?;
                Action::Reply(text)
            }
        };
        if step(episode, action, turns).await?.done {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn step(episode: &mut Episode, action: Action, turns: &mut Vec<TurnRecord>) -> Result<Turn> {
    let calls = match &action {
        Action::Calls(calls) => calls.clone(),
        _ => Vec::new(),
    };
    let turn = episode.env.step(action).await.map_err(advised)?;
    write_messages(&mut output::text(), &turn.messages)?;
    turns.push(TurnRecord { executed: calls.len() as u32, failed: turn.failed, calls, ..TurnRecord::default() });
    Ok(turn)
}

/// A line that starts with a tool's name is a call: its arguments are JSON, or the text of its only parameter. They are
/// validated against the schema like a model's.
fn read_action(line: &str, tools: &ToolSet, toolbox: &Toolbox) -> Result<Action> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let Some(tool) = tools.get(name) else {
        // Words before an object are a call of an unknown tool; as a reply they would end the episode.
        if rest.trim_start().starts_with('{') {
            let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
            bail!(
                "there is no tool {name:?}; {}the tools are {}",
                did_you_mean(name, names.iter().copied()),
                names.join(", ")
            );
        }
        return Ok(Action::Reply(line.to_owned()));
    };
    let call = ToolCall::new(name, read_arguments(tool, rest.trim())?);
    let written = format!("<tool_call>\n{}\n</tool_call>", json!({"name": call.name, "arguments": call.arguments}));
    match parse(&written, toolbox, Some(Format::Hermes)).error {
        Some(failure) => Err(anyhow!("{}. {}", failure.message, failure.hint)),
        None => Ok(Action::Calls(vec![call])),
    }
}

fn read_arguments(tool: &ToolSpec, text: &str) -> Result<Map<String, Value>> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    let only: Vec<&str> = tool.parameter_names().collect();
    match (serde_json::from_str(text), only.as_slice()) {
        (Ok(arguments), _) => Ok(arguments),
        (Err(_), [name]) if !text.starts_with('{') => Ok(Map::from_iter([((*name).to_owned(), text.into())])),
        (Err(error), _) => {
            let example = only.iter().map(|name| format!("{name:?}: …")).collect::<Vec<_>>().join(", ");
            Err(anyhow!("the arguments of {} are not JSON ({error}); write {} {{{example}}}", tool.name, tool.name))
        }
    }
}

/// Shows what an episode earned.
pub(super) async fn score(
    environment: &Environment,
    facts: Map<String, Value>,
    tools: ToolSet,
    turns: Vec<TurnRecord>,
    as_json: bool,
) -> Result<()> {
    let mut case = Case::read(Value::Object(facts)).map_err(|why| anyhow!(why))?;
    case.turns = Some(turns);
    case.tools = Some(tools);
    let card = environment.rubric.score_case(&case).await;
    let rewards = card.components.iter().chain([&card.total]);
    if as_json {
        writeln!(output::json(), "{}", json!({"rewards": rewards.collect::<Vec<_>>()}))?;
        return Ok(());
    }
    writeln!(output::text(), "\nrewards")?;
    for reward in rewards {
        let value = reward.value().map_or("unscored".to_owned(), |value| format!("{value:.3}"));
        writeln!(output::text(), "  {:<16} {value:>8}  {}", reward.component, reward.why())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> ToolSet {
        let tool = |name: &str, properties: Value| {
            ToolSpec::new(name, "", json!({"type": "object", "properties": properties, "additionalProperties": false}))
        };
        ToolSet::new(vec![tool("search", json!({"query": {}})), tool("move", json!({"from": {}, "to": {}}))]).unwrap()
    }

    #[test]
    fn a_line_is_a_call_or_a_reply() {
        let toolbox = Toolbox::new(&tools()).unwrap();
        let read_action = |line: &str| read_action(line, &tools(), &toolbox);
        let call = |line: &str| match read_action(line).unwrap() {
            Action::Calls(calls) => Value::Object(calls[0].arguments.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(call("search vpn drops"), json!({"query": "vpn drops"}));
        assert_eq!(call("search {\"query\": \"vpn\"}"), json!({"query": "vpn"}));
        assert_eq!(call("move {\"from\": 1, \"to\": 2}"), json!({"from": 1, "to": 2}));
        assert_eq!(call("search"), json!({}));
        assert!(read_action("move a b").is_err());
        let error = read_action("move {\"form\": 1}").unwrap_err().to_string();
        assert!(error.contains("form") && error.contains("Give only arguments the tool has"), "{error}");
        assert!(read_action("search {\"query\"").is_err());
        let error = read_action("serch {\"query\": \"vpn\"}").unwrap_err().to_string();
        assert!(error.contains("did you mean \"search\"?"), "{error}");
        assert_eq!(read_action("searching now").unwrap(), Action::Reply("searching now".into()));
    }
}
