//! The doctor: names the faults of a run, with the arithmetic, the traces that show it, and the fix.
//!
//! A check is data and one pure function over a run's records ([`Check`]). It reads tokens, traces and evaluations, not
//! curves alone. All checks are in one list ([`CHECKS`]), from which docs/doctor.md is written. One cause has many
//! symptoms: a check names the checks whose findings follow from its own, and those are shown under it instead of beside
//! it ([`Diagnosis`]).

mod check;
pub mod checks;
mod diagnosis;
mod live;
mod page;
mod preflight;
pub mod probe;
mod run;

pub use check::{Check, Confidence, Evidence, Finding, Looked, Severity};
pub use checks::CHECKS;
pub use diagnosis::{Diagnosis, Named, Skipped, diagnose, examine};
pub use live::{LIVE, Live};
pub use page::page;
pub use preflight::{PREFLIGHT, preflight};
pub use probe::{Depth, Probe, given};
pub use run::{Episodes, Run};

/// The names of all checks, as waivers use them.
pub fn names() -> impl Iterator<Item = &'static str> {
    let run = CHECKS.iter().map(|check| check.name).chain(LIVE.iter().map(|check| check.name));
    PREFLIGHT.iter().map(|check| check.name).chain(run)
}
