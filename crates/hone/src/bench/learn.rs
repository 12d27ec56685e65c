//! `hone bench learn`: runs a recipe on several seeds and recounts successes from the recorded traces.
//!
//! Every seed is a separate `hone train`, started as a user would. A run's own claims are not trusted: the evaluations,
//! controls and the verdict are recounted from the recorded traces, and the overlap of held-out and training tasks from
//! the tasks themselves.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use hone_arena::perturb::Perturbation;
use hone_arena::registry::World;
use hone_train::evaluate::overlap::Overlap;
use hone_train::evaluate::{Difference, Evaluation, Verdict};
use hone_train::report::{BeforeAfter, HeldOut, RunReport};
use hone_train::run::recorded_recipe;
use serde::Serialize;
use serde_json::{Value, json};

/// Train a recipe on several seeds and hold it against the bars, recounted from the recorded evaluation traces
///
/// Without a recipe: the quickstart. Exits with code 1 if a bar is missed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe in TOML [default: the quickstart]
    recipe: Option<PathBuf>,
    /// Seeds to run, counted from --first
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// Set a recipe key, as for `hone train`. May be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also run with advantages that carry nothing: permute, shuffle or constant
    #[arg(long, value_name = "KIND")]
    placebo: Option<String>,
    /// Output directory, with one directory per seed [default: runs/bench-learn-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Bars for a quickstart, on tasks it never trained on.
const GREEDY_START: f64 = 0.5;
const GREEDY_END: f64 = 0.85;
/// At the temperature of training, without decoding filters.
const SAMPLED_END: f64 = 0.8;
const PARSE_FAILURES: f64 = 0.01;
/// Bound on the best policy without a model: this, or the start's greedy success.
const BASELINE: f64 = 0.35;
/// Share of the held-out prompts that also occur in training.
const OVERLAP: f64 = 0.01;
/// Greedy success that may be lost when the tools are listed in reverse order or have their names exchanged.
const LOST_BY_PROBE: f64 = 0.1;
const TASKS: usize = 256;
/// Printed, not enforced: machines differ.
const SECONDS: f64 = 300.0;

/// One seed.
#[derive(Debug, Serialize)]
struct Trained {
    seed: u64,
    run: PathBuf,
    #[serde(flatten)]
    held_out: HeldOut,
    /// Overlap computed by this command.
    content_overlap: Overlap,
    seconds: f64,
    /// The bars it misses, in words.
    missed: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let out = args.out.clone().unwrap_or_else(free_directory);
    let mut seeds = Vec::new();
    let last = args.first.saturating_add(args.seeds.max(1) - 1);
    for seed in args.first..=last {
        anstream::eprintln!("seed {seed} of {} to {last}", args.first);
        let said = train(&args, seed, &out.join(format!("seed-{seed}")))?;
        seeds.push(recounted(seed, &said)?);
    }
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", json!({"runs": out, "seeds": seeds}))?;
    } else {
        print(&mut stdout, &seeds, &out)?;
    }
    Ok(if seeds.iter().all(|seed| seed.missed.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `hone train`, its progress on our stderr, and returns its own report.
fn train(args: &Args, seed: u64, directory: &Path) -> Result<Value> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let mut command = Command::new(program);
    command.arg("train").args(&args.recipe).arg("--json").arg("--run").arg(directory).args(["--samples", "0"]);
    for setting in args.set.iter().chain([&format!("seed={seed}")]) {
        command.args(["--set", setting]);
    }
    if let Some(kind) = &args.placebo {
        command.args(["--placebo", kind]);
    }
    let output = command.stderr(Stdio::inherit()).stdin(Stdio::null()).output().context("cannot start hone train")?;
    if !output.status.success() {
        bail!("hone train ended with {} at seed {seed}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().context("hone train said nothing on stdout")?;
    serde_json::from_str(line).context("the last line of hone train")
}

fn recounted(seed: u64, said: &Value) -> Result<Trained> {
    let run = PathBuf::from(said["run"].as_str().context("hone train named no run")?);
    let seconds = said["seconds"].as_f64().context("hone train named no seconds")?;
    let counting = || format!("counting {} again", run.display());
    let held_out = RunReport::read(&run).with_context(counting)?.held_out;
    let recipe = recorded_recipe(&run).with_context(counting)?;
    let world = World::open(&recipe.env).with_context(counting)?;
    let content_overlap = Overlap::of(&world.tasks, recipe.eval.tasks_of(&world.held_out));
    let missed = missed(&held_out, &content_overlap);
    Ok(Trained { seed, run, held_out, content_overlap, seconds, missed })
}

fn missed(held_out: &HeldOut, overlap: &Overlap) -> Vec<String> {
    let mut missed = Vec::new();
    let mut hold = |holds: bool, what: String| {
        if !holds {
            missed.push(what);
        }
    };
    let before = |kind: &BeforeAfter| kind.before.as_ref().map(|found| found.result.clone()).unwrap_or_default();
    let after = |kind: &BeforeAfter| kind.after.as_ref().map(|found| found.result.clone()).unwrap_or_default();
    let (start, end, sampled) = (before(&held_out.greedy), after(&held_out.greedy), after(&held_out.sampled));
    hold(
        holds(start.success, &at_most(GREEDY_START)),
        format!("the start, greedily {}, is not at most {GREEDY_START}", said(start.success)),
    );
    hold(
        holds(end.success, &at_least(GREEDY_END)),
        format!("the end, greedily {}, is not at least {GREEDY_END}", said(end.success)),
    );
    hold(
        holds(sampled.success, &at_least(SAMPLED_END)),
        format!("the end, sampled {}, is not at least {SAMPLED_END}", said(sampled.success)),
    );
    let failures = sampled.parse_failure_rate;
    hold(
        holds(failures, &|rate| rate < PARSE_FAILURES),
        format!("parse failures, {}, are not under {PARSE_FAILURES}", said(failures)),
    );
    let verdict = held_out.judgement.as_ref().map(|judgement| judgement.verdict);
    let words = verdict.map_or("absent", Verdict::words);
    hold(verdict.is_some_and(Verdict::is_more), format!("the verdict is {words:?}: \"can do more\" is not shown"));
    let best = held_out.best_baseline();
    let bar = start.success.map_or(BASELINE, |start| start.max(BASELINE));
    hold(
        best.is_some_and(|best| holds(best.success, &at_most(bar))),
        format!(
            "the best scripted policy ({}) reaches {}, over {BASELINE} and over the start",
            best.map_or("none", |best| best.name.as_str()),
            said(best.and_then(|best| best.success))
        ),
    );
    hold(
        holds(overlap.prompts, &|share| share < OVERLAP),
        format!("{} of the held-out prompts are training tasks' too; under {OVERLAP} may be", said(overlap.prompts)),
    );
    for how in Perturbation::ALL {
        let lost = held_out.probes.iter().find(|probe| probe.tools == how).and_then(|probe| probe.difference);
        let lost = lost.map(|difference| -difference.mean);
        hold(
            holds(lost, &at_most(LOST_BY_PROBE)),
            format!("with {} the success lost, {}, is not at most {LOST_BY_PROBE}", how.words(), said(lost)),
        );
    }
    for (name, result) in [("greedy", &end), ("sampled", &sampled)] {
        let tasks = result.tasks;
        hold(tasks >= TASKS, format!("{tasks} held-out tasks ({name}) are fewer than {TASKS}"));
    }
    missed
}

fn holds(value: Option<f64>, bar: &dyn Fn(f64) -> bool) -> bool {
    value.is_some_and(bar)
}

fn said(value: Option<f64>) -> String {
    value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"))
}

fn at_most(bar: f64) -> impl Fn(f64) -> bool {
    move |value| value <= bar
}

fn at_least(bar: f64) -> impl Fn(f64) -> bool {
    move |value| value >= bar
}

fn print(out: &mut impl Write, seeds: &[Trained], directory: &Path) -> Result<()> {
    writeln!(out, "recounted from the evaluation traces in {}; 95 % intervals\n", directory.display())?;
    writeln!(
        out,
        "seed            before                 after                  after - before          parse failures"
    )?;
    for trained in seeds {
        let Trained { seed, held_out, content_overlap, seconds, missed, .. } = trained;
        let differences = held_out.judgement.as_ref().map(|judgement| (judgement.greedy, judgement.sampled));
        let (greedy, sampled) = differences.unzip();
        line(out, &format!("{seed:>4}  greedy"), &held_out.greedy, greedy)?;
        line(out, "      sampled", &held_out.sampled, sampled)?;
        for control in &held_out.controls {
            writeln!(out, "      {}: {}", control.kind.words(), cell(Some(&control.result)))?;
        }
        for probe in &held_out.probes {
            let (words, lost) = (probe.tools.words(), difference(probe.difference));
            writeln!(out, "      the end, {words}: {}, {lost}", cell(Some(&probe.result)))?;
        }
        if let Some(gain) = &held_out.gain {
            writeln!(out, "      gain over the best of them ({}): {}", gain.over, difference(Some(gain.difference)))?;
        }
        if let Some(judgement) = &held_out.judgement {
            writeln!(out, "      verdict: {}", judgement.verdict.words())?;
        }
        if let Some(best) = held_out.best_baseline() {
            writeln!(out, "      best scripted policy: {}, {}", best.name, optional(best.success))?;
        }
        writeln!(
            out,
            "      held out and trained on: {} of the prompts, {} of the reference calls; {seconds:.0} s",
            optional(content_overlap.prompts),
            optional(content_overlap.calls)
        )?;
        for bar in missed {
            writeln!(out, "      missed: {bar}")?;
        }
    }
    writeln!(
        out,
        "\nbars: greedy start at most {GREEDY_START}, greedy end {GREEDY_END}, sampled end {SAMPLED_END}, parse failures under \
         {PARSE_FAILURES}, \"can do more\" shown, best scripted policy at most {BASELINE} or the start, prompts in both under \
         {OVERLAP}, at most {LOST_BY_PROBE} lost by reversing the tools or exchanging their names, {TASKS} tasks; {SECONDS:.0} s are aimed at and not held"
    )?;
    Ok(())
}

fn line(out: &mut impl Write, name: &str, kind: &BeforeAfter, gained: Option<Difference>) -> Result<()> {
    let of = |found: &Option<hone_train::report::Evaluated>| cell(found.as_ref().map(|found| &found.result));
    let failures = kind.after.as_ref().and_then(|after| after.result.parse_failure_rate);
    writeln!(
        out,
        "{name:<15} {:<22} {:<22} {:<23} {:>14}",
        of(&kind.before),
        of(&kind.after),
        difference(gained),
        failures.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.4}"))
    )?;
    Ok(())
}

fn cell(evaluation: Option<&Evaluation>) -> String {
    let Some((success, [low, high])) = evaluation.and_then(|found| found.success.zip(found.ci)) else {
        return "–".to_owned();
    };
    format!("{success:.3} [{low:.3}, {high:.3}]")
}

fn difference(gained: Option<Difference>) -> String {
    gained.map_or_else(
        || "–".to_owned(),
        |Difference { mean, ci: [low, high], .. }| format!("{mean:+.3} [{low:+.3}, {high:+.3}]"),
    )
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}

fn free_directory() -> PathBuf {
    let numbered = |number: u32| Path::new("runs").join(format!("bench-learn-{number}"));
    (1..=u32::MAX).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| numbered(0))
}

#[cfg(test)]
mod tests {
    use hone_train::evaluate::baselines::Floor;
    use hone_train::evaluate::{Evidence, judge};
    use hone_train::report::{Evaluated, Probe};

    use super::*;

    fn kind(tasks: usize, [before, after]: [f64; 2]) -> BeforeAfter {
        let of = |step, success| {
            let result = Evaluation {
                success: Some(success),
                ci: Some([success, success]),
                parse_failure_rate: Some(0.0),
                n: tasks,
                tasks,
                ..Evaluation::default()
            };
            Some(Evaluated { step, result })
        };
        BeforeAfter { before: of(0, before), after: of(9, after), change: None }
    }

    fn held_out() -> HeldOut {
        let share = |good: usize| (0..256).map(|at| (at.to_string(), f64::from(u8::from(at < good)))).collect();
        let (low, high) = (share(80), share(240));
        let evidence = Evidence { greedy: [&low, &high], sampled: [&low, &high], sharpened: Some(&low) };
        let floor = |name: &str, success| Floor {
            name: name.into(),
            success: Some(success),
            ci: None,
            n: 256,
            unscored: 0,
            faults: 0,
        };
        HeldOut {
            greedy: kind(256, [0.3, 0.9]),
            sampled: kind(256, [0.25, 0.85]),
            judgement: judge(evidence),
            baselines: vec![floor("does nothing", 0.0), floor("cancels", 0.3)],
            probes: Perturbation::ALL.map(|tools| probe(tools, -0.01)).to_vec(),
            ..HeldOut::default()
        }
    }

    fn probe(tools: Perturbation, mean: f64) -> Probe {
        let difference = Some(Difference { mean, ci: [mean, mean], tasks: 256 });
        Probe { tools, result: Evaluation::default(), difference }
    }

    /// Each bar separately.
    #[test]
    fn every_bar_can_be_missed() {
        let apart = Overlap { held_out: 256, prompts: Some(0.0), calls: Some(0.2), tasks: Some(0.0) };
        let good = held_out();
        assert_eq!(missed(&good, &apart), Vec::<String>::new());
        let cases: [(&str, HeldOut, Overlap); 11] = [
            ("the start, greedily", HeldOut { greedy: kind(256, [0.6, 0.9]), ..good.clone() }, apart),
            ("the end, greedily", HeldOut { greedy: kind(256, [0.3, 0.8]), ..good.clone() }, apart),
            ("the end, sampled", HeldOut { sampled: kind(256, [0.3, 0.7]), ..good.clone() }, apart),
            ("the verdict is \"absent\"", HeldOut { judgement: None, ..good.clone() }, apart),
            ("fewer than 256", HeldOut { sampled: kind(255, [0.3, 0.9]), ..good.clone() }, apart),
            ("not measured", HeldOut { baselines: Vec::new(), ..good.clone() }, apart),
            ("scripted policy (wins)", with_floor(&good, 0.4), apart),
            ("of the held-out prompts", good.clone(), Overlap { prompts: Some(0.42), ..apart }),
            ("the end, greedily not measured", without_end(&good), apart),
            ("with tools in reverse order the success lost, 0.300", with_probe(&good, -0.3), apart),
            ("the success lost, not measured", HeldOut { probes: Vec::new(), ..good.clone() }, apart),
        ];
        for (words, held_out, overlap) in cases {
            let missed = missed(&held_out, &overlap);
            assert!(missed.iter().any(|bar| bar.contains(words)), "{words}: {missed:?}");
        }
    }

    fn with_floor(good: &HeldOut, success: f64) -> HeldOut {
        let mut held_out = good.clone();
        held_out.baselines.push(Floor {
            name: "wins".into(),
            success: Some(success),
            ci: None,
            n: 1,
            unscored: 0,
            faults: 0,
        });
        held_out
    }

    fn with_probe(good: &HeldOut, mean: f64) -> HeldOut {
        let probes = vec![probe(Perturbation::OrderReversed, mean), good.probes[1].clone()];
        HeldOut { probes, ..good.clone() }
    }

    fn without_end(good: &HeldOut) -> HeldOut {
        let mut held_out = good.clone();
        held_out.greedy.after = None;
        held_out
    }
}
