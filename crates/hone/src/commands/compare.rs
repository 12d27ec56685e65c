//! `hone compare`: two evaluations of the same tasks.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use hone_eval::compare::{Comparison, Side};
use hone_eval::recorded::Recorded;
use hone_eval::table::Passing;
use hone_train::evaluate::Kind;

const EXAMPLES: &str = "\
Examples:
  hone compare runs/quickstart-1@0 runs/quickstart-1    before and after training
  hone compare evals/small evals/big --markdown > comparison.md
  hone compare A B --fail-worse                         for CI: ends with 1 where B is shown to be worse";

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
    /// Which evaluations are compared. Without: the sampled ones, where there are some.
    #[arg(long)]
    kind: Option<Decoded>,
    /// The value of the success component from which an episode passes.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0)]
    pass: f64,
    /// Tasks that are shown with their calls before and after.
    #[arg(long, value_name = "N", default_value_t = 3)]
    examples: usize,
    /// End with 1 where B is shown to be worse than A.
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
    let (a, b) = (Recorded::read(&args.before, kind)?, Recorded::read(&args.after, kind)?);
    let (component, other) = (&a.recipe.eval.success, &b.recipe.eval.success);
    if component != other {
        bail!("A counts {component:?} as success and B {other:?}; compare evaluations of one rubric");
    }
    let passing = Passing { component: component.clone(), at_least: args.pass };
    let side = |recorded: &Recorded| (recorded.name.clone(), recorded.first);
    let ((name_a, first_a), (name_b, first_b)) = (side(&a), side(&b));
    let sides = [
        Side { name: &name_a, traces: &a.traces, first: first_a },
        Side { name: &name_b, traces: &b.traces, first: first_b },
    ];
    let comparison = Comparison::of(sides, &passing, args.examples);
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&comparison)?)?;
    } else {
        write!(out, "{}", comparison.page(args.markdown))?;
    }
    let worse = comparison.difference.is_some_and(|difference| difference.ci[1] < 0.0);
    Ok(if args.fail_worse && worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
