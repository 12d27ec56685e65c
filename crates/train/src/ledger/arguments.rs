//! Arguments with their own reward component: their share of the advantages, and of the groups with signal.

use hone_trace::{Advantage, Group, Span, Trace};

use super::{Metrics, Scheme, names, sampled_tokens};

/// Metrics of the arguments with their own reward component.
pub(super) fn arguments(groups: &[Group], advantages: &[Vec<Advantage>], scheme: &Scheme) -> Metrics {
    let mut metrics = Metrics::default();
    for (argument, component) in &scheme.arguments {
        let scored = || groups.iter().flat_map(Group::traces).filter(|trace| trace.reward(component).is_some());
        let found = scored().filter(|trace| trace.argument(argument).is_some()).count();
        metrics.ratio(names::BATCH_REWARD_COMPONENT_ARGUMENT_FOUND.of([component]), found, scored().count());
        let paid = groups.iter().zip(advantages).filter(|(group, advantages)| {
            let traces = group.traces().iter().zip(*advantages);
            traces.filter_map(|(trace, advantage)| span(trace, advantage, argument)).any(|span| span.value != 0.0)
        });
        metrics.ratio(names::BATCH_REWARD_COMPONENT_SIGNAL_RATIO.of([component]), paid.count(), groups.len());
    }
    metrics
}

/// Push of each component that pays an argument: squared advantages, by the tokens' share of the trace.
pub(super) fn pushes<'a>(group: &Group, advantages: &[Advantage], scheme: &'a Scheme) -> Vec<(&'a str, f64)> {
    let push = |argument: &str| {
        let traces = group.traces().iter().zip(advantages);
        let spans = traces.filter_map(|(trace, advantage)| Some((trace, span(trace, advantage, argument)?)));
        spans.map(|(trace, span)| span.value * span.value * share(trace, span)).sum::<f64>()
    };
    scheme.arguments.iter().map(|(argument, component)| (component.as_str(), push(argument))).collect()
}

pub(super) fn spans(advantage: &Advantage) -> &[Span] {
    match advantage {
        Advantage::Spans { spans, .. } => spans,
        _ => &[],
    }
}

/// The share of a trace's sampled tokens that is in a span.
pub(super) fn share(trace: &Trace, span: &Span) -> f64 {
    (span.end.saturating_sub(span.start)) as f64 / sampled_tokens(trace).max(1) as f64
}

/// The advantage of an argument's tokens.
fn span<'a>(trace: &Trace, advantage: &'a Advantage, argument: &str) -> Option<&'a Span> {
    let spans = Some(spans(advantage)).filter(|spans| !spans.is_empty())?;
    let place = trace.argument(argument)?;
    spans.iter().find(|span| (span.start, span.end) == (place.start, place.end))
}
