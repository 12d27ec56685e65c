//! Learning from one rollout batch: one or several optimizer steps.

use hone_trace::{Batch, LearnFault, Learner, OptimizerStep, Seed, TokenColumns, Whose};

use crate::ledger::{self, Metrics, Optimized, Pass, Visits};
use crate::lessons::Lessons;
use crate::loss::{Objective, StepStats};
use crate::pack::{self, Credited, Packing};
use crate::recipe::Recipe;
use crate::run::TrainError;

/// The optimizer steps of one step.
#[derive(Debug, Default)]
pub struct Learned {
    pub optimized: Vec<Optimized>,
    pub learning_rate: f64,
    pub lessons: Lessons,
}

impl Learned {
    /// Reasons why optimizer steps were not taken.
    pub(crate) fn skipped(&self) -> Vec<String> {
        self.optimized.iter().filter_map(|step| step.report.skipped.clone()).collect()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        ledger::learning(&self.optimized, self.learning_rate)
    }

    /// Fate of the credited tokens.
    pub(crate) fn visits(&self) -> Visits {
        ledger::visits(&self.optimized)
    }
}

/// Number of the step, and the factor on its learning rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub step: u64,
    pub factor: f64,
}

/// Goes through the sequences `train.epochs_per_batch` times, `train.mini_batch` at a time.
pub(crate) async fn learn(
    learner: &mut dyn Learner,
    objective: &Objective,
    recipe: &Recipe,
    Pace { step, factor }: Pace,
    mut sequences: Vec<Credited>,
    temperature: f32,
) -> Result<Learned, TrainError> {
    let train = &recipe.train;
    let schedule = train.schedule();
    let learning_rate = factor * schedule.at(step);
    let packing = Packing { temperature, budget: train.batch_tokens, share: learner.abilities().shared_prefixes };
    old_logprobs(learner, objective, recipe, &mut sequences, &packing).await?;
    let size = mini_batch(recipe, sequences.len());
    let mut learned = Learned { learning_rate, ..Learned::default() };
    for epoch in 0..train.epochs_per_batch {
        shuffle(recipe, step, epoch, &mut sequences);
        let last_epoch = epoch + 1 == train.epochs_per_batch;
        let mut parts = sequences.chunks(size.max(1)).peekable();
        while let Some(part) = parts.next() {
            let batches = pack::to_learn(part, objective.reduction, &packing);
            let loss = objective.over(step_stats(learner, objective, &batches).await?);
            let mut pass = Pass::of(part.iter().map(|credited| &credited.sequence));
            let mut shown = 0;
            for batch in &batches {
                let stats = learner.accumulate(batch, &loss).await?;
                pass.add(batch, &stats);
                let rest = part[shown..].iter().map(|credited| &credited.sequence);
                shown += learned.lessons.add(rest, batch, &stats, &loss);
            }
            let publish = last_epoch && parts.peek().is_none();
            let rate = OptimizerStep { learning_rate, max_grad_norm: Some(train.max_grad_norm), publish };
            let report = learner.step(rate).await?;
            if report.skipped.is_some() {
                learned.lessons.skip(part.iter().map(|credited| &credited.sequence));
            }
            learned.optimized.push(Optimized { pass, report });
        }
    }
    Ok(learned)
}

fn shuffle<T>(recipe: &Recipe, step: u64, epoch: u32, sequences: &mut [T]) {
    Seed::root(recipe.seed).with("mini batches").at(step).at(u64::from(epoch)).rng().shuffle(sequences);
}

fn mini_batch(recipe: &Recipe, sequences: usize) -> usize {
    if recipe.train.mini_batch == 0 { sequences } else { recipe.train.mini_batch }
}

/// Places, among the sequences of a step, of those in its first optimizer step: the policy that the learner scored them
/// with is the one that the step began with.
pub fn first_update(recipe: &Recipe, step: u64, sequences: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sequences).collect();
    shuffle(recipe, step, 0, &mut order);
    order.truncate(mini_batch(recipe, sequences));
    order
}

/// Old logprobs, which the importance ratio compares with: the sampler's, or the learner's before its first update.
///
/// In a synchronous run whose sampler and learner agree bit for bit, the old logprob is the sampler's, and no pass is
/// needed. For tokens sampled ahead, or by an engine whose two sides differ, the importance ratio is against the
/// sampler too, which bounds how far the policy moves from the one that sampled; only a correction, which weights the
/// learner against the sampler, needs the learner's own logprobs.
async fn old_logprobs(
    learner: &mut dyn Learner,
    objective: &Objective,
    recipe: &Recipe,
    sequences: &mut [Credited],
    packing: &Packing,
) -> Result<(), TrainError> {
    let differs = recipe.overlap.staleness > 0 || !learner.abilities().exact_sampler;
    let mut scored = None;
    if differs && objective.correction.is_some() {
        let mut logprobs = Vec::new();
        for batch in pack::to_score(sequences.iter().map(|credited| &credited.sequence), packing) {
            logprobs.extend(learner.score(&batch, Whose::Policy).await?.logprobs);
        }
        scored = Some(logprobs);
    }
    let mut places: Vec<_> = sequences.iter_mut().flat_map(|credited| &mut credited.sequence.places).collect();
    if let Some(logprobs) = scored.as_ref().filter(|logprobs| logprobs.len() != places.len()) {
        let (found, wanted) = (logprobs.len(), places.len());
        return Err(LearnFault::failed(format!("the learner scored {found} tokens of {wanted}")).into());
    }
    for (at, place) in places.iter_mut().enumerate() {
        place.old = Some(scored.as_ref().map_or(place.sampler, |logprobs| logprobs[at]));
    }
    Ok(())
}

/// Step-wide statistics, if the objective needs them and the step is more than one batch: a forward pass
/// over all of it comes first.
async fn step_stats(
    learner: &mut dyn Learner,
    objective: &Objective,
    batches: &[Batch],
) -> Result<Option<StepStats>, TrainError> {
    if !objective.needs_step_stats() || batches.len() < 2 {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(batches.len());
    for batch in batches {
        let scored = learner.score(batch, Whose::Policy).await?;
        columns.push(TokenColumns::new(batch, &scored.logprobs, scored.entropies.as_deref(), None));
    }
    let parts: Vec<_> = columns.iter().map(TokenColumns::view).collect();
    Ok(Some(objective.step_stats(&parts)))
}
