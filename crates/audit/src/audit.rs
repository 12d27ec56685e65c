//! The audit itself, from tasks to findings. Read it first.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use hone_arena::rewards::TOTAL;
use hone_trace::{EndState, Seed, Task, Trace};

use crate::AuditError;
use crate::evidence::{Evidence, Played, Repeat, mean};
use crate::honest::{self, Honest};
use crate::law::Law;
use crate::parity::parity;
use crate::probe::{Probe, Role, Variant};
use crate::relative;
use crate::report::{Audit, Material};
use crate::scene::Scene;
use crate::search::{Hunt, SEARCH};
use crate::stage::Stage;
use crate::subject::Subject;

/// Amount of play.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tasks that every probe plays.
    pub tasks: usize,
    /// Policies that the search tries.
    pub search: usize,
    /// Honest episodes of a task; 0: as many as the recipe's groups have.
    pub group_size: u32,
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tasks: 16, search: 120, group_size: 0, seed: 0 }
    }
}

/// Tasks on which episodes are repeated.
const REPEATED: usize = 4;
/// Tasks on which the search scores what it tries.
const HUNTED: usize = 6;
/// A policy that solves less is not a measure of honest work.
const LEAST_SUCCESS: f64 = 0.02;

/// Plays everything and checks every law. `texts` is a model directory whose tokenizer and template are used; `watch` is
/// told what is going on.
pub async fn audit(
    subject: &Subject,
    texts: &Path,
    options: Options,
    probes: &[&dyn Probe],
    laws: &[&dyn Law],
    watch: &mut (dyn FnMut(&str) + Send),
) -> Result<Audit, AuditError> {
    let seed = Seed::root(options.seed).with("audit");
    let rubric = Arc::clone(&subject.rubric);
    let stage = Stage::new(&subject.recipe, Arc::clone(&subject.arena), rubric, texts, seed)?;
    let tasks = subject.spread(options.tasks);
    watch(&format!("playing the solutions of {} tasks", tasks.len()));
    let mut scenes = Vec::with_capacity(tasks.len());
    for task in &tasks {
        scenes.push(stage.scene(task).await?);
    }
    let success = &subject.recipe.eval.success;
    let mut evidence = Evidence::new(subject.components.clone(), success, scenes.len());
    evidence.window = subject.recipe.rollout.window;
    for probe in probes {
        let about = probe.about();
        let variants: Vec<(usize, Variant)> = scenes
            .iter()
            .enumerate()
            .flat_map(|(task, scene)| probe.variants(scene).into_iter().map(move |v| (task, v)))
            .collect();
        watch(&format!("{}: {} episodes", about.name, variants.len()));
        evidence.played.extend(play(&stage, &scenes, about.name, variants).await?);
    }
    if options.search > 0 {
        watch(&format!("search: {} policies on {} tasks", options.search, HUNTED.min(scenes.len())));
        evidence.played.extend(hunt(&stage, &scenes, options, seed).await?);
    }
    evidence.repeats = repeat(&stage, &scenes, &evidence).await?;
    let honest = honest_work(subject, &stage, &tasks, options, seed, watch).await;
    watch("laws and advantages");
    let credit = relative::credit(&subject.recipe, &subject.rubric)?;
    let lines = evidence.lines();
    Ok(Audit::new(Material {
        recipe: subject.recipe.name.clone(),
        standings: relative::standings(&*credit, &evidence, &honest, &lines),
        shares: relative::advantage_shares(&*credit, &subject.recipe, &subject.rubric, &subject.components, &honest),
        parity: parity(&evidence, &subject.environments).await,
        checked: laws.iter().map(|law| (law.about(), law.check(&evidence))).collect(),
        lines,
        honest,
        evidence,
    }))
}

/// Plays variants, as many at once as the recipe plays.
async fn play(
    stage: &Stage,
    scenes: &[Scene],
    probe: &'static str,
    variants: Vec<(usize, Variant)>,
) -> Result<Vec<Played>, AuditError> {
    let plays = variants.into_iter().map(|(task, variant)| async move {
        let trace = stage.play(&scenes[task].task, &variant.replies).await?;
        let Variant { label, role, point, mark, replies } = variant;
        Ok(Played { probe, label, role, point, mark, task, replies, trace })
    });
    let at_once = stage.rollouts.settings.concurrency.max(1);
    let played: Vec<Result<Played, AuditError>> = futures::stream::iter(plays).buffered(at_once).collect().await;
    played.into_iter().collect()
}

/// Looks for the best policy that reads nothing, and plays it on every task.
async fn hunt(stage: &Stage, scenes: &[Scene], options: Options, seed: Seed) -> Result<Vec<Played>, AuditError> {
    let few = &scenes[..HUNTED.min(scenes.len())];
    let mut hunt = Hunt::new(seed, options.search);
    let mut tried = 0;
    while let Some(genome) = hunt.next(tried) {
        tried += 1;
        let variants = few.iter().enumerate().map(|(task, scene)| (task, genome.variant(scene))).collect();
        let played = play(stage, few, SEARCH.name, variants).await?;
        if let Some(score) = mean(played.iter().filter_map(|played| played.value(TOTAL))) {
            hunt.tell(score, genome);
        }
    }
    let Some(best) = hunt.best() else { return Ok(Vec::new()) };
    let variants = scenes.iter().enumerate().map(|(task, scene)| (task, best.variant(scene))).collect();
    play(stage, scenes, SEARCH.name, variants).await
}

/// Values some episodes a second time: played again, and scored again from the record.
async fn repeat(stage: &Stage, scenes: &[Scene], evidence: &Evidence) -> Result<Vec<Repeat>, AuditError> {
    let mut repeats = Vec::new();
    let wanted = |played: &&Played| {
        played.task < REPEATED && (played.role == Role::Oracle || ["echo", "filler"].contains(&played.probe))
    };
    for played in evidence.episodes().filter(wanted) {
        let again = stage.play(&scenes[played.task].task, &played.replies).await?;
        let end = EndState { facts: played.trace.facts.clone() };
        let card = stage.rollouts.rubric.score(&played.trace, &end).await;
        for component in &evidence.components {
            let name = &component.name;
            let mut add = |second: Option<f64>, by_play: bool| {
                let (label, component) = (played.label.clone(), name.clone());
                repeats.push(Repeat { label, component, first: played.value(name), second, played: by_play });
            };
            add(again.reward(name), true);
            let scored = card.components.iter().find(|reward| reward.component == *name);
            add(scored.and_then(hone_trace::Reward::value), false);
        }
    }
    Ok(repeats)
}

/// Episodes to compare with: the run's, the policy's, else the baselines'.
async fn honest_work(
    subject: &Subject,
    stage: &Stage,
    tasks: &[Task],
    options: Options,
    seed: Seed,
    watch: &mut (dyn FnMut(&str) + Send),
) -> Honest {
    let tasks: Vec<&Task> = tasks.iter().collect();
    let success = &subject.recipe.eval.success;
    if let Some(traces) = &subject.recorded {
        let traces: Vec<Trace> = traces.clone();
        return honest::recorded(&subject.rubric, &tasks, traces, success).await;
    }
    let mut note = None;
    if let Some(sampler) = &subject.sampler {
        let size = if options.group_size == 0 { subject.recipe.train.group_size } else { options.group_size };
        watch(&format!("sampling the policy, {size} episodes of {} tasks", tasks.len()));
        let own = honest::policy(&stage.rollouts, Arc::clone(sampler), &tasks, size, seed, success).await;
        match own.success {
            Some(rate) if rate >= LEAST_SUCCESS => return own,
            rate => {
                note = Some(format!(
                    "the policy solves {:.1} % of these tasks, which is no work to compare with",
                    100.0 * rate.unwrap_or(0.0)
                ));
            }
        }
    }
    watch("playing the scripted baselines");
    let mut honest = honest::baselines(&stage.rollouts, &subject.baselines, &tasks, seed, success).await;
    honest.note = note;
    honest
}
