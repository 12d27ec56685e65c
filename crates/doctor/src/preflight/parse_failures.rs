use std::collections::BTreeMap;

use hone_chat::parse::Format;
use hone_trace::rundir::RunDirError;
use hone_trace::{ParseFailure, ParseFailureKind};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::{Probe, Reply};

pub(super) const CHECK: Check<Probe> = Check {
    name: "parse_failures",
    what: "The start policy's replies cannot be read, so that the tools never run.",
    measure: "Replies of the start policy that are neither a valid call nor a plain reply, by kind, each read again \
              in every format. Warning from 15 %, error from 50 %.",
    fix: "Start from a policy that knows the tools' format: a short warm start with `hone sft`.",
    explains: &[
        "no_calls",
        "calls_not_run",
        "no_signal",
        "truncated",
        "constant_component",
        "unscored",
        "identical_rollouts",
    ],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    if played.turns == 0 {
        return Looked::skipped("a reply of the start policy");
    }
    let failed: Vec<_> = played.replies.iter().filter_map(|reply| Some((reply, reply.failure.as_ref()?))).collect();
    // A reply that was cut off is the window's fault or the limit's.
    let failed: Vec<_> =
        failed.into_iter().filter(|(_, failure)| failure.kind != ParseFailureKind::Truncated).collect();
    let rate = failed.len() as f64 / played.turns as f64;
    if rate < 0.15 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.5 { Severity::Warning } else { Severity::Error };
    let mut kinds: BTreeMap<&str, (usize, &Reply, &ParseFailure)> = BTreeMap::new();
    for (reply, failure) in &failed {
        kinds.entry(failure.kind.name()).or_insert((0, reply, failure)).0 += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let says = format!("{} replies of the start policy cannot be read", share(failed.len(), played.turns));
    let mut finding = Finding::new(severity, says).traces(kinds.iter().map(|(_, (_, reply, _))| reply.trace));
    for (kind, (count, reply, failure)) in kinds.iter().take(3) {
        let text: String = reply.text.chars().take(120).collect();
        finding = finding.line(format!("{kind}: {count} of them, e.g. {text:?}: {}", failure.message));
    }
    let own = probe.texts.known().and_then(|texts| texts.template_format);
    match likeliest(failed.iter().map(|(reply, _)| *reply), own) {
        Some((format, count)) if 2 * count >= failed.len() => finding
            .line(format!("{} of them are valid calls in the format {}", share(count, failed.len()), format.name()))
            .fix(format!("Set rollout.format = {:?}.", format.name()))
            .into(),
        _ => finding.likely().into(),
    }
}

/// The format in which most of the replies are valid calls; of equals the template's own, then the first by name.
pub(super) fn likeliest<'a>(replies: impl Iterator<Item = &'a Reply>, own: Option<Format>) -> Option<(Format, usize)> {
    let mut counts: BTreeMap<&str, (Format, usize)> = BTreeMap::new();
    for format in replies.flat_map(|reply| &reply.formats) {
        counts.entry(format.name()).or_insert((*format, 0)).1 += 1;
    }
    counts.into_values().rev().max_by_key(|(format, count)| (*count, Some(*format) == own))
}
