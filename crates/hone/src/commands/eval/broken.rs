//! Episodes of an evaluation that broke.

use hone_trace::{Fault, Outcome, Trace};

/// Number of broken episodes, and the reason of the first.
#[derive(Debug, Default)]
pub(super) struct Broken {
    played: usize,
    faults: usize,
    first: Option<Fault>,
}

impl Broken {
    pub(super) fn count(&mut self, traces: &[Trace]) {
        self.played += traces.len();
        for trace in traces {
            if let Outcome::Fault { fault } = &trace.outcome {
                self.faults += 1;
                self.first.get_or_insert_with(|| fault.clone());
            }
        }
    }

    /// The error if all episodes broke: nothing was measured.
    pub(super) fn all(&self) -> Option<anyhow::Error> {
        let first = self.first.as_ref().filter(|_| self.faults == self.played)?;
        let what = format!("nothing was measured: all {} episodes broke", self.played);
        Some(crate::problem::advised(first.clone()).context(what))
    }

    /// Reports why episodes broke.
    pub(super) fn say(&self) {
        if let Some(first) = &self.first {
            let Self { played, faults, .. } = self;
            crate::output::note!("{faults} of {played} episodes broke and are not counted; the first: {first}");
        }
    }
}
