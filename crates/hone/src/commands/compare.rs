//! `hone compare`: two evaluations of the same tasks.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use hone_eval::compare::{Comparison, Entrant, Several, Side};
use hone_eval::recorded::Recorded;
use hone_eval::table::Passing;
use hone_train::evaluate::Kind;

const EXAMPLES: &str = "\
Examples:
  hone compare runs/quickstart-1@0 runs/quickstart-1    before and after training
  hone compare evals/small evals/big --markdown > comparison.md
  hone compare evals/small evals/big evals/huge         more than two: one table, with the cost of a solved task
  hone compare A B --fail-worse                         for CI: exit code 1 if B is shown to be worse";

/// Compare two evaluations on the same tasks: how much better, whether that is luck, and which behaviour goes with it
///
/// Paired by task: the difference with its 95 % interval and a sign-flip test; turns, calls, errors by kind, repeats, repeated
/// reasoning, invented ids, premature and missing finishes, thinking, limits and unconfirmed writes before and after, with
/// traces that show them; and the tool calls of the tasks that changed most, aligned. Reads recorded traces only.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An evaluation's directory or a run, whose last evaluation is taken; RUN@STEP for that of a step.
    #[arg(value_name = "A")]
    before: String,
    #[arg(value_name = "B")]
    after: String,
    /// Further evaluations: all in one table, each with its difference from the first, without behaviours.
    #[arg(value_name = "C", conflicts_with_all = ["examples", "fail_worse"])]
    more: Vec<String>,
    /// Kind of evaluations to compare. Default: the sampled ones if all have them, else the greedy ones.
    #[arg(long)]
    kind: Option<Decoded>,
    /// The value of the success component from which an episode passes.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0)]
    pass: f64,
    /// Tasks that are shown with their calls before and after.
    #[arg(long, value_name = "N", default_value_t = 3)]
    examples: usize,
    /// Exit with code 1 if B is shown to be worse than A.
    #[arg(long)]
    fail_worse: bool,
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Decoded {
    Greedy,
    Sampled,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let kind = args.kind.map(|kind| match kind {
        Decoded::Greedy => Kind::Greedy,
        Decoded::Sampled => Kind::Sampled,
    });
    let names = [&args.before, &args.after].into_iter().chain(&args.more).map(String::as_str);
    let all = Recorded::read_all(names, kind)?;
    let component = &all[0].recipe.eval.success;
    if let Some(other) = all.iter().find(|other| other.recipe.eval.success != *component) {
        let (name, other) = (&other.name, &other.recipe.eval.success);
        bail!(
            "{} counts {component:?} as success and {name} {other:?}; compare evaluations of one rubric",
            all[0].name
        );
    }
    let passing = Passing { component: component.clone(), at_least: args.pass };
    if let [a, b] = &all[..] {
        return two(&args, a, b, &passing);
    }
    let entrant = |recorded: &Recorded| Entrant {
        name: recorded.name.clone(),
        episodes: recorded.episodes(&passing),
        price: recorded.price,
    };
    let several = Several::of(&all.iter().map(entrant).collect::<Vec<_>>(), passing.clone());
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&several)?)?;
    } else {
        write!(out, "{}", several.page(args.markdown))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn two(args: &Args, a: &Recorded, b: &Recorded, passing: &Passing) -> Result<ExitCode> {
    let sides = [a, b].map(|recorded| Side {
        name: &recorded.name,
        traces: &recorded.traces,
        first: recorded.first,
        price: recorded.price,
    });
    let comparison = Comparison::of(sides, passing, args.examples);
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&comparison)?)?;
    } else {
        write!(out, "{}", comparison.page(args.markdown))?;
    }
    let worse = comparison.difference.is_some_and(|difference| difference.ci[1] < 0.0);
    Ok(if args.fail_worse && worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
