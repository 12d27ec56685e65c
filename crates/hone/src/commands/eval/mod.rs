//! `hone eval`: a policy on a recipe's tasks, beside its baselines.

mod broken;
mod policy;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use futures::StreamExt as _;
use hone_arena::baseline::{Baseline, everywhere};
use hone_arena::chat_client::ChatSpec;
use hone_arena::player::{self, Player, Scripted, Sitting};
use hone_eval::checkpoints;
use hone_eval::spent::Price;
use hone_eval::table::{About, Column, Episode, Passing, Results};
use hone_trace::rundir::{RunDir, RunDirError};
use hone_trace::{Seed, Task, Trace};
use hone_train::evaluate::{Decoding, Kind, count, play};
use hone_train::events::Event;
use hone_train::recipe::Recipe;
use serde_json::json;

use crate::progress::interrupt;
use crate::scratch;

use broken::Broken;
use policy::{Checkpoint, Policy, Who};

const EXAMPLES: &str = "\
Examples:
  hone eval runs/quickstart-1                            a run's newest checkpoint on its held-out tasks
  hone eval runs/quickstart-1 --checkpoint best --samples 4 --fail-under 0.6
  hone eval runs/quickstart-1 --checkpoint 0,best,last --split both      the start, the best and the last, with what was gained
  hone eval MODEL_DIR --recipe recipes/retail.toml --split both
  hone eval https://api.example.org/v1#big --key-env API_KEY --price 2.5,10 --recipe recipes/retail.toml
                                                         a remote model on the same tasks, with the cost of a solved one
  hone eval oracle --set env.name=retail                 is the environment solvable?

Exits with code 1 if --fail-under is not reached. The directory of an evaluation is a run directory: `hone compare` reads two.";

/// Measure a policy: mean reward, pass@k, pass^k with intervals, beside doing nothing and calling at random
///
/// Plays the tasks greedily (temperature 0, once) and sampled (the temperature of training, --samples times). By split,
/// environment, difficulty and whether the reference changes state. Faults are counted separately and are never
/// failures.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run, a checkpoint, a model directory, URL#MODEL of an OpenAI-compatible API, or `oracle`. Without: the recipe's model.
    policy: Option<String>,
    /// The recipe whose environments, rubric and limits are used. Without: that of the run, or the quickstart.
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set env.held_out=64. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Of a run: the step of a checkpoint, `best` or `last`; several with commas, or `all`.
    #[arg(long, value_name = "STEP", default_value = "last")]
    checkpoint: String,
    #[arg(long, default_value = "held-out")]
    split: Split,
    /// Number of tasks of each split, from the first. Default: eval.tasks of the recipe.
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,
    /// Sampled episodes of each task. Without: eval.samples of the recipe.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// The value of the success component (eval.success) from which an episode passes.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0)]
    pass: f64,
    /// Exit with code 1 if the sampled pass@1 over all tasks is below this (the greedy one, if only that was played).
    #[arg(long, value_name = "SHARE", value_parser = share)]
    fail_under: Option<f64>,
    /// Run only the greedy or only the sampled evaluation.
    #[arg(long, value_name = "KIND")]
    only: Option<Only>,
    /// Name of the environment variable that holds a remote API's key.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Prices per million tokens read and written, in dollars: --price 2.5,10. Prints the cost per solved task.
    #[arg(long, value_name = "READ,WRITTEN")]
    price: Option<Price>,
    /// Output directory. Default: RUN/evals/N for a run, else evals/N, with the first free N.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Split {
    Train,
    HeldOut,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Greedy,
    Sampled,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is no share; give a number from 0 to 1, such as 0.6"))
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(evaluate(&args))
}

/// Tasks, each with its split.
struct Chosen {
    tasks: Vec<Task>,
    splits: HashMap<String, &'static str>,
}

async fn evaluate(args: &Args) -> Result<ExitCode> {
    let scratch = scratch::Scratch::new()?;
    let (recipe, policy) = Policy::open(args, scratch.path()).await?;
    let chosen = choose(args, &recipe, &policy)?;
    let out = args.out.clone().unwrap_or_else(|| free_directory(policy.run.as_deref()));
    let (mut record, directory) = Directory::create(&out, &recipe)?;
    let mut columns = Vec::new();
    let mut first_traces: HashMap<String, Trace> = HashMap::new();
    let passing = Passing { component: recipe.eval.success.clone(), at_least: args.pass };
    let samples = args.samples.unwrap_or(recipe.eval.samples).max(1);
    let kinds = kinds(args, &policy);
    let mut broken = Broken::default();
    let mut by_step: BTreeMap<u64, Vec<Episode>> = BTreeMap::new();
    for at in &policy.checkpoints {
        for &kind in &kinds {
            crate::output::note!("playing {} tasks, {}: {}", chosen.tasks.len(), kind.name(), at.name);
            let traces = episodes(&policy, at, &recipe, &chosen, kind, samples).await?;
            let numbers = record.traces(&traces)?;
            let result = Some(count(&traces, &recipe.eval.success).evaluation);
            let step = at.step.unwrap_or(0);
            record.event(&Event::Eval { step, kind, result, traces: [numbers.start, numbers.end] })?;
            directory.has(&at.name, kind);
            let name = if kinds.len() == 1 { at.name.clone() } else { format!("{}, {}", at.name, kind.name()) };
            let column = column(name, &traces, &passing, args.price);
            // For a step the sampled evaluation, which comes last, counts.
            by_step.insert(step, column.episodes.clone());
            columns.push(column);
            broken.count(&traces);
            for trace in traces {
                first_traces.entry(trace.task.clone()).or_insert(trace);
            }
        }
    }
    if let Some(error) = broken.all() {
        drop(record);
        directory.remove();
        return Err(error);
    }
    // The newest first, each with the sampled evaluation first: that is the headline.
    columns.reverse();
    for baseline in everywhere().into_iter().chain(policy.baselines.iter().cloned()) {
        let traces = baseline_episodes(&policy, &recipe, &chosen, &baseline).await;
        columns.push(column(baseline.name().to_owned(), &traces, &passing, None));
    }
    let about = chosen.tasks.iter().map(|task| {
        let split = chosen.splits.get(&task.key).copied().unwrap_or("held-out");
        (task.key.clone(), About::of(task, split, first_traces.get(&task.key)))
    });
    let about: HashMap<String, About> = about.collect();
    let ks: Vec<usize> = (1..=samples as usize).filter(|k| k.is_power_of_two() || *k == samples as usize).collect();
    let results = Results::of(&columns, &about, passing, &ks);
    let lines = if by_step.len() > 1 { checkpoints::Line::all(&by_step, &about) } else { Vec::new() };
    let code = finish(args, &Measured { results, checkpoints: lines }, &policy, &recipe, &out)?;
    broken.say();
    Ok(code)
}

/// The directory of an evaluation in progress.
struct Directory<'a> {
    path: &'a Path,
    /// True if it was not there before.
    ours: bool,
}

impl<'a> Directory<'a> {
    fn create(path: &'a Path, recipe: &Recipe) -> Result<(RunDir, Self)> {
        let ours = !path.exists();
        let record = match RunDir::create(path, &recipe.to_toml()?) {
            Err(RunDirError::Exists(_)) => {
                bail!("{} already holds an evaluation or a run; choose another --out, or delete it", path.display())
            }
            created => created?,
        };
        interrupt::say_at_stop(format!("stopped; {} holds nothing yet, delete it", path.display()));
        if ours {
            scratch::remove_at_stop(path);
            interrupt::say_at_stop("stopped; nothing was measured, nothing is kept".to_owned());
        }
        Ok((record, Self { path, ours }))
    }

    /// From now on there is something to keep.
    fn has(&self, policy: &str, kind: Kind) {
        scratch::keep(self.path);
        interrupt::say_at_stop(format!(
            "stopped; {} is unfinished: its last evaluation is {policy}, {}; run the evaluation again, with another --out or \
             after deleting it",
            self.path.display(),
            kind.name()
        ));
    }

    fn remove(&self) {
        if self.ours {
            // Best effort: the error that led here matters more.
            let _ = std::fs::remove_dir_all(self.path);
        }
    }
}

/// Tables of an evaluation.
struct Measured {
    results: Results,
    /// Of several checkpoints: the first, the best and the last.
    checkpoints: Vec<checkpoints::Line>,
}

fn kinds(args: &Args, policy: &Policy) -> Vec<Kind> {
    match (&policy.who, args.only) {
        (_, Some(Only::Greedy)) => vec![Kind::Greedy],
        // The oracle is the same at every temperature.
        (_, Some(Only::Sampled)) | (Who::Oracle, None) => vec![Kind::Sampled],
        (Who::Engine(_) | Who::Remote(_), None) => vec![Kind::Greedy, Kind::Sampled],
    }
}

fn column(name: String, traces: &[Trace], passing: &Passing, price: Option<Price>) -> Column {
    Column { name, episodes: traces.iter().map(|trace| Episode::of(trace, passing)).collect(), price }
}

fn choose(args: &Args, recipe: &Recipe, policy: &Policy) -> Result<Chosen> {
    let most = args.tasks.unwrap_or_else(|| recipe.eval.most_tasks());
    let (mut tasks, mut splits) = (Vec::new(), HashMap::new());
    let trained: HashSet<&str> = policy.world.tasks.iter().map(|task| task.env.as_str()).collect();
    for (wanted, name, all) in
        [(Split::Train, "train", &policy.world.tasks), (Split::HeldOut, "held-out", &policy.world.held_out)]
    {
        if args.split != wanted && args.split != Split::Both {
            continue;
        }
        if args.tasks.is_some_and(|count| count > all.len()) {
            bail!(
                "--tasks {most} is more than the {} {name} tasks there are; lower it, or raise env.tasks or env.held_out",
                all.len()
            );
        }
        for task in all.iter().take(most) {
            // A world without training tasks, such as a benchmark's, has no held-out environments.
            let unseen = !trained.is_empty() && !trained.contains(task.env.as_str());
            splits.insert(task.key.clone(), if unseen { "held-out environment" } else { name });
            tasks.push(task.clone());
        }
    }
    if tasks.is_empty() {
        bail!("there is no task to evaluate on; choose another --split, or raise env.held_out and eval.tasks");
    }
    Ok(Chosen { tasks, splits })
}

async fn episodes(
    policy: &Policy,
    at: &Checkpoint,
    recipe: &Recipe,
    chosen: &Chosen,
    kind: Kind,
    samples: u32,
) -> Result<Vec<Trace>> {
    let samples = if kind == Kind::Greedy { 1 } else { samples };
    Ok(match &policy.who {
        Who::Engine(setup) => {
            let mut recipe = recipe.clone();
            recipe.eval.tasks = Some(chosen.tasks.len());
            let decoding = Decoding { samples, ..kind.decoding(&recipe) };
            let sampler = match &at.dir {
                Some(dir) => setup.engine.sampler_of(dir).await?,
                None => setup.engine.sampler(),
            };
            play(setup, &recipe, sampler, decoding).await
        }
        Who::Remote(spec) => {
            let temperature = Some(f64::from(kind.decoding(recipe).temperature));
            let player = policy::remote(ChatSpec { temperature, ..spec.clone() })?;
            played(policy, recipe, chosen, samples, &|_| Some(Arc::clone(&player))).await
        }
        Who::Oracle => {
            let moves = |task: &Task| {
                let moves = hone_arena::solution::solution(task)?;
                Some(Arc::new(player::Moves(moves)) as Arc<dyn Player>)
            };
            played(policy, recipe, chosen, samples, &moves).await
        }
    })
}

async fn baseline_episodes(
    policy: &Policy,
    recipe: &Recipe,
    chosen: &Chosen,
    baseline: &Arc<dyn Baseline>,
) -> Vec<Trace> {
    let player: Arc<dyn Player> = Arc::new(Scripted(Arc::clone(baseline)));
    let own = policy.own_baselines.get(baseline.name());
    played(policy, recipe, chosen, 1, &|task| own.is_none_or(|env| *env == task.env).then(|| Arc::clone(&player))).await
}

/// Episodes of players, `rollout.concurrency` at a time. A task without a player is skipped.
async fn played(
    policy: &Policy,
    recipe: &Recipe,
    chosen: &Chosen,
    samples: u32,
    player_of: &(dyn Fn(&Task) -> Option<Arc<dyn Player>> + Sync),
) -> Vec<Trace> {
    let seed = Seed::root(recipe.eval.seed).with("eval");
    let plays = chosen.tasks.iter().flat_map(|task| (0..samples).map(move |replica| (task, replica))).filter_map(
        |(task, replica)| {
            let player = player_of(task)?;
            let sitting = Sitting {
                replica,
                seed: seed.with(&task.key).at(u64::from(replica)),
                max_turns: recipe.rollout.max_turns,
            };
            Some(async move { player::play(&*policy.world.arena, &policy.rubric, task, &*player, sitting).await })
        },
    );
    futures::stream::iter(plays).buffered(recipe.rollout.concurrency.max(1)).collect().await
}

fn finish(args: &Args, measured: &Measured, policy: &Policy, recipe: &Recipe, out: &Path) -> Result<ExitCode> {
    let Measured { results, checkpoints: lines } = measured;
    let what = format!(
        "{} on {}. Sampled at temperature {}, greedy at 0; seed {}.",
        policy.name,
        recipe.env.iter().map(|env| env.name().to_owned()).collect::<Vec<_>>().join(", "),
        Decoding::sampled(recipe).temperature,
        recipe.eval.seed
    );
    let mut page = results.markdown(&what);
    if !lines.is_empty() {
        page += &format!("\n## Checkpoints\n\n{BEST}\n\n{}", checkpoints::table(lines).markdown());
    }
    let pass = results.headline().and_then(hone_eval::table::Row::pass);
    let object = json!({"policy": policy.name, "out": out, "results": results, "checkpoints": lines, "pass": pass,
        "price": args.price, "fail_under": args.fail_under});
    for (name, text) in [("eval.md", page.clone()), ("eval.json", serde_json::to_string_pretty(&object)? + "\n")] {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut stdout = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(stdout, "{object}")?;
    } else if args.markdown {
        write!(stdout, "{page}")?;
    } else {
        write!(stdout, "{}", results.table(false).text())?;
        if !lines.is_empty() {
            write!(stdout, "\n{}{BEST}\n", checkpoints::table(lines).text())?;
        }
        let Passing { component, at_least } = &results.passing;
        writeln!(
            stdout,
            "\npassed: {component} of at least {at_least}; 95 %: Wilson's interval over tasks played once, else bootstrap over tasks.{} Recorded in {}",
            results.effect().map(|effect| format!(" The {effect}.")).unwrap_or_default(),
            out.display()
        )?;
    }
    let Some(bar) = args.fail_under else { return Ok(ExitCode::SUCCESS) };
    match pass {
        Some(pass) if pass.mean >= bar => Ok(ExitCode::SUCCESS),
        Some(pass) => {
            crate::output::note!("pass@1 is {:.3}, under {bar}", pass.mean);
            Ok(ExitCode::FAILURE)
        }
        None => {
            crate::output::note!("no episode was scored, so {bar} is not reached");
            Ok(ExitCode::FAILURE)
        }
    }
}

const BEST: &str =
    "best: the highest of the checkpoints played, so too high by luck; p: sign-flip test of the last against the first";

fn free_directory(run: Option<&Path>) -> PathBuf {
    let root = run.map_or_else(|| PathBuf::from("evals"), |run| run.join("evals"));
    (1..=u32::MAX).map(|number| root.join(number.to_string())).find(|path| !path.exists()).unwrap_or(root)
}
