//! Lessons: the training outcome of every sampled token of a step, kept for the record.

use std::collections::BTreeMap;

use hone_trace::{Advantage, Batch, Fate, Group, LearnStats, Lesson, TokenColumns, Trace};

use crate::loss::StepObjective;
use crate::pack::Sequence;

/// Lessons of the traces that were learned from, by group and place in it.
#[derive(Debug, Clone, Default)]
pub struct Lessons(BTreeMap<(usize, usize), Shown>);

#[derive(Debug, Clone, Default)]
struct Shown {
    logprobs: Vec<f32>,
    entropies: Vec<f32>,
    fates: Vec<Fate>,
}

impl Lessons {
    /// Records the outcome of a batch. `sequences` are those of the whole optimizer step from this batch on; returns
    /// how many of them the batch holds.
    pub(crate) fn add<'a>(
        &mut self,
        sequences: impl Iterator<Item = &'a Sequence>,
        batch: &Batch,
        stats: &LearnStats,
        loss: &StepObjective<'_>,
    ) -> usize {
        let columns = TokenColumns::new(batch, &stats.logprobs, stats.entropies.as_deref(), None);
        let fates = loss.fates(&columns.view());
        for (sequence, range) in sequences.zip(&batch.sequences) {
            let fates = fates.get(range.clone()).unwrap_or_default();
            let shown = self.0.entry((sequence.group, sequence.trace)).or_default();
            if shown.fates.is_empty() {
                let entropies = stats.entropies.as_deref().and_then(|all| all.get(range.clone())).unwrap_or_default();
                shown.logprobs = stats.logprobs.get(range.clone()).unwrap_or_default().to_vec();
                shown.entropies = entropies.iter().map(|entropy| (entropy * 1e4).round() / 1e4).collect();
                shown.fates = fates.to_vec();
            } else {
                shown.fates.iter_mut().zip(fates).for_each(|(kept, new)| *kept = (*kept).max(*new));
            }
        }
        batch.sequences.len()
    }

    /// The optimizer step on these sequences was not taken.
    pub(crate) fn skip<'a>(&mut self, sequences: impl Iterator<Item = &'a Sequence>) {
        for sequence in sequences {
            if let Some(shown) = self.0.get_mut(&(sequence.group, sequence.trace)) {
                shown.fates.iter_mut().filter(|fate| **fate != Fate::Zero).for_each(|fate| *fate = Fate::Skipped);
            }
        }
    }

    /// Every trace of the step as recorded; unbroken ones with their lessons.
    pub(crate) fn recorded(&self, groups: &[Group], advantages: &[Vec<Advantage>], taken_back: bool) -> Vec<Trace> {
        let mut traces = Vec::new();
        for (index, (group, advantages)) in groups.iter().zip(advantages).enumerate() {
            for (place, (trace, advantage)) in group.traces().iter().zip(advantages).enumerate() {
                let shown = self.0.get(&(index, place));
                let fate = |fate: &Fate| if taken_back && *fate != Fate::Zero { Fate::Skipped } else { *fate }.letter();
                let lesson = Lesson {
                    advantage: advantage.clone(),
                    logprobs: shown.map(|shown| shown.logprobs.clone()).unwrap_or_default(),
                    entropies: shown.map(|shown| shown.entropies.clone()).unwrap_or_default(),
                    fates: shown.map(|shown| shown.fates.iter().map(fate).collect()).unwrap_or_default(),
                };
                let mut trace = trace.clone();
                trace.lesson = Some(lesson);
                traces.push(trace);
            }
            traces.extend(group.faulted().iter().cloned());
        }
        traces
    }
}
