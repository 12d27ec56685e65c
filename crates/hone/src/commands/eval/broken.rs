//! Episodes of an evaluation that broke.

use hone_trace::{Outcome, Trace};

/// Number of broken episodes, and the reason of the first.
#[derive(Debug, Default)]
pub(super) struct Broken {
    played: usize,
    faults: usize,
    first: Option<String>,
}

impl Broken {
    pub(super) fn count(&mut self, traces: &[Trace]) {
        self.played += traces.len();
        for trace in traces {
            if let Outcome::Fault { fault } = &trace.outcome {
                self.faults += 1;
                self.first.get_or_insert_with(|| fault.to_string());
            }
        }
    }

    /// Reports why episodes broke. True if all of them did: nothing was measured.
    pub(super) fn say(&self) -> bool {
        if let Some(first) = &self.first {
            let Self { played, faults, .. } = self;
            crate::output::note!("{faults} of {played} episodes broke and are not counted; the first: {first}");
        }
        self.played > 0 && self.faults == self.played
    }
}
