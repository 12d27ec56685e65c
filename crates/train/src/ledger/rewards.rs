//! Rewards of the episodes: components, signal, and the sources of the advantages.

use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use hone_trace::{Advantage, Group, NoSignal, Trace};

use super::names::Name;
use super::{Metrics, Scheme, Spread, arguments, by_env, names, sampled_tokens};
use crate::penalty::KL;

/// The scored components of one trace.
pub(super) type Values = BTreeMap<String, f64>;

pub(super) fn values(trace: &Trace) -> Values {
    let scored = trace.rewards.iter().filter_map(|reward| Some((reward.component.clone(), reward.value()?)));
    scored.collect()
}

/// Mean and deviation of every component over the traces in which it was scored.
pub(super) fn component_spreads<'a>(earned: impl Iterator<Item = &'a Values>) -> BTreeMap<&'a str, Spread> {
    let mut spreads: BTreeMap<&str, Spread> = BTreeMap::new();
    for (name, value) in earned.flatten() {
        spreads.entry(name).or_default().add(*value);
    }
    spreads
}

/// Metrics of the reward components.
pub(super) fn components(groups: &[Group]) -> Metrics {
    let kept = || groups.iter().flat_map(Group::traces);
    let earned: Vec<Values> = kept().map(values).collect();
    let mut metrics = Metrics::default();
    for (name, spread) in component_spreads(earned.iter()) {
        metrics.set_some(names::BATCH_REWARD_COMPONENT.of([&name]), spread.mean());
        metrics.set_some(names::BATCH_REWARD_COMPONENT_STD.of([&name]), spread.std());
        metrics.set(names::BATCH_REWARD_COMPONENT_SCORED.of([&name]), spread.count);
    }
    let totals = || kept().filter_map(|trace| Some((trace, trace.reward(TOTAL)?)));
    let mean = |values: &mut dyn Iterator<Item = f64>| values.collect::<Spread>().mean();
    metrics.set_some(names::REWARD_AVG_RAW_REWARD, mean(&mut totals().map(|(_, total)| total)));
    metrics.set_some(names::REWARD_MEAN_POSITIVE_REWARD, mean(&mut totals().map(|(_, total)| total.max(0.0))));
    let tokens = |positive: bool| {
        let wanted = totals().filter(|(_, total)| (*total > 0.0) == positive);
        wanted.map(|(trace, _)| sampled_tokens(trace) as f64).collect::<Spread>().mean()
    };
    metrics.set_some(names::GENERATE_AVG_TOKENS_NON_ZERO_REWARDS, tokens(true));
    metrics.set_some(names::GENERATE_AVG_TOKENS_ZERO_REWARDS, tokens(false));
    metrics
}

/// Each component's share of the advantages' variance.
///
/// In a group, with x the component's weighted values and T the reward paid, both minus their means over the traces
/// with a total, a component's share is Σ xT / ΣT²: its covariance with T over T's variance. The shares of a plain
/// weighted sum add up to 1; the effects of gates, and of weights redistributed from unscored components, are the rest.
/// Groups are weighted by their squared advantages, so that a group without signal counts nothing. The tokens of an
/// argument credited by its own component belong to that component, in proportion to their number in the trace.
pub(super) fn shares(groups: &[Group], advantages: &[Vec<Advantage>], scheme: &Scheme) -> Metrics {
    let mut energy = 0.0;
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for (group, advantages) in groups.iter().zip(advantages) {
        for (component, push) in arguments::pushes(group, advantages, scheme) {
            energy += push;
            *shares.entry(component).or_default() += push;
        }
        let parts = parts(group, scheme);
        let paid = if scheme.normalised { sum(&parts) } else { centred(group, paid) };
        let (push, variance) = (total_push(group, advantages), paid.iter().map(|paid| paid * paid).sum::<f64>());
        if push <= 0.0 || variance <= 0.0 {
            continue;
        }
        energy += push;
        for (name, values) in parts {
            let products = values.iter().zip(&paid).map(|(value, paid)| value * paid);
            *shares.entry(name).or_default() += push * products.sum::<f64>() / variance;
        }
    }
    let mut metrics = Metrics::default();
    if energy <= 0.0 {
        return metrics;
    }
    let explained: f64 = shares.values().sum();
    for (name, share) in shares {
        metrics.set(names::BATCH_REWARD_COMPONENT_ADVANTAGE_SHARE.of([&name]), share / energy);
    }
    metrics.set(names::REWARD_ADVANTAGE_SHARE_REST, 1.0 - explained / energy);
    metrics
}

/// Metrics of the learning signal: groups with variance, successes, variances.
pub(super) fn signal(groups: &[Group], advantages: &[Vec<Advantage>], scheme: &Scheme) -> Metrics {
    let all: Vec<usize> = (0..groups.len()).collect();
    let n = groups.iter().map(|group| group.all().count()).max().unwrap_or(0);
    let mut metrics = signal_of(None, n, &all, groups, advantages, scheme);
    for (env, indices) in by_env(groups) {
        metrics.merge(signal_of(Some(env), n, &indices, groups, advantages, scheme));
    }
    let flat = |group: &&Vec<Advantage>| {
        group.iter().any(|advantage| matches!(advantage, Advantage::None { why: NoSignal::ZeroVariance }))
    };
    metrics.set(names::REWARD_NUM_ZERO_VARIANCE_FILTERED, advantages.iter().filter(flat).count() as f64);
    let values = || advantages.iter().flatten().flat_map(of_total);
    metrics.set_some(names::LOSS_AVG_RAW_ADVANTAGES, values().collect::<Spread>().mean());
    metrics.set_some(names::LOSS_AVG_RAW_ADVANTAGES_ABS, values().map(f64::abs).collect::<Spread>().mean());
    metrics
}

/// The names of one environment's signal, or of all groups'.
struct SignalNames {
    signal_ratio: Name,
    pass_at: Name,
    success_rate: Name,
    variance: Name,
}

impl SignalNames {
    fn of(env: Option<&str>, n: usize) -> Self {
        match env {
            None => Self {
                signal_ratio: names::REWARD_SIGNAL_RATIO.into(),
                pass_at: names::REWARD_AVG_PASS_AT_N.of([&n]),
                success_rate: names::REWARD_SUCCESS_RATE.into(),
                variance: names::REWARD_VARIANCE_PER_PROMPT.into(),
            },
            Some(env) => Self {
                signal_ratio: names::REWARD_ENV_SIGNAL_RATIO.of([&env]),
                pass_at: names::REWARD_ENV_PASS_AT_N.of([&env, &n]),
                success_rate: names::REWARD_ENV_SUCCESS_RATE.of([&env]),
                variance: names::REWARD_ENV_VARIANCE_PER_PROMPT.of([&env]),
            },
        }
    }
}

fn signal_of(
    env: Option<&str>,
    size: usize,
    indices: &[usize],
    groups: &[Group],
    advantages: &[Vec<Advantage>],
    scheme: &Scheme,
) -> Metrics {
    let named = SignalNames::of(env, size);
    let mut metrics = Metrics::default();
    let has_signal = |&&index: &&usize| advantages.get(index).is_some_and(|group| told_apart(group));
    metrics.ratio(named.signal_ratio, indices.iter().filter(has_signal).count(), indices.len());
    // A group that lost episodes, or whose episodes were not all scored, had fewer tries: it says nothing about n.
    let values = |index: usize| groups[index].traces().iter().filter_map(|trace| trace.reward(&scheme.success));
    let whole = |&&index: &&usize| values(index).count() == size;
    let solved = |&&index: &&usize| values(index).any(|value| value == 1.0);
    let tried = indices.iter().filter(whole).count();
    metrics.ratio(named.pass_at, indices.iter().filter(whole).filter(solved).count(), tried);
    let traces = || indices.iter().flat_map(|&index| groups[index].traces());
    let scored: Spread = traces().filter_map(|trace| trace.reward(&scheme.success)).collect();
    if scored.count > 0.0 {
        let good = traces().filter(|trace| trace.reward(&scheme.success) == Some(1.0)).count();
        metrics.set(named.success_rate, good as f64 / scored.count);
    }
    let variance = |&index: &usize| {
        let totals: Spread = groups[index].traces().iter().filter_map(|trace| trace.reward(TOTAL)).collect();
        (totals.count >= 2.0).then(|| totals.std().map(|std| std * std)).flatten()
    };
    let variances: Spread = indices.iter().filter_map(variance).collect();
    metrics.set_some(named.variance, variances.mean());
    if let Some(env) = env {
        let positive = traces().filter_map(|trace| trace.reward(TOTAL)).map(|total| total.max(0.0));
        let mean = positive.collect::<Spread>().mean();
        metrics.set_some(names::REWARD_ENV_MEAN_POSITIVE_REWARD.of([&env]), mean);
    }
    metrics
}

/// Reward paid to a trace: the total minus its KL penalty.
fn paid(trace: &Trace) -> Option<f64> {
    Some(trace.reward(TOTAL)? + trace.reward(KL).unwrap_or(0.0))
}

/// The weighted components of a group's traces, less their means; if credit normalises them separately, divided by
/// their deviations.
fn parts<'a>(group: &Group, scheme: &'a Scheme) -> Vec<(&'a str, Vec<f64>)> {
    let rubric = scheme.weights.iter().map(|(name, weight)| (name.as_str(), *weight));
    let weights = rubric.filter(|(_, weight)| *weight > 0.0).chain([(KL, 1.0)]);
    let part = |(name, weight): (&'a str, f64)| {
        let value = |trace: &Trace| trace.reward(TOTAL).and(trace.reward(name));
        group.traces().iter().find_map(value)?;
        let values = centred(group, value);
        let spread: Spread = group.traces().iter().filter_map(value).collect();
        let divisor = if scheme.normalised { spread.sample_std().unwrap_or(0.0) + 1e-4 } else { 1.0 };
        Some((name, values.into_iter().map(|value| weight * value / divisor).collect()))
    };
    weights.filter_map(part).collect()
}

/// The parts of every trace, added up.
fn sum(parts: &[(&str, Vec<f64>)]) -> Vec<f64> {
    let traces = parts.first().map_or(0, |(_, values)| values.len());
    (0..traces).map(|trace| parts.iter().map(|(_, values)| values[trace]).sum()).collect()
}

/// Values minus their mean. A trace without a value is at the mean: it carries no signal.
fn centred(group: &Group, value: impl Fn(&Trace) -> Option<f64>) -> Vec<f64> {
    let values: Vec<Option<f64>> = group.traces().iter().map(value).collect();
    let mean = values.iter().flatten().copied().collect::<Spread>().mean().unwrap_or(0.0);
    values.into_iter().map(|value| value.map_or(0.0, |value| value - mean)).collect()
}

/// Weight of the total in a group: its squared advantages, scaled by the share of tokens not covered by argument spans.
fn total_push(group: &Group, advantages: &[Advantage]) -> f64 {
    let of_trace = |(trace, advantage): (&Trace, &Advantage)| {
        let square: f64 = of_total(advantage).iter().map(|value| value * value).sum();
        let spans: f64 = arguments::spans(advantage).iter().map(|span| arguments::share(trace, span)).sum();
        square * (1.0 - spans)
    };
    group.traces().iter().zip(advantages).map(of_trace).sum()
}

/// True if the total has variance within the group.
fn told_apart(advantages: &[Advantage]) -> bool {
    advantages.iter().flat_map(of_total).any(|value| value != 0.0)
}

/// The values an advantage owes to the total, excluding those of arguments.
fn of_total(advantage: &Advantage) -> Vec<f64> {
    match advantage {
        Advantage::Spans { value, .. } => vec![*value],
        other => other.values(),
    }
}
