//! The warm start: imitation of the oracle or of recorded traces, with the learner and the packing of reinforcement learning.
//!
//! Small models learn to copy ids from the context last. Two curricula help: repeated random sequences, mixed in at first and
//! fading out (`copying`), and the first turns of episodes before whole ones (`opening_turns`).

use std::path::{Path, PathBuf};

use hone_arena::rollout::Rollouts;
use hone_arena::solution::{demonstration, solution};
use hone_trace::rundir::RunDir;
use hone_trace::{Learner, LossStats, OptimizerStep, Rng, Seed, Task, Trace};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::checkpoint::{self, Checkpointer, State};
use crate::evaluate::evaluate;
use crate::events::Event;
use crate::loss::{LossRecipe, Objective, Reduction};
use crate::material::Material;
use crate::oracle::Shown;
use crate::pack::{self, Credited, Packing, Place, Sequence};
use crate::plan::{Draw, Plan, PlanRecipe};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::schedule::Schedule;
use crate::setup::{Setup, SetupError};

/// Statistics of one step of imitation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SftStep {
    pub step: u64,
    /// Mean cross-entropy of the weighted tokens.
    pub loss: f64,
    pub grad_norm: Option<f64>,
    pub tokens: usize,
    /// Success on the held-out tasks just before this step, if `sft.stop_at` had them played.
    pub held_out: Option<f64>,
}

/// Refuses tasks that lack what is imitated, before anything is made for them.
pub fn check_references(recipe: &Recipe, tasks: &[Task]) -> Result<(), SetupError> {
    let sft = &recipe.sft;
    if sft.traces.is_some() || sft.steps == 0 {
        return Ok(());
    }
    let shown = |task: &Task| {
        let demonstrated = sft.solutions_until == 0.0 && demonstration(task).is_some();
        demonstrated || solution(task).is_some()
    };
    match tasks.iter().find(|task| !shown(task)) {
        Some(task) => Err(SetupError::NoSolution(task.key.clone())),
        None => Ok(()),
    }
}

/// Imitates for `recipe.sft.steps` steps, or until `sft.stop_at` is reached; calls `watch` for each. The engine then
/// serves the resulting policy.
pub async fn sft(setup: &Setup, recipe: &Recipe, mut watch: impl FnMut(SftStep)) -> Result<(), TrainError> {
    let learner = setup.engine.learner(&recipe.train.learner()).await?;
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, State::default())?;
    while imitation.has_next().await? {
        watch(imitation.step().await?);
    }
    Ok(())
}

/// Like [`sft`], recorded in `directory` with checkpoints. Continues an existing run there.
pub async fn sft_recorded(
    setup: &Setup,
    recipe: &Recipe,
    directory: &Path,
    mut watch: impl FnMut(SftStep),
) -> Result<(), TrainError> {
    let (mut run, found) = open_run(recipe, directory)?;
    let mut learner = setup.engine.learner(&recipe.train.learner()).await?;
    if let Some((dir, state)) = &found {
        learner.restore(dir, state.version).await?;
    }
    let state = found.map(|(_, state)| state).unwrap_or_default();
    let mut checkpointer = Checkpointer::new(&recipe.checkpoint, &setup.model_dir, None);
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, state)?;
    while imitation.has_next().await? {
        let seen = imitation.step().await?;
        run.metrics(&record(&seen))?;
        if checkpointer.is_due(&imitation.state, recipe.sft.steps) {
            checkpointer.write(&mut run, &mut *imitation.learner, &mut imitation.state).await?;
        }
        watch(seen);
    }
    Ok(())
}

/// The run in the directory at its newest checkpoint, or a new one.
fn open_run(recipe: &Recipe, directory: &Path) -> Result<(RunDir, Option<(PathBuf, State)>), TrainError> {
    if !directory.join("recipe.toml").exists() {
        let run = RunDir::create(directory, &recipe.to_toml()?)?;
        checkpoint::note_version(&run)?;
        return Ok((run, None));
    }
    let (mut run, _) = RunDir::resume(directory)?;
    let found = checkpoint::newest(directory)?;
    // Nothing is truncated before the checkpoint is verified.
    if let Some((path, _)) = &found {
        checkpoint::verify(path, directory)?;
    }
    let superseded = run.rewind(found.as_ref().map(|(_, state)| state.position).unwrap_or_default())?;
    let step = found.as_ref().map(|(_, state)| state.step);
    run.event(&Event::Resumed { step, superseded, dropped: None })?;
    Ok((run, found))
}

fn record(seen: &SftStep) -> serde_json::Map<String, Value> {
    let metrics = [
        ("step", Value::from(seen.step)),
        ("sft/loss", seen.loss.into()),
        ("policy/grad_norm", seen.grad_norm.into()),
        ("trainer/trained_tokens", seen.tokens.into()),
    ];
    let held_out = seen.held_out.map(|success| ("sft/held_out_success", success.into()));
    metrics.into_iter().chain(held_out).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Imitation in progress.
struct Imitation<'a> {
    setup: &'a Setup,
    recipe: &'a Recipe,
    material: &'a Material<'a>,
    learner: Box<dyn Learner>,
    loss: Objective,
    schedule: Schedule,
    plan: Plan<'a>,
    /// Whole episodes, and episodes that end after `sft.opening_turns`.
    whole: Rollouts,
    openings: Rollouts,
    state: State,
    /// Latest held-out success, until a step reports it.
    held_out: Option<f64>,
}

impl<'a> Imitation<'a> {
    fn new(
        setup: &'a Setup,
        recipe: &'a Recipe,
        material: &'a Material<'a>,
        plan: &'a PlanRecipe,
        learner: Box<dyn Learner>,
        state: State,
    ) -> Result<Self, TrainError> {
        let sft = &recipe.sft;
        let mut short = recipe.clone();
        short.rollout.max_turns = short.rollout.max_turns.min(sft.opening_turns.max(1));
        let rollouts = |recipe| setup.rollouts(recipe, setup.engine.sampler(), 1.0);
        Ok(Self {
            setup,
            recipe,
            material,
            learner,
            loss: LossRecipe::named("cross_entropy").build()?,
            schedule: Schedule {
                peak: sft.learning_rate,
                warmup: sft.warmup,
                // One past the last: the last step trains too.
                total: sft.steps + 1,
                decay: sft.decay,
                floor: 0.0,
            },
            plan: Plan::new(
                plan,
                Seed::root(recipe.seed).with("sft order").value(),
                &material.tasks,
                state.plan.clone(),
            ),
            whole: rollouts(recipe),
            openings: rollouts(&short),
            state,
            held_out: None,
        })
    }

    /// True when there is a step to do: not all are done, and success on the held-out tasks is still under `sft.stop_at`.
    /// Gives the same answer again after a resume.
    async fn has_next(&mut self) -> Result<bool, TrainError> {
        let (sft, step) = (&self.recipe.sft, self.state.step);
        if step >= sft.steps {
            return Ok(false);
        }
        // Openings alone solve nothing.
        let asked = step > 0 && step.is_multiple_of(sft.check_every.max(1)) && !self.imitates_openings(step);
        let Some(enough) = sft.stop_at.filter(|_| asked) else { return Ok(true) };
        self.held_out = evaluate(self.setup, self.recipe, self.setup.engine.sampler()).await.success;
        Ok(self.held_out.is_none_or(|success| success < enough))
    }

    fn imitates_openings(&self, step: u64) -> bool {
        let sft = &self.recipe.sft;
        sft.opening_turns > 0 && step as f64 <= sft.steps as f64 * sft.opening_until
    }

    async fn step(&mut self) -> Result<SftStep, TrainError> {
        let step = self.state.step + 1;
        let sequences = self.sequences(step).await?;
        let packing = Packing {
            temperature: 1.0,
            budget: self.recipe.train.batch_tokens,
            share: self.learner.abilities().shared_prefixes,
        };
        let mut stats = LossStats::default();
        for batch in pack::to_learn(&sequences, Reduction::TokenMean, &packing) {
            stats += self.learner.accumulate(&batch, &self.loss).await?.loss;
        }
        let max_grad_norm = Some(self.recipe.train.max_grad_norm);
        let rate = OptimizerStep { learning_rate: self.schedule.at(step), max_grad_norm, publish: true };
        let report = self.learner.step(rate).await?;
        (self.state.step, self.state.plan) = (step, self.plan.state.clone());
        let tokens = sequences.iter().map(|credited| credited.sequence.ids.len()).sum();
        let held_out = self.held_out.take();
        Ok(SftStep { step, loss: stats.loss, grad_norm: report.grad_norm, tokens, held_out })
    }

    /// Sequences of a step: whole episodes, and copying exercises while they are still mixed in.
    async fn sequences(&mut self, step: u64) -> Result<Vec<Credited>, TrainError> {
        let sft = &self.recipe.sft;
        let mut rng = Seed::root(self.recipe.seed).with("sft").at(step).rng();
        let copying = sft.copying * (1.0 - step as f64 / (sft.steps as f64 * sft.copying_until)).max(0.0);
        let of_all = step as f64 / sft.steps as f64;
        let shown = if of_all <= sft.solutions_until { Shown::Solution } else { Shown::Demonstration };
        let vocab = self.setup.engine.vocabulary() as u32;
        let (mut sequences, mut draws) = (Vec::with_capacity(sft.batch), Vec::new());
        for group in 0..sft.batch {
            if rng.unit() < copying {
                sequences.push(repeated(group, vocab, &mut rng));
            } else {
                draws.extend(self.plan.draw(1).into_iter().map(|draw| (group, draw)));
            }
        }
        sequences.extend(self.episodes(&draws, shown, self.imitates_openings(step)).await?);
        // In the order they were drawn, regardless of which was played first.
        sequences.sort_by_key(|credited| credited.sequence.group);
        Ok(sequences)
    }

    /// Episodes of the draws. They are played on all cores if the runtime has more than one thread: a GPU learns from a
    /// batch in less time than one core takes to play it.
    async fn episodes(
        &self,
        draws: &[(usize, Draw)],
        shown: Shown,
        opening: bool,
    ) -> Result<Vec<Credited>, TrainError> {
        let Self { setup, material, plan, .. } = self;
        let sft = &self.recipe.sft;
        let (rollouts, turns) =
            if opening { (&self.openings, sft.opening_turns as usize) } else { (&self.whole, usize::MAX) };
        let one = async |(group, draw): (usize, Draw)| -> Result<Credited, TrainError> {
            let trace = material.episode(setup, rollouts, plan, draw, shown).await?;
            Ok(imitated(group, &trace, turns, sft.context_weight as f32))
        };
        let handle = Handle::try_current().ok().filter(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(draws.len());
        let (Some(handle), 2..) = (handle, threads) else {
            let mut played = Vec::with_capacity(draws.len());
            for &draw in draws {
                played.push(one(draw).await?);
            }
            return Ok(played);
        };
        let share = |part: &[(usize, Draw)]| -> Result<Vec<Credited>, TrainError> {
            part.iter().map(|&draw| handle.block_on(one(draw))).collect()
        };
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let parts: Vec<_> =
                    draws.chunks(draws.len().div_ceil(threads)).map(|part| scope.spawn(|| share(part))).collect();
                let mut played = Vec::with_capacity(draws.len());
                for part in parts {
                    played.extend(part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
                }
                Ok(played)
            })
        })
    }
}

/// The first turns of a trace to imitate: the agent's tokens at weight 1, the others at `context_weight`.
fn imitated(group: usize, trace: &Trace, turns: usize, context_weight: f32) -> Credited {
    let mut ids: Vec<u32> = trace.tokens().collect();
    let agent: Vec<_> = trace.sampled().take(turns).map(|(at, node)| at..at + node.tokens().len()).collect();
    if let Some(last) = agent.last().filter(|_| agent.len() == turns) {
        ids.truncate(last.end);
    }
    let mut weights = vec![context_weight; ids.len()];
    agent.into_iter().for_each(|own| weights[own].fill(1.0));
    sequence(group, ids, &weights)
}

/// A random run of ids, repeated: only copying predicts the second half.
fn repeated(group: usize, vocab: u32, rng: &mut Rng) -> Credited {
    let length = 8 + rng.below(56);
    let run: Vec<u32> = (0..length).map(|_| rng.below(vocab as usize) as u32).collect();
    let times = 2 + rng.below(3);
    let ids = run.repeat(times);
    let mut weights = vec![0.0; ids.len()];
    weights[length..].fill(1.0);
    sequence(group, ids, &weights)
}

/// Tokens with their weights, in the advantages' place. Nobody sampled them, so no ratio is taken against a sampler.
fn sequence(group: usize, mut ids: Vec<u32>, weights: &[f32]) -> Credited {
    // Tokens after the last weighted one predict nothing.
    ids.truncate(weights.iter().rposition(|weight| *weight > 0.0).map_or(1, |last| last + 1));
    let weighted = || weights.iter().copied().enumerate().skip(1).filter(|(_, weight)| *weight > 0.0);
    let place = |(position, _)| Place { position, sampler: 0.0, behaviour: 0.0, old: None };
    let advantages = weighted().map(|(_, weight)| weight).collect();
    Credited { sequence: Sequence { group, trace: 0, ids, places: weighted().map(place).collect() }, advantages }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hone_trace::{Digest, Node, Outcome, PolicyVersion, Sampled, SamplingParams, ToolSet, TraceBuilder, TraceHead};

    /// A prompt of three tokens, and two turns of two with an answer of one after each.
    fn two_turns() -> Trace {
        let head = TraceHead {
            task: "t".into(),
            env: "e".into(),
            replica: 0,
            seed: 0,
            tools: Arc::new(ToolSet::none()),
            sampling: SamplingParams::default(),
        };
        let mut builder = TraceBuilder::new(head, vec![1, 2, 3]);
        for own in [[4, 5], [7, 8]] {
            let version = PolicyVersion { run: "r".into(), step: 0, weights: Digest::of(b"w") };
            builder.push(Node::sampled(own.to_vec(), Sampled::by(version, vec![-0.1; 2])).unwrap());
            builder.push(Node::observation(vec![own[1] + 1]));
        }
        builder.finish(Outcome::Finished)
    }

    fn ids_and_places(turns: usize, context_weight: f32) -> (Vec<u32>, Vec<usize>) {
        let Credited { sequence, advantages } = imitated(0, &two_turns(), turns, context_weight);
        assert_eq!(sequence.places.len(), advantages.len());
        (sequence.ids, sequence.places.iter().map(|place| place.position).collect())
    }

    #[test]
    fn an_opening_ends_with_its_last_turn() {
        assert_eq!(ids_and_places(1, 0.0), (vec![1, 2, 3, 4, 5], vec![3, 4]));
        assert_eq!(ids_and_places(1, 0.5), (vec![1, 2, 3, 4, 5], vec![1, 2, 3, 4]));
        assert_eq!(ids_and_places(2, 0.0), ids_and_places(usize::MAX, 0.0));
    }

    #[test]
    fn tokens_that_predict_nothing_are_left_out() {
        assert_eq!(ids_and_places(usize::MAX, 0.0), (vec![1, 2, 3, 4, 5, 6, 7, 8], vec![3, 4, 6, 7]));
        assert_eq!(ids_and_places(usize::MAX, 0.5).0.len(), 9);
    }
}
