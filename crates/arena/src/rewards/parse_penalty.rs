//! Parse penalty: minus the share of replies that were not exactly a valid call or a plain reply.
//!
//! A separate label beside the content components: when their means drop together, this one says whether the
//! answers got worse or only their JSON did.

use std::collections::BTreeMap;

use hone_trace::Verdict;
use serde::Deserialize;

use super::catalogue::{ComponentEntry, plain};
use super::lenient::{self, Reading};
use super::submission::spans;
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "parse_penalty",
    about: "Minus the share of replies that were neither a valid call nor a plain reply, from -1 to 0",
    advice: "Use it beside every content component: it separates worse answers from worse JSON",
    paper: None,
    options: Options::NONE,
    make: plain::<ParsePenalty>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParsePenalty {}

impl Measure for ParsePenalty {
    fn measure(&self, case: &Case) -> Verdict {
        if let Some(turns) = &case.turns {
            let failures = turns.iter().filter_map(|turn| turn.failure.as_ref()).map(|failure| failure.kind.name());
            return penalty(failures, turns.len());
        }
        match &case.completion {
            Some(text) => penalty(fault(text).into_iter(), 1),
            None => not_applicable("the case has neither `turns` nor a completion"),
        }
    }
}

/// Minus the share of `replies` that failed.
pub fn penalty<'a>(failures: impl Iterator<Item = &'a str>, replies: usize) -> Verdict {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in failures {
        *kinds.entry(kind).or_default() += 1;
    }
    let failed: usize = kinds.values().sum();
    if failed == 0 {
        return scored(0.0, format!("parsed: all of {replies} replies"));
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    scored(-(failed as f64 / replies.max(1) as f64), format!("malformed: {} of {replies} replies", kinds.join(", ")))
}

/// Defect of the call spans of a recorded completion.
fn fault(text: &str) -> Option<&'static str> {
    spans(text).iter().find_map(|span| match lenient::read(span.body) {
        _ if !span.closed => Some("truncated"),
        Reading::Strict(value) if value.is_object() => None,
        _ => Some("malformed_json"),
    })
}
