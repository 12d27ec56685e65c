//! Observers of a run.

use hone_trace::Group;

use crate::evaluate::Measured;
use crate::events::Event;
use crate::faults::Broke;
use crate::ledger::Ledger;

/// An observer of a run, told of events as they happen.
pub trait Watch {
    /// Once, before anything else, when a run is resumed: the steps that are done.
    fn resumed(&mut self, _steps: &[Ledger]) {}
    /// Once, when a run is resumed: the evaluation it began with.
    fn started(&mut self, _before: &Measured) {}
    /// Something that whoever watches should know at once, in words.
    fn warned(&mut self, _step: u64, _what: &str) {}
    /// The present activity: "sampling", "learning", "evaluating".
    fn doing(&mut self, _step: u64, _what: &'static str) {}
    /// The step's episodes, before the step learns from them.
    fn sampled(&mut self, _step: u64, _groups: &[Group]) {}
    /// Episodes of the step broke.
    fn broke(&mut self, _step: u64, _broke: &Broke) {}
    fn evaluated(&mut self, _step: u64, _measured: &Measured) {}
    fn stepped(&mut self, _ledger: &Ledger) {}
    /// Asked after every step, and once before the first: what else the run should record. Whoever watches may know more
    /// than the run.
    fn notices(&mut self, _ledger: Option<&Ledger>) -> Vec<Event> {
        Vec::new()
    }
    /// Asked before every step: whether the run ends here, with everything recorded and a checkpoint to go on from.
    fn stop(&self) -> bool {
        false
    }
}
