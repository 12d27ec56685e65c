//! `hone show`: from a run's curves to one token, in the terminal.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};
use hone_view::run::{Filter, Full, Group, Part, Run};
use hone_view::text::{self, Page};
use serde_json::{Value, json};

/// Look at a run in the terminal: its steps, a step's groups, a group side by side, a conversation, its tokens.
///
/// Each further argument goes one level deeper. A step is a number, or an evaluation by its name, such as eval-0-greedy.
/// Works on a run that is in progress, was interrupted, or was recorded by a newer version, and reports what it skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run directory.
    run: PathBuf,
    /// A step, or an evaluation by its name.
    step: Option<String>,
    /// A group of the step, by its number.
    group: Option<usize>,
    /// A rollout of the group, by its number from 1.
    rollout: Option<usize>,
    /// A trace by its number in the run, as `hone doctor` cites it.
    #[arg(long, value_name = "N", conflicts_with_all = ["step", "group", "rollout"])]
    trace: Option<u64>,
    /// Every token: origin, trained or not and why, logprobs, gap, advantage, entropy.
    #[arg(long)]
    tokens: bool,
    /// Show only what contains these words, in any case: steps with matching rollouts, a step's or a group's rollouts,
    /// a rollout's messages. System prompts are not searched.
    #[arg(long, value_name = "TEXT", conflicts_with = "tokens")]
    grep: Option<String>,
    /// Every step, and full texts.
    #[arg(long)]
    all: bool,
    /// Print JSON: one object, or one line per step, group or token.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  hone show runs/quickstart-1                   its steps
  hone show runs/quickstart-1 12                the groups of step 12, rewards and advantages as dots
  hone show runs/quickstart-1 --grep refund     the steps with rollouts that speak of a refund
  hone show runs/quickstart-1 12 --grep refund  those rollouts of step 12
  hone show runs/quickstart-1 12 3              the rollouts of group 3 side by side
  hone show runs/quickstart-1 12 3 1            the first of them as a conversation
  hone show runs/quickstart-1 12 3 1 --tokens   token by token
  hone show runs/quickstart-1 eval-0-greedy     the evaluation before the first step
  hone show runs/quickstart-1 --trace 1234      a trace that a finding cites";

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let run = Run::open(&args.run)?;
    let columns = terminal_size::terminal_size().map_or(120, |(width, _)| usize::from(width.0));
    let colour = AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let page = Page { colour, columns };
    let printed = if args.json { as_json(&run, &args)? } else { as_text(&run, &args, page)? };
    write!(std::io::stdout().lock(), "{printed}")?;
    Ok(ExitCode::SUCCESS)
}

/// The trace that the arguments name, if they go that deep.
fn trace(run: &Run, args: &Args) -> Result<Option<Full>> {
    let mut found = named(run, args)?;
    if let (Some(full), Some(words)) = (&mut found, &args.grep) {
        full.messages.retain(|message| message.has(words));
        if full.messages.is_empty() {
            bail!(
                "no message of trace {} has {words:?}; `hone show RUN --grep WORD` searches all steps",
                full.brief.trace
            );
        }
    }
    Ok(found)
}

fn named(run: &Run, args: &Args) -> Result<Option<Full>> {
    if let Some(number) = args.trace {
        return Ok(Some(run.trace(number)?));
    }
    let (Some(step), Some(number), Some(rollout)) = (&args.step, args.group, args.rollout) else {
        if args.tokens {
            bail!("--tokens shows one trace; name a step, a group and a rollout, or give --trace N");
        }
        return Ok(None);
    };
    let part = Part::parse(step);
    let (group, _) = run.group(&part, number)?;
    match rollout.checked_sub(1).and_then(|place| group.rollouts.get(place)) {
        Some(rollout) => Ok(Some(run.trace(rollout.trace)?)),
        None => {
            bail!("group {number} of {part} has no rollout {rollout}; its rollouts are 1 to {}", group.rollouts.len())
        }
    }
}

fn filter(args: &Args) -> Filter {
    Filter { text: args.grep.clone(), ..Filter::default() }
}

fn as_text(run: &Run, args: &Args, page: Page) -> Result<String> {
    if let Some(full) = trace(run, args)? {
        return Ok(if args.tokens {
            text::tokens(&run.tokens(&full), page)
        } else {
            text::conversation(&full, page, args.all)
        });
    }
    Ok(match (&args.step, args.group) {
        (None, _) if args.grep.is_some() => text::found(run, &filter(args), page)?,
        (None, _) => text::steps(run, page, if args.all { usize::MAX } else { 40 }),
        (Some(step), None) => text::part(run, &Part::parse(step), &filter(args), page)?,
        (Some(step), Some(group)) => text::group(run, &Part::parse(step), group, &filter(args), page)?,
    })
}

fn as_json(run: &Run, args: &Args) -> Result<String> {
    let lines = |values: Vec<Value>| values.iter().map(|value| format!("{value}\n")).collect::<String>();
    if let Some(full) = trace(run, args)? {
        return Ok(if args.tokens {
            lines(run.tokens(&full).iter().map(|token| json!(token)).collect())
        } else {
            format!("{}\n", json!(full))
        });
    }
    Ok(match (&args.step, args.group) {
        (None, _) if args.grep.is_some() => {
            let (found, notes) = run.found(&filter(args))?;
            tell(&notes);
            lines(found.iter().map(|(part, groups)| json!({"part": part.to_string(), "groups": groups})).collect())
        }
        (None, _) => lines(run.metrics.steps().iter().map(|step| step_json(run, *step)).collect()),
        (Some(step), None) => {
            let (groups, notes) = run.groups(&Part::parse(step), &filter(args))?;
            tell(&notes);
            lines(groups.iter().map(|group| json!(group)).collect())
        }
        (Some(step), Some(number)) => {
            let (group, _) = run.group(&Part::parse(step), number)?;
            let (found, notes) = run.groups(&Part::parse(step), &filter(args))?;
            tell(&notes);
            let found = found.into_iter().find(|found| found.group == number);
            format!("{}\n", json!(found.unwrap_or(Group { rollouts: Vec::new(), ..group })))
        }
    })
}

fn tell(notes: &[String]) {
    for note in notes {
        crate::output::note!("note: {}", text::clean(note));
    }
}

fn step_json(run: &Run, step: u64) -> Value {
    let mut line = serde_json::Map::from_iter([("step".to_owned(), json!(step))]);
    line.extend(run.metrics.names().filter_map(|name| Some((name.to_owned(), json!(run.metrics.at(step, name)?)))));
    line.insert("traces".to_owned(), json!(run.events.steps.get(&step).map(|range| [range.start, range.end])));
    Value::Object(line)
}
