use hone_trace::rundir::RunDirError;

use super::{FOLLOWED, refused};
use crate::check::{Check, Looked};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "tool_results",
    what: "The chat template does not show tool results: the policy never sees the result of its actions.",
    measure: FOLLOWED,
    fix: "Use a template with a branch for the role \"tool\".",
    explains: &["opens", "call_format", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    refused(probe, RefusalKind::ObservationLost, |task| {
        format!("the template drops what the tools of task {task} answer")
    })
}
