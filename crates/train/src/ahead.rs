//! Asynchronous rollouts: groups are sampled when a step asks for them, or ahead of it, while the previous step is
//! learned.
//!
//! Staleness bound: no group is started that could be trained more than `staleness` steps after the policy that started
//! it. At the start of a step at most (staleness + 1) steps' worth of groups are in flight, and they are trained in the
//! order they were drawn. An episode may span a weight update; every token records its policy version. Groups in flight
//! when a run was killed had trained nothing: their draws are in the checkpoint, and they are played again.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::join_all;
use hone_arena::rollout::{Rollouts, Slot};
use hone_trace::{Advantage, Group, Task, Trace, documented};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::ledger::{Metrics, names};
use crate::plan::{Draw, Plan, PlanRecipe, ZeroVariance};

/// Largest `async.staleness`.
const MOST_STALENESS: u16 = 1_000;

documented! {
    /// `[async]`
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct AsyncRecipe {
        /// Maximum staleness: steps that an episode's policy may be behind the one being trained. 0: every step
        /// samples, then learns, and on the CPU every run gives the same numbers.
        pub staleness: u64 where whole(0, MOST_STALENESS as i64),
        /// Threads reserved for the learner; the sampler gets the others. 0: they take turns on all of them.
        pub learner_threads: usize where whole(0, 4_096),
    }
}

/// The groups of one step.
#[derive(Debug, Default)]
pub struct SampledGroups {
    /// Groups to learn from, then excluded groups.
    pub groups: Vec<Group>,
    /// Number of groups to learn from.
    pub kept: usize,
    /// Reasons why the traces of each excluded group have no signal.
    pub left_out: Vec<Vec<Advantage>>,
    /// Number of sampling rounds.
    pub rounds: u32,
    /// Unfilled places.
    pub unfilled: usize,
}

impl SampledGroups {
    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.set(names::PLAN_LEFT_OUT_GROUPS, self.left_out.len() as f64);
        metrics.set(names::PLAN_ROUNDS, f64::from(self.rounds));
        metrics.set(names::PLAN_UNFILLED_GROUPS, self.unfilled as f64);
        metrics
    }
}

/// Plays groups.
#[derive(Debug)]
pub struct Source {
    rollouts: Rollouts,
    group_size: u32,
    /// Groups in flight, in the order they were drawn.
    queue: VecDeque<(Draw, JoinHandle<Group>)>,
    /// Permits for concurrent episodes.
    room: Arc<Semaphore>,
}

impl Source {
    pub fn new(rollouts: Rollouts, group_size: u32) -> Self {
        let room = Arc::new(Semaphore::new(rollouts.settings.concurrency.max(1)));
        Self { rollouts, group_size, queue: VecDeque::new(), room }
    }

    /// Draws in flight.
    pub fn ahead(&self) -> Vec<Draw> {
        self.queue.iter().map(|(draw, _)| *draw).collect()
    }

    /// Restarts groups that were in flight when the run was stopped.
    pub fn restart(&mut self, plan: &Plan<'_>, draws: &[Draw]) {
        for draw in draws {
            self.start(plan, *draw);
        }
    }

    /// Draws and starts groups until `count` are in flight.
    pub fn fill(&mut self, plan: &mut Plan<'_>, count: usize) {
        for draw in plan.draw(count.saturating_sub(self.queue.len())) {
            self.start(plan, draw);
        }
    }

    /// The `count` groups of a step. Groups for which `reasons` returns why none of their traces has signal are treated as
    /// the plan says.
    pub async fn gather(
        &mut self,
        plan: &mut Plan<'_>,
        recipe: &PlanRecipe,
        count: usize,
        success: &str,
        reasons: impl Fn(&Group) -> Option<Vec<Advantage>>,
    ) -> SampledGroups {
        let (mut groups, mut excluded, mut left_out, mut rounds) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let may_exclude = recipe.zero_variance != ZeroVariance::Keep;
        let most = if recipe.zero_variance == ZeroVariance::Replace { recipe.rounds } else { 0 };
        while groups.len() < count && rounds <= most {
            rounds += 1;
            for (draw, group) in self.take(plan, count - groups.len()).await {
                plan.observe(draw, &group, success);
                match may_exclude.then(|| reasons(&group)).flatten() {
                    None => groups.push(group),
                    Some(reasons) => {
                        left_out.push(reasons);
                        excluded.push(group);
                    }
                }
            }
        }
        let kept = groups.len();
        groups.append(&mut excluded);
        SampledGroups { groups, kept, left_out, rounds, unfilled: count - kept }
    }

    /// The next groups in the order they were drawn. Groups that are not in flight are started now: all of them, if
    /// nothing is sampled ahead.
    async fn take(&mut self, plan: &mut Plan<'_>, count: usize) -> Vec<(Draw, Group)> {
        self.fill(plan, count);
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count
            && let Some((draw, group)) = self.queue.pop_front()
        {
            match group.await {
                Ok(group) => taken.push((draw, group)),
                // Our own code panicked in there: the panic continues here, as it would without a task.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        taken
    }

    fn start(&mut self, plan: &Plan<'_>, draw: Draw) {
        let (task, seed) = (Arc::new(plan.task(draw).clone()), plan.seed(draw));
        let episodes: Vec<_> = (0..self.group_size)
            .map(|replica| {
                let seed = seed.at(u64::from(replica)).value();
                episode(self.rollouts.clone(), Arc::clone(&self.room), Arc::clone(&task), replica, seed)
            })
            .collect();
        let group = tokio::spawn(async move { Group::new(join_all(episodes).await) });
        self.queue.push_back((draw, group));
    }
}

async fn episode(rollouts: Rollouts, room: Arc<Semaphore>, task: Arc<Task>, replica: u32, seed: u64) -> Trace {
    // Never closed; if it were, playing immediately would be right.
    let _permit = room.acquire().await;
    rollouts.play(Slot { task: &task, replica, seed }).await
}

impl Drop for Source {
    fn drop(&mut self) {
        for (_, group) in &self.queue {
            group.abort();
        }
    }
}

/// Publication times of policy versions, from which a token's staleness is counted.
#[derive(Debug, Default)]
pub struct StalenessTracker {
    /// The policy's version after each of the last steps, and before the first.
    marks: VecDeque<u64>,
}

/// Steps whose marks are kept: no token is trained later than the largest bound allows.
const MARKS: usize = MOST_STALENESS as usize + 1;

impl StalenessTracker {
    pub fn mark(&mut self, version: u64) {
        self.marks.push_back(version);
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// Metrics of stale tokens, sampled by policies older than the current one.
    pub fn metrics(&self, groups: &[Group]) -> Metrics {
        let age = |version: u64| self.marks.iter().filter(|mark| **mark > version).count() as f64;
        let spans = groups.iter().flat_map(Group::traces).flat_map(Trace::sampled);
        let spans = spans.filter_map(|(_, node)| node.as_sampled()).flat_map(|sampled| &sampled.versions);
        let (mut tokens, mut stale, mut sum, mut most) = (0.0, 0.0, 0.0, 0.0f64);
        for (version, count) in spans {
            let (age, count) = (age(version.step), f64::from(*count));
            tokens += count;
            stale += if age > 0.0 { count } else { 0.0 };
            sum += age * count;
            most = most.max(age);
        }
        let mut metrics = Metrics::default();
        metrics.set(names::GENERATE_STALE_TOKENS, stale);
        metrics.set_some(names::ASYNC_STALENESS_MEAN, (tokens > 0.0).then(|| sum / tokens));
        metrics.set_some(names::ASYNC_STALENESS_MAX, (tokens > 0.0).then_some(most));
        metrics
    }
}
