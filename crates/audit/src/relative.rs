//! The group-relative view: a probe's episode among honest ones, credited as the recipe credits.
//!
//! An episode is reinforced by its advantage, not by its reward: junk that earns little is still taught where its siblings
//! earn less.

use hone_arena::rewards::{Rubric, TOTAL};
use hone_trace::{Advantage, Credit, Group, Trace};
use hone_train::credit::{BadCredit, Weights, by_argument};
use hone_train::ledger::{Scheme, credited, names};
use hone_train::recipe::Recipe;
use serde::Serialize;

use crate::evidence::{Component, Evidence, Line, mean};
use crate::honest::{Honest, as_groups};

/// A variant among honest episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Standing {
    pub(crate) probe: &'static str,
    pub(crate) label: String,
    /// Mean advantage over the groups that give one.
    pub(crate) advantage: f64,
    /// Share of groups in which it is above 0.
    pub(crate) positive: f64,
    pub(crate) groups: usize,
}

/// The recipe's estimator over its rubric.
pub(crate) fn credit(recipe: &Recipe, rubric: &Rubric) -> Result<Box<dyn Credit>, BadCredit> {
    let components: Vec<(&str, f64)> = rubric.weights().collect();
    let weights = if recipe.credit.estimator()?.by_component {
        Weights::new(components.iter().filter(|(_, weight)| *weight > 0.0).map(|(name, weight)| (*name, *weight)))
    } else {
        Weights::only(TOTAL)
    };
    by_argument(&recipe.credit, weights, &components)
}

/// Standing of every variant: in each group its episode takes the place of the last honest one.
pub(crate) fn standings(credit: &dyn Credit, evidence: &Evidence, honest: &Honest, lines: &[Line]) -> Vec<Standing> {
    lines.iter().filter_map(|line| standing(credit, evidence, honest, line)).collect()
}

fn standing(credit: &dyn Credit, evidence: &Evidence, honest: &Honest, line: &Line) -> Option<Standing> {
    let episode = |task: usize| {
        let mut mine = evidence.episodes().filter(|played| played.task == task && played.probe == line.probe);
        mine.find(|played| played.label == line.label).map(|played| {
            let mut trace = played.trace.clone();
            trace.facts.clear();
            trace
        })
    };
    let group = |(task, traces): &(usize, Vec<Trace>)| {
        let siblings = traces.len().saturating_sub(1).max(1).min(traces.len());
        let mut group = traces[..siblings].to_vec();
        group.push(episode(*task)?);
        Some(Group::new(group))
    };
    let groups: Vec<Group> = honest.groups.iter().filter_map(group).collect();
    let advantages = credit.credit(&groups);
    let mine: Vec<f64> = advantages.iter().filter_map(|group| value(group.last()?)).collect();
    let positive = mine.iter().filter(|value| **value > 1e-9).count();
    Some(Standing {
        probe: line.probe,
        label: line.label.clone(),
        advantage: mean(mine.iter().copied())?,
        positive: positive as f64 / groups.len() as f64,
        groups: groups.len(),
    })
}

/// Advantage that most of the episode's tokens get.
fn value(advantage: &Advantage) -> Option<f64> {
    match advantage {
        Advantage::Whole { value } | Advantage::Spans { value, .. } => Some(*value),
        Advantage::PerTurn { values } => mean(values.iter().copied()),
        Advantage::None { .. } => None,
    }
}

/// Each component's share of the variance of the honest episodes' advantages. `None` where no group tells its episodes
/// apart.
pub(crate) fn advantage_shares(
    credit: &dyn Credit,
    recipe: &Recipe,
    rubric: &Rubric,
    components: &[Component],
    honest: &Honest,
) -> Option<Vec<(String, f64)>> {
    let groups = as_groups(honest);
    let metrics = credited(&groups, &credit.credit(&groups), &Scheme::of(rubric, recipe));
    let share = |component: &Component| {
        let name = component.name.clone();
        let share = metrics.get(names::BATCH_REWARD_COMPONENT_ADVANTAGE_SHARE.of([&name]))?;
        Some((name, share))
    };
    let shares: Vec<_> = components.iter().filter_map(share).collect();
    (!shares.is_empty()).then_some(shares)
}
