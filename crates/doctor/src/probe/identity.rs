//! Policy identity: the sampler and the learner are one policy, before an update and after it.

use hone_arena::rollout::Slot;
use hone_trace::{
    Abilities, Group, LearnFault, Learner, LearnerSpec, OptimizerStep, PolicyVersion, Seed, Task, Trace, Whose,
};
use hone_train::budget::Budget;
use hone_train::loss::{LossRecipe, Reduction};
use hone_train::pack::{self, Credited, Packing, Sequence};
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;

use super::{Identity, Part, Update, play};

/// Episodes that are scored twice, and the learning rate of the step that is taken back.
const EPISODES: usize = 24;
const RATE: f64 = 3e-4;
/// Rounding error of a logprob.
const ROUNDING: f64 = 1e-3;

pub(super) async fn of(setup: &Setup, recipe: &Recipe, groups: &[Vec<Trace>]) -> Part<Identity> {
    if let Err(error) = Budget::of(setup, recipe).check() {
        return Part::Broken(error.to_string());
    }
    match measure(setup, recipe, groups).await {
        Ok(Some(identity)) => Part::Known(identity),
        Ok(None) => Part::Broken("the start policy sampled no token".into()),
        Err(what) => Part::Broken(what),
    }
}

async fn measure(setup: &Setup, recipe: &Recipe, groups: &[Vec<Trace>]) -> Result<Option<Identity>, String> {
    let mut left = EPISODES;
    let mut few = Vec::new();
    for group in groups {
        few.push(group.iter().take(left).cloned().collect::<Vec<_>>());
        left = left.saturating_sub(group.len());
    }
    let groups = play::regroup(&few);
    let (sequences, temperature) = pack::sampled(&groups).map_err(|error| error.to_string())?;
    let Some(temperature) = temperature else { return Ok(None) };
    let mut learner = setup.engine.learner(&LearnerSpec::default()).await.map_err(|error| error.to_string())?;
    let packing = packing(learner.abilities(), temperature, recipe);
    let scored = score(&mut *learner, &sequences, &packing).await.map_err(|error| error.to_string())?;
    let mut identity = compare(&groups, &sequences, &scored);
    identity.update = match update(setup, recipe, &mut *learner, &sequences, &scored, &packing).await {
        Ok(update) => Part::Known(update),
        Err(what) => Part::Broken(what),
    };
    Ok(Some(identity))
}

fn packing(abilities: Abilities, temperature: f32, recipe: &Recipe) -> Packing {
    Packing { temperature, budget: recipe.train.batch_tokens, share: abilities.shared_prefixes }
}

async fn score(learner: &mut dyn Learner, of: &[Sequence], packing: &Packing) -> Result<Vec<f32>, LearnFault> {
    let mut scores = Vec::new();
    for batch in pack::to_score(of, packing) {
        scores.extend(learner.score(&batch, Whose::Policy).await?.logprobs);
    }
    Ok(scores)
}

fn compare(groups: &[Group], sequences: &[Sequence], scored: &[f32]) -> Identity {
    // Numbers of the episodes, as the probe counts them.
    let mut first_of = Vec::new();
    let mut number = 0u64;
    for group in groups {
        first_of.push(number);
        number += group.all().count() as u64;
    }
    let places = sequences.iter().flat_map(|sequence| sequence.places.iter().map(move |place| (sequence, place)));
    let mut identity = Identity::default();
    let (mut sum, mut pairs) = (0.0, Vec::new());
    for ((sequence, place), &learner) in places.zip(scored) {
        let gap = f64::from((place.sampler - learner).abs());
        sum += gap;
        identity.max = identity.max.max(gap);
        if gap > ROUNDING && identity.parts_at.is_none() {
            let trace = first_of.get(sequence.group).copied().unwrap_or(0) + sequence.trace as u64;
            identity.parts_at = Some((trace, place.position, place.sampler, learner));
        }
        pairs.push((f64::from(place.sampler), f64::from(learner)));
    }
    identity.tokens = pairs.len();
    identity.mean = sum / pairs.len().max(1) as f64;
    identity.correlation = correlation(&pairs);
    identity
}

/// Pearson correlation; `None` where one side does not vary.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        xy += (x - mx) * (y - my);
        xx += (x - mx).powi(2);
        yy += (y - my).powi(2);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Takes a small step, samples, and goes back.
async fn update(
    setup: &Setup,
    recipe: &Recipe,
    learner: &mut dyn Learner,
    sequences: &[Sequence],
    before: &[f32],
    packing: &Packing,
) -> Result<Update, String> {
    let words = |error: LearnFault| error.to_string();
    let scratch = tempfile::tempdir().map_err(|error| format!("no room to save the policy: {error}"))?;
    let start: PolicyVersion = learner.version();
    learner.save(scratch.path()).await.map_err(words)?;
    let even =
        |sequence: &Sequence| Credited { advantages: vec![1.0; sequence.places.len()], sequence: sequence.clone() };
    let credited: Vec<Credited> = sequences.iter().map(even).collect();
    let loss = LossRecipe::named("reinforce").build().map_err(|error| error.to_string())?;
    for batch in pack::to_learn(&credited, Reduction::TokenMean, packing) {
        learner.accumulate(&batch, &loss).await.map_err(words)?;
    }
    let step = OptimizerStep { learning_rate: RATE, max_grad_norm: None, publish: true };
    let report = learner.step(step).await.map_err(words)?;
    if let Some(why) = report.skipped {
        return Err(format!("the step was not taken: {why}"));
    }
    let after = score(learner, sequences, packing).await.map_err(words)?;
    let mut update =
        Update { moved: distance(before, &after), trained: learner.version().weights.short(), ..Update::default() };
    let fresh = sample(setup, recipe).await;
    let version = fresh.iter().flat_map(Trace::sampled).find_map(|(_, node)| node.as_sampled()?.versions.last());
    update.served = version.map_or_else(|| "unknown".into(), |(version, _)| version.weights.short());
    let groups = [Group::new(fresh.clone())];
    let (resampled, _) = pack::sampled(&groups).map_err(|error| error.to_string())?;
    let theirs: Vec<f32> = resampled.iter().flat_map(|s| s.places.iter().map(|place| place.sampler)).collect();
    update.after = distance(&theirs, &score(learner, &resampled, packing).await.map_err(words)?);
    learner.restore(scratch.path(), start.step).await.map_err(words)?;
    update.restored = distance(before, &score(learner, sequences, packing).await.map_err(words)?);
    Ok(update)
}

/// A few episodes of the policy that is served now.
async fn sample(setup: &Setup, recipe: &Recipe) -> Vec<Trace> {
    let rollouts = setup.rollouts(recipe, setup.engine.sampler(), recipe.sampling.temperature);
    let seed = Seed::root(recipe.seed).with("check").with("updated");
    let tasks: Vec<&Task> = setup.tasks.iter().take(4).collect();
    let slots = tasks.iter().map(|task| Slot { task, replica: 0, seed: seed.with(&task.key).value() });
    rollouts.play_all(slots.collect()).await
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    let gaps = one.iter().zip(other).map(|(a, b)| f64::from((a - b).abs()));
    gaps.sum::<f64>() / one.len().max(1) as f64
}
