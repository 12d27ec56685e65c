//! What a run tells those who watch it.

use hone_trace::Group;

use crate::evaluate::Measured;
use crate::faults::Broke;
use crate::ledger::Ledger;

/// What a run is told about as it goes.
pub trait Watch {
    /// Once, before anything else, when a run goes on: the steps that are done.
    fn resumed(&mut self, _steps: &[Ledger]) {}
    /// What the run turns to: "sampling", "learning", "evaluating".
    fn doing(&mut self, _step: u64, _what: &'static str) {}
    /// The step's episodes, before the step learns from them.
    fn sampled(&mut self, _step: u64, _groups: &[Group]) {}
    /// Episodes of the step broke.
    fn broke(&mut self, _step: u64, _broke: &Broke) {}
    fn evaluated(&mut self, _step: u64, _measured: &Measured) {}
    fn stepped(&mut self, _ledger: &Ledger) {}
    /// Asked before every step: whether the run ends here, with everything recorded and a checkpoint to go on from.
    fn stop(&self) -> bool {
        false
    }
}
