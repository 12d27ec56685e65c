//! Observers of a run.

use std::fmt;

use hone_trace::Group;

use crate::evaluate::Measured;
use crate::events::Event;
use crate::faults::Broke;
use crate::ledger::Ledger;

/// Warning of a run, by its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Sudden drop in success, found by the guard.
    Guard(String),
    /// Checkpoint whose files could not be verified.
    Checkpoint(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(what) => write!(f, "guard: {what}"),
            Self::Checkpoint(what) => write!(f, "checkpoint: {what}"),
        }
    }
}

/// An observer of a run, told of events as they happen.
pub trait Watch {
    /// Called once, before anything else, when a run is resumed: the completed steps.
    fn resumed(&mut self, _steps: &[Ledger]) {}
    /// Called once when a run is resumed: the initial evaluation.
    fn started(&mut self, _before: &Measured) {}
    /// Warning to show immediately.
    fn warned(&mut self, _step: u64, _warning: &Warning) {}
    /// The current activity: "sampling", "learning", "evaluating".
    fn doing(&mut self, _step: u64, _what: &'static str) {}
    /// The step's episodes, before the step learns from them.
    fn sampled(&mut self, _step: u64, _groups: &[Group]) {}
    /// Episodes of the step broke.
    fn broke(&mut self, _step: u64, _broke: &Broke) {}
    fn evaluated(&mut self, _step: u64, _measured: &Measured) {}
    fn stepped(&mut self, _ledger: &Ledger) {}
    /// Called after every step, and once before the first: further events to record. A watcher may know more than the
    /// run.
    fn notices(&mut self, _ledger: Option<&Ledger>) -> Vec<Event> {
        Vec::new()
    }
    /// Called before every step: `true` ends the run here, with everything recorded and a checkpoint to resume from.
    fn stop(&self) -> bool {
        false
    }
}
