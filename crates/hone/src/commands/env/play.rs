//! `hone env play`: an episode as the agent, as the user, or by the solution.

use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use hone_arena::registry::Environment;
use hone_arena::rewards::Case;
use hone_arena::solution::{Move, solution};
use hone_arena::users::{HumanUser, NewUser, User};
use hone_chat::parse::{Format, Toolbox, parse};
use hone_trace::{Action, Episode, Task, ToolCall, ToolSet, ToolSpec, Turn, TurnRecord, did_you_mean, rounded};
use hone_worlds::registry;
use serde_json::{Map, Value, json};

use super::{Choice, runtime, toolbox, waiting, write_messages, write_opening};
use crate::output::{self, patiently};
use crate::problem::advised;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    Agent,
    User,
    Oracle,
}

pub(super) fn play(choice: &Choice, role: Role) -> Result<ExitCode> {
    let choice = &first(choice)?;
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
        let earned = score(&environment, facts, episode.tools, turns, Some("rewards")).await?;
        if role == Role::Oracle && earned.is_none_or(|earned| earned <= 0.0) {
            output::note!(
                "the solution of task {} earns nothing; correct its reference, or what the environment answers",
                task.key
            );
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The environment to play: of several, the first, which is said.
fn first(choice: &Choice) -> Result<Choice> {
    let mut each = choice.each()?;
    if each.len() > 1 {
        let names: Vec<&str> = each.iter().filter_map(Choice::env).collect();
        output::note!("{} is the first of {}; --env NAME chooses another", names[0], names.join(", "));
    }
    Ok(each.swap_remove(0))
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

/// Shows what an episode earned: under a title, or as JSON. Returns the total.
pub(crate) async fn score(
    environment: &Environment,
    facts: Map<String, Value>,
    tools: ToolSet,
    turns: Vec<TurnRecord>,
    title: Option<&str>,
) -> Result<Option<f64>> {
    let mut case = Case::read(Value::Object(facts)).map_err(|why| anyhow!(why))?;
    case.turns = Some(turns);
    case.tools = Some(tools);
    let card = environment.rubric.score_case(&case).await;
    let rewards = card.components.iter().chain([&card.total]);
    let Some(title) = title else {
        writeln!(output::json(), "{}", json!({"rewards": rewards.collect::<Vec<_>>()}))?;
        return Ok(card.total.value());
    };
    writeln!(output::text(), "\n{title}")?;
    for reward in rewards {
        let value = reward.value().map_or("unscored".to_owned(), |value| format!("{:.3}", rounded(value, 3)));
        writeln!(output::text(), "  {:<16} {value:>8}  {}", reward.component, reward.why())?;
    }
    Ok(card.total.value())
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
