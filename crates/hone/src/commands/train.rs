//! `hone train`: the main job.

mod dry_run;
mod missing;

pub(super) use dry_run::parameters;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hone_trace::rundir::{RunReader, vacant};
use hone_trace::{did_you_mean, gigabytes};
use hone_train::budget::Budget;
use hone_train::checkpoint;
use hone_train::ledger::TokenFate;
use hone_train::placebo::Placebo;
use hone_train::recipe::Recipe;
use hone_train::report::{BeforeAfter, PLACEBO, Row, RunReport};
use hone_train::run::{TrainError, extended_recipe, recorded_recipe, resume, train};
use hone_train::setup::Setup;
use hone_worlds::registry::EnvSpec;
use serde_json::{Value, json};

use crate::engines;
use crate::output;
use crate::place::Place;
use crate::progress::summary::{gain_line, summary};
use crate::progress::train::TrainProgress;
use crate::progress::{Style, interrupt};
use crate::recipes::{QUICKSTART, Source};

use missing::inside;
pub(crate) use missing::{Missing, fetched, quoted, repository, shortest};

/// Train a policy with reinforcement learning, and measure it on tasks it never trained on.
///
/// Samples groups of episodes, scores them, credits every sampled token against its siblings, learns, and repeats.
/// Everything is recorded in the run directory (docs/run-directory.md). Progress goes to stderr; with --json the last
/// line on stdout is one JSON object with the evaluation before and after.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe in TOML, or the name of one of `hone recipe list`. Without one: the quickstart, with the tiny policy inside
    /// this binary. Paths in a recipe are relative to it.
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set train.steps=5. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Device that computes the model: cpu, cuda, or auto (a GPU if one can be used). The same as --set engine.device=…
    #[arg(long, value_name = "DEVICE", conflicts_with = "resume")]
    device: Option<hone_device::Device>,
    /// Run directory. Default: runs/NAME-N, with the first free N.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Resume a run from its newest checkpoint, with the recipe it recorded. The numbers are those of an uninterrupted
    /// run, bit for bit on the CPU; on a GPU rounding may change a sampled token, and what follows from it.
    ///
    /// --set train.steps=300 trains a run for more steps than planned, and records that as an event.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "run"])]
    resume: Option<PathBuf>,
    /// Also run the recipe with advantages that carry no information about the rewards, with the same seeds and budget,
    /// as one more control. permute: permuted across tasks, with the KL from the start bounded step by step by the
    /// run's own. shuffle, constant: without that bound; small policies collapse under them, and a gain over a
    /// collapsed policy is no evidence. Recorded in RUN/placebo.
    #[arg(long, value_name = "KIND", value_parser = placebo_kind)]
    placebo: Option<Placebo>,
    /// Show a conversation every N steps; 0 shows none.
    #[arg(long, value_name = "N", default_value_t = 10)]
    samples: u64,
    /// Serve the run in the browser while it trains, at a printed address. `hone view RUN` does it at any time.
    #[arg(long)]
    view: bool,
    /// Print the resolved recipe, the memory and tokens the run may need, and how long it may take; then stop.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

fn placebo_kind(text: &str) -> Result<Placebo, String> {
    let names = Placebo::ALL.map(Placebo::name).join(", ");
    Placebo::ALL.into_iter().find(|placebo| placebo.name() == text).ok_or_else(|| {
        let near = did_you_mean(text, Placebo::ALL.map(Placebo::name));
        format!("{text:?} is not one of {names}{}{}", if near.is_empty() { "" } else { "; " }, near.trim_end())
    })
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let mut recipe = match &args.resume {
        Some(run) => {
            let mut recipe = extended_recipe(run, &args.set)?;
            find_start(&mut recipe, run)?;
            crate::output::note!("{}", resumed_line(run, &recipe)?);
            recipe
        }
        None => read_recipe(&args)?,
    };
    if args.resume.is_none() && args.placebo == Some(Placebo::Permute) {
        recipe.train.kl_to_start = true;
    }
    if args.dry_run {
        return runtime.block_on(dry_run::dry_run(recipe, args.json));
    }
    let (directory, ours) = match (&args.resume, &args.run) {
        (Some(run), _) => (run.clone(), false),
        (None, Some(run)) => (run.clone(), made_directory(run)?),
        (None, None) => (free_directory(Path::new("runs"), &recipe.name)?, true),
    };
    if args.view {
        runtime.block_on(async { _ = tokio::spawn(super::view::beside(directory.clone())) });
    }
    let mut report = runtime.block_on(one_run(recipe, &directory, ours, args.resume.is_some(), args.samples))?;
    let mut control = None;
    // A run that was stopped is not compared with one that was not.
    if let Some(placebo) = args.placebo.filter(|_| report.steps >= report.planned) {
        let aside = directory.join(PLACEBO);
        let resume = aside.join("recipe.toml").exists();
        let mut recipe = recorded_recipe(&directory)?;
        find_start(&mut recipe, &directory)?;
        let recipe = controlled(recipe, placebo, &directory)?;
        let ours = !resume && made_directory(&aside)?;
        let aside_report = runtime.block_on(one_run(recipe, &aside, ours, resume, args.samples))?;
        control = Some(as_json(&aside_report, &aside));
        // The run's report again, now with its control.
        report = RunReport::read(&directory)?;
        super::report::save(&report, &directory)?;
        crate::output::note!("{}", gain_line(&report));
    }
    let mut result = as_json(&report, &directory);
    if let Some(control) = control {
        result["placebo"] = control;
    }
    if args.json {
        writeln!(output::json(), "{result}")?;
    }
    // Scripts must not take a run that was stopped for one that is finished.
    if let Some(code) = interrupt::exit_code().filter(|_| report.steps < report.planned) {
        return Ok(code);
    }
    // Regardless of `train.patience`: a run that trained nothing has failed.
    Ok(if report.nothing_trained() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Remaining steps of a resumed run, and their learning rate.
fn resumed_line(run: &Path, recipe: &Recipe) -> Result<String> {
    let done = checkpoint::newest(run)?.map_or(0, |(_, state)| state.step);
    let (planned, steps) = (recorded_recipe(run)?.train.steps, recipe.train.steps);
    if done == steps {
        return Ok(format!(
            "{} finished at step {done}; extend it: hone train --resume {0} --set train.steps={}",
            run.display(),
            done * 2
        ));
    }
    if planned == steps {
        return Ok(format!("{}: steps {} to {steps} are left", run.display(), done + 1));
    }
    let schedule = recipe.train.schedule();
    let rate = |step: u64| format!("{:.2e} at step {step}", schedule.at(step));
    let rates = if done + 1 == steps { rate(steps) } else { format!("{} and {}", rate(done + 1), rate(steps)) };
    let changed = if steps > planned { "extended" } else { "shortened" };
    let decay = recipe.train.decay.name();
    Ok(format!("{}: {changed} from {planned} to {steps} steps; the learning rate is {rates} ({decay})", run.display()))
}

/// The recipe of a run's control.
fn controlled(mut recipe: Recipe, placebo: Placebo, directory: &Path) -> Result<Recipe> {
    recipe.placebo = Some(placebo);
    recipe.eval.controls = false;
    if placebo == Placebo::Permute {
        let run = std::path::absolute(directory).with_context(|| format!("cannot find {}", directory.display()))?;
        recipe.train.kl_within = Some(run);
    }
    Ok(recipe)
}

/// Trains or resumes training, and shows the result. A run that is refused before it begins, or whose policy is unusable,
/// leaves nothing behind: no directory if it is `ours`, created for it just before.
async fn one_run(recipe: Recipe, directory: &Path, ours: bool, resumes: bool, samples: u64) -> Result<RunReport> {
    let result = Box::pin(begun(recipe, directory, resumes, samples)).await;
    let Err(error) = &result else { return result };
    let unusable = !resumes && error.downcast_ref::<TrainError>().is_some_and(TrainError::is_unusable);
    // Best effort: nothing was learned yet, and the original error matters more.
    if ours && (unusable || !directory.join("recipe.toml").exists()) {
        let _ = std::fs::remove_dir_all(directory);
    } else if unusable {
        // What else is in the directory was there before.
        for made in ["recipe.toml", "version", "events.jsonl", "metrics.jsonl"] {
            let _ = std::fs::remove_file(directory.join(made));
        }
        for made in ["traces", "checkpoints"] {
            let _ = std::fs::remove_dir_all(directory.join(made));
        }
    }
    result
}

async fn begun(recipe: Recipe, directory: &Path, resumes: bool, samples: u64) -> Result<RunReport> {
    let recipe = with_policy(recipe, directory)?;
    let setup = engines::open(&recipe).await?;
    let chosen = recipe.train.learning_rate.is_none();
    let recipe = setup.settled(recipe);
    crate::output::note!("{}, {}", start_line(&recipe, &setup), rate(&recipe, chosen));
    let findings = super::check::before_run(&setup, &recipe).await?;
    let mut watch = TrainProgress::start(&recipe, &setup, samples, directory).found_before(findings);
    let ended = if resumes {
        resume(&setup, &recipe, directory, &mut watch).await
    } else {
        train(&setup, &recipe, directory, &mut watch).await
    };
    watch.finish();
    // A run that learned nothing has a report too, with its faults.
    let ended = match ended {
        Err(error) if !error.is_verdict() => return Err(error.into()),
        other => other,
    };
    let report = RunReport::read(directory)?;
    super::report::save(&report, directory)?;
    anstream::eprint!("{}", summary(&report, directory, Style::for_stderr()));
    ended?;
    Ok(report)
}

/// Policy that a recorded run started from. If it is gone, the run's first checkpoint holds the same weights.
fn find_start(recipe: &mut Recipe, run: &Path) -> Result<()> {
    let Some(gone) = recipe.policy.model.clone().filter(|model| !model.exists()) else { return Ok(()) };
    let first = RunReader::open(run)?.checkpoints()?.into_iter().find(|(step, _)| *step == 0);
    match first.filter(|(_, path)| path.join("config.json").is_file()) {
        Some((_, path)) => {
            let (gone, path) = (shortest(&gone), std::path::absolute(path)?);
            crate::output::note!("policy.model is gone ({gone}); the run's first checkpoint has its weights");
            recipe.policy.model = Some(path);
            Ok(())
        }
        None => bail!(
            "policy.model of this run is {}, which is gone, and its checkpoints hold no whole model; put it back there, or \
             write its new place into policy.model of {}",
            shortest(&gone),
            run.join("recipe.toml").display()
        ),
    }
}

/// Summary line of the run, before the first wait.
fn start_line(recipe: &Recipe, setup: &Setup) -> String {
    let envs = recipe.env.iter().map(EnvSpec::name).collect::<Vec<_>>().join(", ");
    let memory = Budget::of(setup, recipe).memory.map_or_else(String::new, |memory| {
        let free = memory.parts.available_bytes.map_or_else(String::new, |free| format!(", {} free", gigabytes(free)));
        let size = dry_run::parameters(memory.parts.parameters);
        format!("{size} parameters, at most {} of memory{free}; ", gigabytes(memory.total_bytes))
    });
    let trained = if recipe.policy.lora.is_some() || recipe.policy.adapter.is_some() { "an adapter on " } else { "" };
    format!(
        "{}: {memory}{} tasks and {} held out of {envs}; training {trained}{}",
        recipe.name,
        setup.tasks.len(),
        setup.held_out.len(),
        shortest(&setup.model_dir)
    )
}

/// The learning rate, and whether the model's size decided it.
fn rate(recipe: &Recipe, chosen: bool) -> String {
    let default = if chosen { " (the default for this size; train.learning_rate sets it)" } else { "" };
    format!("at a learning rate of {:e}{default}", recipe.train.rate())
}

fn read_recipe(args: &Args) -> Result<Recipe> {
    let source = args.recipe.as_deref().map_or_else(|| Ok(QUICKSTART.source()), Source::find)?;
    let recipe = source.read(&engines::with_device(&args.set, args.device))?;
    recipe.rubric.build().with_context(|| format!("in {}", source.given))?;
    Missing::refuse(&recipe, &source.given, &args.set)?;
    Ok(recipe)
}

/// The recipe with a policy: its own, or the one inside this binary, unpacked beside the run.
pub(crate) fn with_policy(mut recipe: Recipe, directory: &Path) -> Result<Recipe> {
    if recipe.policy.model.is_none() && recipe.policy.adapter.is_none() {
        let path = directory.join("policy");
        let policy = inside(&recipe)?;
        crate::output::note!("no policy.model: starting from the tiny {} policy inside this binary", policy.env);
        policy.unpack(&path)?;
        recipe.policy.model = Some(path);
    }
    Place::settle(&mut recipe.policy)?;
    Ok(recipe)
}

/// Creates the directory given for a run if it does not exist; false if it exists and is free.
fn made_directory(path: &Path) -> Result<bool> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            vacant(path)?;
            Ok(false)
        }
        made => made.map(|()| true).with_context(|| format!("cannot create {}", path.display())),
    }
}

/// Creates the first free directory of a name. Two runs started at the same time get one each.
fn free_directory(runs: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(runs).with_context(|| format!("cannot create {}", runs.display()))?;
    for number in 1..=u32::MAX {
        let path = runs.join(format!("{name}-{number}"));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path.clone()).with_context(|| format!("cannot create {}", path.display())),
        }
    }
    bail!("every directory of the name {name} under {} is taken; give another with --run", runs.display())
}

/// The run's directory as one object.
fn as_json(report: &RunReport, directory: &Path) -> Value {
    let trained = report.tokens.of_fate(TokenFate::Trained);
    let component = |row: &Row| (row.name.clone(), json!({"first": row.first, "last": row.last}));
    let held_out = &report.held_out;
    let both = |kind: &BeforeAfter| json!({"before": kind.before, "after": kind.after});
    json!({
        "run": directory,
        "steps": report.steps,
        "planned": report.planned,
        "seed": report.seed,
        "broke": report.broke,
        // `before` and `after` are the headline's; a run that was stopped early has no `after`.
        "eval": {
            "before": report.before,
            "after": report.after,
            "greedy": both(&held_out.greedy),
            "sampled": both(&held_out.sampled),
        },
        "verdict": held_out.judgement.as_ref().map(|judgement| judgement.verdict),
        "judgement": held_out.judgement,
        "no_verdict": held_out.no_verdict,
        "controls": held_out.controls,
        "probes": held_out.probes,
        "gain": held_out.gain,
        "baselines": held_out.baselines,
        "overlap": held_out.overlap,
        "notes": held_out.notes,
        "components": report.components.iter().map(component).collect::<serde_json::Map<_, _>>(),
        "tokens": {"sampled": report.tokens.sampled.round() as u64, "trained": trained.round() as u64},
        "seconds": report.elapsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_begin_at_once_get_a_directory_each() {
        let directory = tempfile::tempdir().unwrap();
        let mut paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let begin = || free_directory(directory.path(), "desk").unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 8);
    }

    #[test]
    fn a_run_is_not_recorded_among_other_files() {
        let directory = tempfile::tempdir().unwrap();
        assert!(made_directory(&directory.path().join("a/b")).unwrap());
        assert!(!made_directory(&directory.path().join("a/b")).unwrap(), "an empty directory is free");
        std::fs::write(directory.path().join("a/b/notes.txt"), "mine").unwrap();
        let error = made_directory(&directory.path().join("a/b")).unwrap_err().to_string();
        assert!(error.contains("do not belong to a run"), "{error}");
        assert!(made_directory(&directory.path().join("a/b/notes.txt")).is_err());
    }
}
