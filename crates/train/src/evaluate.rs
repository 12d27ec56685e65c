//! Evaluation: success on held-out tasks, with an interval and the do-nothing baseline beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hone_arena::rollout::Slot;
use hone_trace::{Seed, Trace};
use serde::{Deserialize, Serialize};

use crate::oracle;
use crate::recipe::Recipe;
use crate::setup::{Setup, SetupError};

/// One evaluation, recounted from its traces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evaluation {
    /// Share of the episodes without a fault in which the success component is 1.
    pub success: f64,
    /// Wilson's 95 % interval.
    pub ci: [f64; 2],
    /// Share of replies that are neither a valid call nor a plain reply.
    pub parse_failure_rate: f64,
    /// Episodes counted.
    pub n: usize,
    /// Success of a policy that does nothing, on the same tasks.
    pub do_nothing: f64,
    /// Episodes left out because something outside the policy broke.
    pub faults: usize,
    pub temperature: f32,
    /// Mean of each reward component over the episodes in which it was scored.
    pub components: BTreeMap<String, f64>,
    /// Calls of each offered tool that were run, per episode counted.
    #[serde(default)]
    pub calls: BTreeMap<String, f64>,
}

/// Plays the held-out tasks once each, with the same seeds whenever it is asked.
pub async fn evaluate(setup: &Setup, recipe: &Recipe) -> Result<(Evaluation, Vec<Trace>), SetupError> {
    let rollouts = setup.rollouts(recipe, Arc::clone(&setup.sampler), recipe.eval.temperature);
    let seed = Seed::root(recipe.env.seed()).with("eval");
    let tasks = &setup.held_out[..recipe.eval.tasks];
    let slots = tasks.iter().map(|task| Slot { task, replica: 0, seed: seed.with(&task.key).value() }).collect();
    let traces = rollouts.play_all(slots).await;
    let mut idle = Vec::with_capacity(tasks.len());
    for task in tasks {
        idle.push(oracle::idle(setup, &rollouts, task).await?);
    }
    let (done_nothing, of) = successes(&idle, &recipe.eval.success);
    let mut evaluation = count(&traces, &recipe.eval.success);
    evaluation.do_nothing = share(done_nothing, of);
    evaluation.temperature = recipe.eval.temperature;
    Ok((evaluation, traces))
}

/// Counts recorded evaluation traces.
pub fn count(traces: &[Trace], success: &str) -> Evaluation {
    let (good, n) = successes(traces, success);
    let turns = || traces.iter().flat_map(|trace| &trace.turns);
    let mut sums: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for reward in traces.iter().flat_map(|trace| &trace.rewards) {
        if let Some(value) = reward.value() {
            let entry = sums.entry(reward.component.clone()).or_default();
            *entry = (entry.0 + value, entry.1 + 1);
        }
    }
    Evaluation {
        success: share(good, n),
        ci: wilson(good, n),
        parse_failure_rate: share(turns().filter(|turn| turn.failure.is_some()).count(), turns().count()),
        n,
        do_nothing: 0.0,
        faults: traces.len() - n,
        temperature: 0.0,
        components: sums.into_iter().map(|(name, (sum, count))| (name, sum / count as f64)).collect(),
        calls: calls(traces).into_iter().map(|(name, count)| (name, share(count, n))).collect(),
    }
}

fn successes(traces: &[Trace], component: &str) -> (usize, usize) {
    (counted(traces).filter(|trace| trace.reward(component) == Some(1.0)).count(), counted(traces).count())
}

fn calls(traces: &[Trace]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for trace in counted(traces) {
        for tool in trace.tools().iter() {
            counts.entry(tool.name.clone()).or_default();
        }
        // A name the policy made up is no tool.
        for call in trace.turns.iter().flat_map(|turn| turn.calls.iter().take(turn.executed as usize)) {
            if let Some(count) = counts.get_mut(&call.name) {
                *count += 1;
            }
        }
    }
    counts
}

/// The episodes without a fault.
fn counted(traces: &[Trace]) -> impl Iterator<Item = &Trace> {
    traces.iter().filter(|trace| trace.outcome.is_scorable())
}

fn share(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Wilson's score interval at 95 %.
pub fn wilson(good: usize, n: usize) -> [f64; 2] {
    if n == 0 {
        return [0.0, 1.0];
    }
    let (p, n, z) = (good as f64 / n as f64, n as f64, 1.959_963_984_540_054);
    let centre = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    // At the ends the formula gives 0 and 1 up to rounding.
    let low = if p == 0.0 { 0.0 } else { (centre - spread) / scale };
    let high = if p == 1.0 { 1.0 } else { (centre + spread) / scale };
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        // Computed by hand from the formula in double precision.
        let [low, high] = wilson(37, 100);
        assert!((low - 0.281_823_6).abs() < 1e-6 && (high - 0.467_794_7).abs() < 1e-6, "{low} {high}");
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        assert!(wilson(0, 50)[0] == 0.0 && wilson(50, 50)[1] == 1.0);
    }
}
