//! Questions about the records themselves.

use std::collections::BTreeSet;
use std::ops::Range;

use hone_trace::rundir::RunDirError;
use hone_trace::{Content, Message, Trace};
use hone_train::evaluate::Kind;
use hone_train::events::Event;
use hone_train::report::RunReport;

use super::{Episodes, Run};

impl Run {
    /// Steps and the numbers of their traces, the first few and the last few.
    pub(crate) fn probed_steps(&self) -> Vec<(u64, Range<u64>)> {
        let steps = self.all_steps();
        let tail = steps.len().saturating_sub(super::PROBED_STEPS).max(super::PROBED_STEPS.min(steps.len()));
        steps.iter().take(super::PROBED_STEPS).chain(&steps[tail..]).cloned().collect()
    }

    /// Every step and the numbers of its traces.
    pub(crate) fn all_steps(&self) -> Vec<(u64, Range<u64>)> {
        let steps = self.events.iter().filter_map(|event| match event {
            Event::Step { step, traces: [from, to] } => Some((*step, *from..*to)),
            _ => None,
        });
        steps.collect()
    }

    /// Recorded report, as far as it is readable.
    pub(crate) fn saved_report(&self) -> Option<RunReport> {
        serde_json::from_slice(&std::fs::read(self.directory.join("report.json")).ok()?).ok()
    }

    /// The episodes of one step.
    pub(crate) fn step_episodes(&self, range: &Range<u64>) -> Result<Episodes, RunDirError> {
        if let Some(probed) = self.probed.get() {
            let own: Episodes = probed.iter().filter(|(number, _)| range.contains(number)).cloned().collect();
            if own.len() as u64 == range.end - range.start {
                return Ok(own);
            }
        }
        self.episodes(range)
    }

    /// Episodes of the first and of the last evaluation of a kind. `None` where there are not two.
    pub(crate) fn evaluation_ends(&self, kind: Kind) -> Result<Option<(Episodes, Episodes)>, RunDirError> {
        let ranges = self.ranges(|event| match event {
            Event::Eval { kind: other, traces, .. } if *other == kind => Some(*traces),
            _ => None,
        });
        match (ranges.first(), ranges.last()) {
            (Some(first), Some(last)) if first != last => Ok(Some((self.episodes(first)?, self.episodes(last)?))),
            _ => Ok(None),
        }
    }
}

/// Digests of the weights that sampled these episodes.
pub(crate) fn weights(episodes: &[(u64, Trace)]) -> BTreeSet<String> {
    let nodes = episodes.iter().flat_map(|(_, trace)| trace.nodes()).filter_map(|node| node.as_sampled());
    nodes.flat_map(|sampled| &sampled.versions).map(|(version, _)| version.weights.short()).collect()
}

/// The conversation as text, where the record has it.
pub(crate) fn messages(trace: &Trace) -> Option<Vec<Message>> {
    serde_json::from_value(trace.facts.get("messages")?.clone()).ok()
}

/// The text of a message.
pub(crate) fn text(message: &Message) -> String {
    message.content().map(Content::text).unwrap_or_default()
}
