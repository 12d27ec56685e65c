//! Budget of a run, before it starts: memory, tokens and time.

use std::time::Instant;

use hone_trace::{
    Engine, Group, LeanState, LearnFault, Learner, LearnerSpec, Memory, Seed, Task, Trace, Workload, gigabytes,
};
use serde::Serialize;

use crate::faults::Broke;
use crate::loss::{LossRecipe, Reduction};
use crate::pack::{self, Credited, Packing, Sequence};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::setup::Setup;

/// Upper bound on a run's needs, in bytes and tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// `None` if the engine runs on another machine.
    #[serde(flatten)]
    pub memory: Option<MemoryBudget>,
    pub episodes_per_step: u64,
    /// Every episode as long as the window.
    pub tokens_per_step: u64,
    pub tokens: u64,
    /// Smallest change to the recipe that makes the run fit, if it may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// True when not even one episode as long as the window fits.
    #[serde(skip)]
    pub one_is_too_many: bool,
}

/// Memory on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryBudget {
    #[serde(flatten)]
    pub parts: Memory,
    pub total_bytes: u64,
}

impl Budget {
    pub fn of(setup: &Setup, recipe: &Recipe) -> Self {
        let train = &recipe.train;
        let copies = u64::from(
            recipe.kl_reward.is_some() || recipe.loss.kl.is_some() || train.kl_to_start || train.kl_within.is_some(),
        ) + u64::from(recipe.overlap.staleness > 0);
        let episodes = train.groups as u64 * u64::from(train.group_size);
        let window = recipe.rollout.window;
        let work = Workload {
            batch_tokens: train.batch_tokens.max(window),
            recompute: train.recompute,
            copies,
            episodes: episodes.min(recipe.rollout.concurrency as u64),
            window,
        };
        let memory = setup.engine.memory(&work);
        Self {
            change: change(&*setup.engine, work),
            one_is_too_many: !fits(
                &*setup.engine,
                Workload { batch_tokens: window, recompute: true, episodes: 1, ..work },
            ),
            memory: memory.map(|parts| MemoryBudget { parts, total_bytes: parts.total() }),
            episodes_per_step: episodes,
            tokens_per_step: episodes * window as u64,
            tokens: train.steps * episodes * window as u64,
        }
    }

    /// Refuses what certainly does not fit: the optimizer state and the second set of weights. The memory for batches
    /// and the KV cache depends on the episodes; the learner refuses a batch that does not fit when it gets one.
    pub fn check(&self) -> Result<(), LearnFault> {
        let Some(MemoryBudget { parts, .. }) = self.memory else { return Ok(()) };
        let needed = parts.optimizer_bytes + parts.reference_bytes;
        let limit = parts.available_bytes.unwrap_or(u64::MAX);
        let lean = parts.lean.filter(|lean| lean.optimizer_bytes + parts.reference_bytes <= limit);
        let lean = lean.map(|lean| format!("set {}, ", lean.setting)).unwrap_or_default();
        let fix = format!("{lean}train a smaller model or an adapter, or leave out the KL to a reference");
        if needed > limit { Err(LearnFault::Memory { needed, limit, fix }) } else { Ok(()) }
    }

    /// Advice if the machine has less memory than the run may need.
    pub fn shortage(&self) -> Option<String> {
        let MemoryBudget { parts, total_bytes } = self.memory?;
        let available = parts.available_bytes?;
        // The weights are already loaded, so they are not part of the free memory.
        let needed = total_bytes.saturating_sub(parts.weights_bytes);
        (needed > available).then(|| {
            let fix = self.change.as_deref().map_or_else(
                || "no batch and no window makes it fit: train a smaller model, or an adapter (policy.lora)".to_owned(),
                |change| format!("the smallest change that fits: {change}"),
            );
            format!(
                "the run may need {} more and {} are free (activations take {}, keys and values {}); {fix}",
                gigabytes(needed),
                gigabytes(available),
                gigabytes(parts.activation_bytes),
                gigabytes(parts.cache_bytes)
            )
        })
    }
}

impl MemoryBudget {
    /// Parameters of the largest models this machine could train with the run's batches and window: all of them, and an
    /// adapter on them. Activations and caches are taken as this model's, so this is a bound, not a promise.
    pub fn largest(&self) -> Option<[u64; 2]> {
        let Memory { parameters, weights_bytes, reference_bytes, .. } = self.parts;
        let free = self.parts.available_bytes? + weights_bytes;
        let left = free.checked_sub(self.parts.activation_bytes + self.parts.cache_bytes)?;
        let copies = (weights_bytes + reference_bytes).checked_div(parameters)?;
        // Gradients and two moments, in f32.
        let whole = copies + 12;
        Some([left / whole, left / copies.max(1)])
    }
}

/// Smallest change that makes the work fit: fewer tokens per batch, which changes no number; then recomputation, which
/// costs time; then fewer concurrent episodes; then smaller moments, if the engine has them. `None` if it fits as it
/// is, or with none of them.
fn change(engine: &dyn Engine, work: Workload) -> Option<String> {
    let fits = |work: Workload| fits(engine, work);
    if fits(work) {
        return None;
    }
    let fewer = |work: Workload| {
        largest(work.window, work.batch_tokens, |batch_tokens| fits(Workload { batch_tokens, ..work }))
    };
    let again = Workload { recompute: true, ..work };
    if let Some(tokens) = fewer(work) {
        return Some(format!("train.batch_tokens = {tokens}"));
    }
    if let Some(tokens) = fewer(again) {
        let recompute = "train.recompute = true".to_owned();
        let both = || format!("{recompute} and train.batch_tokens = {tokens}");
        return Some(if tokens == work.batch_tokens { recompute } else { both() });
    }
    let (least, tokens) = (Workload { batch_tokens: work.window, ..again }, work.window);
    if let Some(change) = fewer_episodes(least, fits) {
        return Some(change);
    }
    // Smaller moments change numbers, so they come last but for the window: a shorter one ends episodes that do not fit it.
    let setting = engine.memory(&work).and_then(|memory| memory.lean).map(|lean| lean.setting);
    let lean = |work: Workload| {
        let state = engine.memory(&work).and_then(|memory| Some((memory, memory.lean?)));
        state.is_some_and(|(memory, LeanState { optimizer_bytes, .. })| enough(Memory { optimizer_bytes, ..memory }))
    };
    let smaller = || {
        let setting = setting?;
        if lean(work) {
            return Some(setting.to_owned());
        }
        let fits = lean(least).then(|| format!("train.recompute = true and train.batch_tokens = {tokens}"));
        Some(format!("{setting}, {}", fits.or_else(|| fewer_episodes(least, lean))?))
    };
    let narrowest = || Some(format!("{}, {}", setting?, narrower(work, lean)?));
    smaller().or_else(|| narrower(work, fits)).or_else(narrowest)
}

/// Fewer concurrent episodes, with the least batches and activations.
fn fewer_episodes(least: Workload, fits: impl Fn(Workload) -> bool) -> Option<String> {
    let episodes = largest(1, least.episodes as usize, |n| fits(Workload { episodes: n as u64, ..least }))?;
    let tokens = least.batch_tokens;
    Some(format!("train.recompute = true, train.batch_tokens = {tokens} and rollout.concurrency = {episodes}"))
}

/// A shorter window, with batches of one episode: with the rest as it is, or with the least of everything.
fn narrower(work: Workload, fits: impl Fn(Workload) -> bool) -> Option<String> {
    let of = |work: Workload| {
        let window = |window: usize| Workload { window, batch_tokens: window.min(work.batch_tokens), ..work };
        largest(SHORTEST.min(work.window), work.window, |tokens| fits(window(tokens)))
    };
    if let Some(tokens) = of(work) {
        return Some(format!("rollout.window = {tokens} and train.batch_tokens = {tokens}"));
    }
    let tokens = of(Workload { recompute: true, episodes: 1, ..work })?;
    Some(format!(
        "rollout.window = {tokens}, train.batch_tokens = {tokens}, train.recompute = true and rollout.concurrency = 1"
    ))
}

/// Tokens of the shortest window that is suggested.
const SHORTEST: usize = 256;

/// True if the machine has the memory; an engine elsewhere has it.
fn fits(engine: &dyn Engine, work: Workload) -> bool {
    engine.memory(&work).is_none_or(enough)
}

fn enough(memory: Memory) -> bool {
    let needed = memory.total().saturating_sub(memory.weights_bytes);
    memory.available_bytes.is_none_or(|free| needed <= free)
}

/// Largest number from `least` to `most` that fits; fewer always fit too.
fn largest(least: usize, most: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    if least > most || !fits(least) {
        return None;
    }
    let (mut low, mut high) = (least, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Time estimate of a run, from a small measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds the measurement took.
    pub measured_s: f64,
    pub episodes_measured: u64,
    /// Number of them broken by something outside the policy.
    pub episodes_broken: u64,
    /// Boundary of the first fault, and its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_fault: Option<String>,
    /// Tokens sampled in a mean episode.
    pub sampled_per_episode: f64,
    pub step_s: f64,
    pub run_s: f64,
}

/// Episodes that a measurement plays, if a step has that many and there is time.
const MEASURED: usize = 32;
/// Episodes of the first measurement, of one group.
const FIRST: usize = 8;
/// Seconds of a measurement.
const SECONDS: f64 = 10.0;

/// Plays a few groups and learns from them, without an optimizer step, and extrapolates. Sampling more concurrent
/// episodes costs less per episode, so the estimate errs on the high side.
pub async fn estimate(setup: &Setup, recipe: &Recipe) -> Result<Estimate, TrainError> {
    let train = &recipe.train;
    let group_size = train.group_size.max(1) as usize;
    let most =
        [MEASURED.div_ceil(group_size).min(train.groups).min(setup.tasks.len()).max(1), group_size.min(MEASURED)];
    let mut learner = setup.engine.learner(&LearnerSpec::default()).await?;
    // The first time takes longer: threads wake up, memory is allocated. A slow run is estimated from it alone.
    let started = Instant::now();
    let few = [1, group_size.min(FIRST)];
    let first = measure(setup, recipe, &mut *learner, few).await?;
    let first_s = started.elapsed().as_secs_f64();
    let times = ((SECONDS - first_s) / first_s) as usize;
    let (played, Measurement { sampled_s, learned_s, tokens, broke }) = match more(few[1].saturating_mul(times), most) {
        None => (few, first),
        Some(more) => (more, measure(setup, recipe, &mut *learner, more).await?),
    };
    let episodes = (played[0] * played[1]) as u64;
    let of_step = (train.groups * group_size) as f64 / episodes as f64;
    let step_s = (sampled_s + learned_s * f64::from(train.epochs_per_batch)) * of_step;
    Ok(Estimate {
        measured_s: started.elapsed().as_secs_f64(),
        episodes_measured: episodes,
        episodes_broken: broke.as_ref().map_or(0, |broke| broke.broken as u64),
        first_fault: broke.map(|broke| broke.first),
        sampled_per_episode: tokens as f64 / episodes.max(1) as f64,
        step_s,
        run_s: step_s * train.steps as f64,
    })
}

/// Groups, and episodes of each, of the second measurement: as many as there is time for.
fn more(episodes: usize, [groups, size]: [usize; 2]) -> Option<[usize; 2]> {
    let size = size.min(episodes);
    (size > 0).then(|| [(episodes / size).min(groups), size])
}

/// Seconds of sampling and of learning, tokens sampled, and faults.
struct Measurement {
    sampled_s: f64,
    learned_s: f64,
    tokens: usize,
    broke: Option<Broke>,
}

/// Plays `count` groups of `size` episodes and learns from them.
async fn measure(
    setup: &Setup,
    recipe: &Recipe,
    learner: &mut dyn Learner,
    [count, size]: [usize; 2],
) -> Result<Measurement, TrainError> {
    let rollouts = setup.rollouts(recipe, setup.engine.sampler(), recipe.sampling.temperature);
    let tasks: Vec<&Task> = setup.tasks.iter().take(count).collect();
    let clock = Instant::now();
    let groups = rollouts.groups(&tasks, size as u32, Seed::root(recipe.seed).with("estimate")).await;
    let sampled_s = clock.elapsed().as_secs_f64();
    let sampled = groups.iter().flat_map(Group::traces).flat_map(Trace::sampled);
    let tokens: usize = sampled.map(|(_, node)| node.tokens().len()).sum();
    let (sequences, temperature) = pack::sampled(&groups)?;
    // Every token gets an advantage of 1: the cost does not depend on it.
    let even = |sequence: Sequence| Credited { advantages: vec![1.0; sequence.places.len()], sequence };
    let sequences: Vec<_> = sequences.into_iter().map(even).collect();
    let clock = Instant::now();
    if let Some(temperature) = temperature {
        let share = learner.abilities().shared_prefixes;
        let packing = Packing { temperature, budget: recipe.train.batch_tokens, share };
        let loss = LossRecipe::named("reinforce").build()?;
        for batch in pack::to_learn(&sequences, Reduction::TokenMean, &packing) {
            learner.accumulate(&batch, &loss).await?;
        }
    }
    Ok(Measurement { sampled_s, learned_s: clock.elapsed().as_secs_f64(), tokens, broke: Broke::of(&groups) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use async_trait::async_trait;
    use hone_trace::{EngineFault, PolicyVersion, Sampler};

    use super::*;

    /// An engine that only reports memory: 100 bytes free, activations and cache by their tokens.
    struct Small {
        optimizer: u64,
        lean: Option<u64>,
    }

    #[async_trait]
    impl Engine for Small {
        fn sampler(&self) -> Arc<dyn Sampler> {
            unreachable!()
        }
        fn version(&self) -> PolicyVersion {
            unreachable!()
        }
        async fn learner(&self, _: &LearnerSpec) -> Result<Box<dyn Learner>, EngineFault> {
            unreachable!()
        }
        async fn sampler_of(&self, _: &Path) -> Result<Arc<dyn Sampler>, EngineFault> {
            unreachable!()
        }
        fn vocabulary(&self) -> usize {
            unreachable!()
        }
        fn memory(&self, work: &Workload) -> Option<Memory> {
            let activation_bytes = work.batch_tokens as u64 / if work.recompute { 4 } else { 1 };
            Some(Memory {
                parameters: 1,
                weights_bytes: 1000,
                optimizer_bytes: self.optimizer,
                reference_bytes: 0,
                activation_bytes,
                cache_bytes: work.episodes * 10,
                available_bytes: Some(100),
                kept_layers: None,
                pages: [0, 32],
                lean: self.lean.map(|optimizer_bytes| LeanState { setting: "moments = \"8bit\"", optimizer_bytes }),
            })
        }
        async fn export(&self, _: &Path) -> Result<(), EngineFault> {
            unreachable!()
        }
    }

    #[test]
    fn the_smallest_change_that_fits_is_named_and_smaller_moments_come_last() {
        let work = Workload { batch_tokens: 40, recompute: false, copies: 0, episodes: 2, window: 16 };
        let said = |optimizer, lean| change(&Small { optimizer, lean }, work);
        assert_eq!(said(40, Some(5)), None, "it fits as it is");
        assert_eq!(said(50, Some(5)).unwrap(), "train.batch_tokens = 30");
        assert_eq!(said(70, Some(5)).unwrap(), "train.recompute = true");
        assert_eq!(
            said(80, Some(5)).unwrap(),
            "train.recompute = true, train.batch_tokens = 16 and rollout.concurrency = 1"
        );
        assert_eq!(said(99, Some(20)).unwrap(), "moments = \"8bit\"");
        assert_eq!(
            said(99, Some(60)).unwrap(),
            "moments = \"8bit\", train.recompute = true and train.batch_tokens = 16"
        );
        assert_eq!(
            said(99, Some(80)).unwrap(),
            "moments = \"8bit\", train.recompute = true, train.batch_tokens = 16 and rollout.concurrency = 1"
        );
        assert_eq!(said(99, None), None);
        assert_eq!(said(99, Some(98)), None);
    }

    #[test]
    fn a_window_that_takes_the_memory_is_named() {
        let work = Workload { batch_tokens: 4000, recompute: false, copies: 0, episodes: 2, window: 2000 };
        let said = |optimizer, lean| change(&Small { optimizer, lean }, work);
        let least =
            "rollout.window = 363, train.batch_tokens = 363, train.recompute = true and rollout.concurrency = 1";
        assert_eq!(said(0, None).unwrap(), least);
        assert_eq!(said(50, None), None, "even the shortest window takes more than there is");
        assert_eq!(said(50, Some(0)).unwrap(), format!("moments = \"8bit\", {least}"));
    }

    #[test]
    fn an_optimizer_that_cannot_be_had_is_refused_with_a_smaller_one_where_that_fits() {
        let budget = |optimizer, lean| {
            let work = Workload { batch_tokens: 40, recompute: false, copies: 0, episodes: 2, window: 16 };
            let parts = Small { optimizer, lean }.memory(&work).unwrap();
            let memory = Some(MemoryBudget { parts, total_bytes: parts.total() });
            Budget { memory, episodes_per_step: 1, tokens_per_step: 1, tokens: 1, change: None, one_is_too_many: false }
                .check()
        };
        assert!(budget(100, None).is_ok());
        let text = |optimizer, lean| budget(optimizer, lean).unwrap_err().to_string();
        assert!(
            text(120, Some(60)).contains("set moments = \"8bit\", train a smaller model"),
            "{}",
            text(120, Some(60))
        );
        assert!(!text(120, Some(110)).contains("moments"));
    }

    #[test]
    fn a_measurement_takes_the_time_there_is_and_no_more() {
        assert_eq!(more(0, [4, 8]), None, "the first took it all");
        assert_eq!(more(1000, [4, 8]), Some([4, 8]));
        assert_eq!(more(20, [4, 8]), Some([2, 8]));
        assert_eq!(more(8, [1, 32]), Some([1, 8]));
    }

    #[test]
    fn the_largest_number_that_fits_is_found_at_every_border() {
        for border in 3..=20 {
            assert_eq!(largest(3, 20, |n| n <= border), Some(border));
        }
        assert_eq!(largest(3, 20, |n| n <= 2), None);
        assert_eq!(largest(5, 4, |_| true), None);
    }
}
