//! Honest work: the episodes that junk is compared with. The policy's own, a recorded run's, or scripted baselines'.

use std::collections::BTreeMap;
use std::sync::Arc;

use hone_arena::baseline::{self, Baseline};
use hone_arena::rewards::{Rubric, TOTAL};
use hone_arena::rollout::Rollouts;
use hone_trace::{
    EndState, Group, Outcome, Sampler, SamplingParams, Seed, Task, ToolSet, Trace, TraceBuilder, TraceHead,
};
use serde::Serialize;

use crate::evidence::mean;

/// Origin of the episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Policy,
    Run,
    Baselines,
}

/// Groups of honest episodes.
#[derive(Debug)]
pub(crate) struct Honest {
    pub(crate) source: Source,
    /// Player, in words.
    pub(crate) who: String,
    /// By task, as the audit numbers them.
    pub(crate) groups: Vec<(usize, Vec<Trace>)>,
    /// Mean total; of baselines, the best one's.
    pub(crate) total: Option<f64>,
    /// Share of episodes with full success; of baselines, the best one's.
    pub(crate) success: Option<f64>,
    /// Players tried first, and why they were unsuitable.
    pub(crate) note: Option<String>,
}

impl Honest {
    fn new(source: Source, who: String, groups: Vec<(usize, Vec<Trace>)>, success: &str) -> Self {
        let traces = || groups.iter().flat_map(|(_, traces)| traces);
        let total = mean(traces().filter_map(|trace| trace.reward(TOTAL)));
        let solved = |trace: &Trace| Some(f64::from(u8::from(trace.reward(success)? == 1.0)));
        let success = mean(traces().filter_map(solved));
        Self { source, who, total, success, note: None, groups }
    }
}

/// Samples the policy.
pub(crate) async fn policy(
    rollouts: &Rollouts,
    sampler: Arc<dyn Sampler>,
    tasks: &[&Task],
    size: u32,
    seed: Seed,
    success: &str,
) -> Honest {
    let groups = rollouts.with_sampler(sampler).groups(tasks, size, seed.with("policy")).await;
    let groups = groups.into_iter().enumerate().map(|(task, group)| (task, slim(group.traces().to_vec()))).collect();
    let who = format!("the policy's own episodes, {size} of each task");
    Honest::new(Source::Policy, who, groups, success)
}

/// The episodes of a recorded run, scored by this rubric.
pub(crate) async fn recorded(rubric: &Rubric, tasks: &[&Task], traces: Vec<Trace>, success: &str) -> Honest {
    let mut groups: BTreeMap<usize, Vec<Trace>> = BTreeMap::new();
    for mut trace in traces {
        let Some(task) = tasks.iter().position(|task| task.key == trace.task) else { continue };
        if matches!(trace.outcome, Outcome::Fault { .. }) {
            continue;
        }
        let end = EndState { facts: trace.facts.clone() };
        let card = rubric.score(&trace, &end).await;
        trace.rewards = card.components;
        trace.rewards.push(card.total);
        groups.entry(task).or_default().push(trace);
    }
    let groups = groups.into_iter().map(|(task, traces)| (task, slim(traces))).collect();
    Honest::new(Source::Run, "the episodes of the recorded run, scored by this rubric".into(), groups, success)
}

/// Plays the scripted baselines, where no policy can be asked.
pub(crate) async fn baselines(
    rollouts: &Rollouts,
    own: &BTreeMap<String, Vec<Arc<dyn Baseline>>>,
    tasks: &[&Task],
    seed: Seed,
    success: &str,
) -> Honest {
    let mut groups: Vec<(usize, Vec<Trace>)> = Vec::new();
    let mut earned: BTreeMap<String, Vec<(f64, Option<f64>)>> = BTreeMap::new();
    for (number, task) in tasks.iter().enumerate() {
        let mut traces = Vec::new();
        for baseline in baseline::everywhere().iter().chain(own.get(&task.env).into_iter().flatten()) {
            let seed = seed.with(baseline.name()).with(&task.key);
            let turns = rollouts.settings.max_turns;
            let played = baseline::play(&*rollouts.arena, &rollouts.rubric, task, &**baseline, turns, seed).await;
            // An episode that breaks is neither better nor worse than another: it is left out.
            let Ok(rewards) = played else { continue };
            let mut trace = blank(task);
            trace.rewards = rewards;
            if let Some(total) = trace.reward(TOTAL) {
                earned.entry(baseline.name().to_owned()).or_default().push((total, trace.reward(success)));
            }
            traces.push(trace);
        }
        groups.push((number, traces));
    }
    let best = earned.iter().filter_map(|(name, earned)| {
        let solved = earned.iter().filter_map(|(_, value)| Some(f64::from(u8::from((*value)? == 1.0))));
        Some((mean(earned.iter().map(|(total, _)| *total))?, mean(solved), name.clone()))
    });
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0));
    let mut honest = Honest::new(Source::Baselines, String::new(), groups, success);
    let (total, solved, name) =
        best.map_or((None, None, String::new()), |(total, solved, name)| (Some(total), solved, name));
    honest.who = format!("scripted baselines, the best of which {name}");
    (honest.total, honest.success) = (total, solved);
    honest
}

/// Without facts: credit reads rewards and tokens.
fn slim(mut traces: Vec<Trace>) -> Vec<Trace> {
    for trace in &mut traces {
        trace.facts.clear();
    }
    traces
}

/// Trace of an episode that no model sampled, to hold rewards.
fn blank(task: &Task) -> Trace {
    let head = TraceHead {
        task: task.key.clone(),
        env: task.env.clone(),
        replica: 0,
        seed: 0,
        tools: Arc::new(ToolSet::none()),
        sampling: SamplingParams::default(),
    };
    TraceBuilder::new(head, Vec::new()).finish(Outcome::Finished)
}

/// The groups as credit takes them.
pub(crate) fn as_groups(honest: &Honest) -> Vec<Group> {
    honest.groups.iter().map(|(_, traces)| Group::new(traces.clone())).collect()
}
