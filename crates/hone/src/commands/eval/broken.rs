//! Episodes of an evaluation that broke.

use hone_trace::{Outcome, Trace};

/// Number of episodes that broke, and the first one's reason.
#[derive(Debug, Default)]
pub(super) struct Broken {
    played: usize,
    broken: usize,
    first: Option<String>,
}

impl Broken {
    pub(super) fn count(&mut self, traces: &[Trace]) {
        self.played += traces.len();
        for trace in traces {
            if let Outcome::Fault { fault } = &trace.outcome {
                self.broken += 1;
                self.first.get_or_insert_with(|| fault.to_string());
            }
        }
    }

    /// Says why episodes broke. True where all of them did: nothing was measured.
    pub(super) fn say(&self) -> bool {
        if let Some(first) = &self.first {
            let Self { played, broken, .. } = self;
            crate::output::note!("{broken} of {played} episodes broke and are not counted; the first: {first}");
        }
        self.played > 0 && self.broken == self.played
    }
}
