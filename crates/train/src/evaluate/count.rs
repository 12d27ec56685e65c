//! Evaluation counted from recorded traces. Only episodes whose success component was scored count: absent is not zero.

use std::collections::BTreeMap;

use hone_trace::{Outcome, ToolSpec, Trace};
use serde::{Deserialize, Serialize};

use super::entropy::entropy;
use crate::interval::clustered;

/// One evaluation, recounted from its traces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evaluation {
    /// Share of the scored episodes in which the success component is 1, each task weighted equally. Absent if none was
    /// scored.
    pub success: Option<f64>,
    /// 95 % Wilson interval; with several episodes per task, at their effective sample size.
    pub ci: Option<[f64; 2]>,
    /// Share of replies that are neither a valid call nor a plain reply. Absent without replies.
    pub parse_failure_rate: Option<f64>,
    /// Mean entropy per sampled token of the sampling distribution: minus the mean recorded logprob. Absent for greedy
    /// decoding.
    pub entropy: Option<f64>,
    /// Episodes counted: without a fault, and with the success component scored.
    pub n: usize,
    /// Number of their tasks.
    pub tasks: usize,
    /// Episodes excluded because something outside the policy broke.
    pub faults: usize,
    /// Boundary of the first fault, and its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fault: Option<String>,
    /// Episodes excluded because the success component was not scored.
    #[serde(default)]
    pub unscored: usize,
    /// Reason of the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_unscored: Option<String>,
    pub temperature: f32,
    /// True when top-k, top-p or min-p was on.
    #[serde(default)]
    pub filters: bool,
    /// Mean of each reward component over the episodes in which it was scored.
    pub components: BTreeMap<String, f64>,
    /// Calls of each offered tool that were run, per episode without a fault.
    #[serde(default)]
    pub calls: BTreeMap<String, f64>,
}

/// Success by task: the mean over the task's scored episodes.
pub type ByTask = BTreeMap<String, f64>;

/// Evaluation result with the per-task data it summarises.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    pub evaluation: Evaluation,
    pub by_task: ByTask,
}

/// Counts recorded evaluation traces.
pub fn count(traces: &[Trace], success: &str) -> Counted {
    let mut by_task: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trace in unbroken(traces) {
        if let Some(value) = trace.reward(success) {
            by_task.entry(trace.task.clone()).or_default().push(f64::from(u8::from(value == 1.0)));
        }
    }
    let n = by_task.values().map(Vec::len).sum();
    let played = unbroken(traces).count();
    let turns = || traces.iter().flat_map(|trace| &trace.turns);
    let estimate = clustered(by_task.values().map(Vec::as_slice));
    let evaluation = Evaluation {
        success: estimate.map(|(mean, _)| mean),
        ci: estimate.map(|(_, ci)| ci),
        parse_failure_rate: share(turns().filter(|turn| turn.failure.is_some()).count(), turns().count()),
        entropy: entropy(unbroken(traces)),
        n,
        tasks: by_task.len(),
        faults: traces.len() - played,
        first_fault: traces.iter().find_map(|trace| match &trace.outcome {
            Outcome::Fault { fault } => Some(fault.to_string()),
            _ => None,
        }),
        unscored: played - n,
        first_unscored: unbroken(traces).flat_map(|trace| &trace.rewards).find_map(|reward| {
            (reward.component == success && reward.value().is_none()).then(|| reward.why().to_owned())
        }),
        temperature: traces.first().map_or(0.0, |trace| trace.sampling.temperature),
        filters: traces.first().is_some_and(|trace| trace.sampling.truncates()),
        components: components(traces),
        calls: calls(traces),
    };
    let by_task = by_task.into_iter().map(|(task, values)| (task, values.iter().sum::<f64>() / values.len() as f64));
    Counted { evaluation, by_task: by_task.collect() }
}

fn components(traces: &[Trace]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for reward in traces.iter().flat_map(|trace| &trace.rewards) {
        if let Some(value) = reward.value() {
            let entry = sums.entry(reward.component.clone()).or_default();
            *entry = (entry.0 + value, entry.1 + 1);
        }
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count as f64)).collect()
}

/// Calls per episode of each tool. A name that refers to different tools in different episodes counts for none of them.
fn calls(traces: &[Trace]) -> BTreeMap<String, f64> {
    let mut tools: BTreeMap<&str, Option<&ToolSpec>> = BTreeMap::new();
    for tool in unbroken(traces).flat_map(|trace| trace.tools().iter()) {
        let known = tools.entry(&tool.name).or_insert(Some(tool));
        *known = known.filter(|known| *known == tool);
    }
    let same = |(name, tool): (&str, Option<&ToolSpec>)| tool.map(|_| (name.to_owned(), 0));
    let mut counts: BTreeMap<String, usize> = tools.into_iter().filter_map(same).collect();
    for trace in unbroken(traces) {
        // A name the policy made up is not a tool.
        for call in trace.turns.iter().flat_map(|turn| turn.calls.iter().take(turn.executed as usize)) {
            if let Some(count) = counts.get_mut(&call.name) {
                *count += 1;
            }
        }
    }
    let played = unbroken(traces).count();
    counts.into_iter().filter_map(|(name, count)| Some((name, share(count, played)?))).collect()
}

/// The episodes without a fault.
fn unbroken(traces: &[Trace]) -> impl Iterator<Item = &Trace> {
    traces.iter().filter(|trace| trace.outcome.is_scorable())
}

fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
