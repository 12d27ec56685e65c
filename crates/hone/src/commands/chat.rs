//! `hone chat`: a policy in the terminal.

use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use hone_arena::registry::Environment;
use hone_chat::files::read_json;
use hone_chat::parse::Toolbox;
use hone_chat::tools::read_tools;
use hone_chat::{Conversation, Prompt};
use hone_trace::{
    Action, Content, Env, Episode, Message, SamplingParams, StopReason, Task, ToolCall, ToolSet, TurnRecord, clean,
};
use serde_json::{Value, json};

use super::env::{self, Choice};
use crate::problem::advised;
use crate::speaker::{Reply, Sampling, Speaker};

/// Talk to a policy in the terminal, with tools that an environment plays or that you play
///
/// A line is a message of the user; /quit, or the end of the input, leaves. Lines may come through a pipe.
///
///   hone chat policy
///   hone chat runs/garden-1 --env recipe.toml      # the environment's tools; an empty line asks what its task asks
///   hone chat policy --tools tools.json            # you are asked what each call answers
///   echo 'Look after the basil.' | hone chat policy --env recipe.toml --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A model directory, an adapter, a checkpoint, or a run (its best checkpoint)
    model: PathBuf,
    /// Environment whose tools are played: one of `hone env list`, or a recipe's file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tools", "system"])]
    env: Option<String>,
    /// Task of the environment, by number or key
    #[arg(long, value_name = "TASK", default_value = "0", requires = "env")]
    task: String,
    /// Split of the environment: train or held-out, or another that it has
    #[arg(long, value_name = "SPLIT", default_value = "train", requires = "env")]
    split: String,
    /// A key of the environment's recipe table, such as difficulty=2
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "env")]
    options: Vec<String>,
    /// Tools the policy is offered, whose answers you type: a JSON array of OpenAI function schemas
    #[arg(long, value_name = "TOOLS.json")]
    tools: Option<PathBuf>,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Calls that are answered before you are asked again
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_turns: u32,
    #[command(flatten)]
    sampling: Sampling,
    /// Print one JSON object for each message on stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let params = args.sampling.params()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (mut scene, played) = Scene::open(&args).await?;
        let speaker = Speaker::open(&args.model, args.sampling.threads).await?;
        let show = Show { json: args.json };
        let toolbox = Toolbox::new(&scene.tools).context("the tools cannot be used")?;
        scene.announce(show);
        let mut lines = Lines::default();
        let mut talk = Talk {
            speaker: &speaker,
            toolbox: &toolbox,
            params,
            seed: args.sampling.seed,
            turns: Vec::new(),
            asked: None,
        };
        talk.go(&mut scene, &mut lines, args.max_turns, show).await?;
        // An episode in which nothing was asked was not played.
        if let Some(environment) = played.as_ref().filter(|_| talk.asked.is_some()) {
            let facts = match scene.env.as_mut() {
                Some(env) => {
                    env.finish().await?;
                    env.end().facts
                }
                None => serde_json::Map::new(),
            };
            let other = if talk.asked == Some(Asked::Own) { ", which is not what was asked" } else { "" };
            let of = format!("rewards, for the goal of task {}{other}", scene.task.key);
            env::score(environment, facts, scene.tools.clone(), talk.turns, (!args.json).then_some(&*of)).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Setting of the conversation: prompt, tools, and who answers the calls.
struct Scene {
    system: Option<String>,
    tools: ToolSet,
    /// Task whose variables go into the prompt.
    task: Task,
    /// The first messages of the environment's task.
    first: Vec<Message>,
    env: Option<Box<dyn Env>>,
}

impl Scene {
    async fn open(args: &Args) -> Result<(Self, Option<Environment>)> {
        if let Some(name) = &args.env {
            let choice = Choice::of(name, &args.split, &args.task, &args.options);
            let environment = choice.open(None)?;
            let task = choice.task(&environment)?.clone();
            let Episode { tools, system, first, env } =
                environment.arena.open(&task, args.sampling.seed).await.map_err(advised)?;
            let scene = Self { system: Some(system), tools, task, first, env: Some(env) };
            return Ok((scene, Some(environment)));
        }
        let tools = match &args.tools {
            Some(file) => {
                let tools: Value = read_json(file)?;
                read_tools(&tools).map_err(|error| anyhow!("{}: {error}", file.display()))?
            }
            None => ToolSet::none(),
        };
        let (system, task) = (args.system.clone(), Task::new("chat", "chat", ""));
        Ok((Self { system, tools, task, first: Vec::new(), env: None }, None))
    }

    fn announce(&self, show: Show) {
        if show.json {
            return;
        }
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        if !names.is_empty() {
            crate::output::note!("tools: {}", names.join(", "));
        }
        if let Some(first) = self.first.last().and_then(Message::content) {
            crate::output::note!(
                "its task asks: {}\nan empty line asks that; or type something else",
                clean(&first.text())
            );
        }
    }
}

/// Input, one line at a time, from a person or from a pipe.
#[derive(Debug, Default)]
struct Lines {
    over: bool,
}

impl Lines {
    /// The next line; `None` at the end.
    fn next(&mut self, prompt: &str, show: Show) -> Result<Option<String>> {
        let person = io::stdin().is_terminal();
        if person {
            anstream::eprint!("{prompt}> ");
            io::stderr().flush()?;
        }
        let mut line = String::new();
        if self.over
            || io::stdin().lock().read_line(&mut line).context("cannot read a line")? == 0
            || line.trim() == "/quit"
        {
            self.over = true;
            return Ok(None);
        }
        let line = line.trim().to_owned();
        if !person && !show.json {
            crate::output::say!("{prompt}> {}", clean(&line));
        }
        Ok(Some(line))
    }
}

/// Display settings of messages.
#[derive(Debug, Clone, Copy)]
struct Show {
    json: bool,
}

impl Show {
    fn message(self, message: &Message) {
        if self.json {
            crate::output::said(&hone_trace::clean_json(&json!(message).to_string()));
            return;
        }
        let text = message.content().map(Content::text).unwrap_or_default();
        let speaker = if message.role() == "assistant" { "agent" } else { message.role() };
        if let Message::Assistant { tool_calls, .. } = message {
            for call in tool_calls {
                crate::output::say!("agent calls {} {}", clean(&call.name), Value::Object(call.arguments.clone()));
            }
        }
        if !text.is_empty() {
            crate::output::say!("{speaker}: {}", clean(&text));
        }
    }
}

/// The conversation in progress.
struct Talk<'a> {
    speaker: &'a Speaker,
    toolbox: &'a Toolbox,
    params: SamplingParams,
    seed: u64,
    turns: Vec<TurnRecord>,
    /// The first question, once there was one.
    asked: Option<Asked>,
}

/// First question of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// That of the environment's task.
    Task,
    /// The person's own.
    Own,
}

impl Talk<'_> {
    async fn go(&mut self, scene: &mut Scene, lines: &mut Lines, max_turns: u32, show: Show) -> Result<()> {
        let mut conversation: Option<Conversation> = None;
        // Ids of the reply that awaits an answer.
        let mut waiting: Vec<u32> = Vec::new();
        while let Some(line) = lines.next("you", show)? {
            let asked = match conversation {
                None if line.is_empty() && !scene.first.is_empty() => {
                    self.asked = Some(Asked::Task);
                    scene.first.clone()
                }
                _ if line.is_empty() => continue,
                _ => vec![Message::user(line)],
            };
            self.asked.get_or_insert(Asked::Own);
            if show.json {
                for message in &asked {
                    show.message(message);
                }
            }
            let mut open = match conversation.take() {
                None => self.speaker.renderer.open(&Prompt {
                    system: scene.system.as_deref(),
                    messages: &asked,
                    tools: &scene.tools,
                    variables: &scene.task.variables,
                    sections: &[],
                })?,
                Some(mut open) => {
                    open.extend(&waiting, &asked)?;
                    open
                }
            };
            let over = self.act(scene, lines, &mut open, &mut waiting, max_turns, show).await?;
            if over {
                return Ok(());
            }
            conversation = Some(open);
        }
        Ok(())
    }

    /// Plays the policy's turns until it replies; returns whether the episode is over.
    async fn act(
        &mut self,
        scene: &mut Scene,
        lines: &mut Lines,
        open: &mut Conversation,
        waiting: &mut Vec<u32>,
        max_turns: u32,
        show: Show,
    ) -> Result<bool> {
        for _ in 0..max_turns {
            self.seed += 1;
            let reply = self.speaker.reply(open, self.toolbox, &self.params, self.seed).await?;
            let calls: Vec<ToolCall> = reply.parsed.calls.iter().map(|parsed| parsed.call.clone()).collect();
            show.message(&said(&reply, &calls));
            if let Some(failure) = &reply.parsed.error {
                crate::output::note!("this reply cannot be read: {}. {}", failure.message, failure.hint);
            }
            if reply.stop == StopReason::Length {
                crate::output::note!("the reply was cut off; --max-new allows more tokens");
            }
            if calls.is_empty() {
                self.turns.push(TurnRecord { failure: reply.parsed.error.clone(), ..TurnRecord::default() });
                *waiting = reply.ids;
                return Ok(false);
            }
            let (answers, done) = self.answer(scene, lines, calls, &reply, show).await?;
            if done {
                return Ok(true);
            }
            if lines.over && answers.is_empty() {
                return Ok(true);
            }
            open.extend(&reply.ids, &answers)?;
        }
        crate::output::note!("no reply after {max_turns} turns; --max-turns allows more");
        Ok(true)
    }

    /// Answers to the calls, by the environment or by hand.
    async fn answer(
        &mut self,
        scene: &mut Scene,
        lines: &mut Lines,
        calls: Vec<ToolCall>,
        reply: &Reply,
        show: Show,
    ) -> Result<(Vec<Message>, bool)> {
        let failure = reply.parsed.error.clone();
        let mut record =
            TurnRecord { executed: calls.len() as u32, calls: calls.clone(), failure, ..TurnRecord::default() };
        let (answers, done) = if let Some(env) = &mut scene.env {
            let turn = env.step(Action::Calls(calls)).await?;
            record.failed = turn.failed;
            (turn.messages, turn.done)
        } else {
            let mut answers = Vec::new();
            for call in &calls {
                let Some(answer) = lines.next(&format!("what {} answers", call.name), show)? else { break };
                answers.push(Message::tool(&call.name, answer));
            }
            (answers, false)
        };
        self.turns.push(record);
        if scene.env.is_some() || show.json {
            for answer in &answers {
                show.message(answer);
            }
        }
        Ok((answers, done))
    }
}

/// A reply as a message: its raw text if it cannot be parsed.
fn said(reply: &Reply, calls: &[ToolCall]) -> Message {
    let text = if reply.parsed.error.is_some() { &reply.text } else { &reply.parsed.content };
    Message::Assistant {
        content: Some(Content::Text(text.trim().to_owned())).filter(|content| !content.text().is_empty()),
        reasoning: reply.parsed.reasoning.clone(),
        tool_calls: calls.to_vec(),
    }
}
