use hone_trace::rundir::RunDirError;

use super::{FOLLOWED, refused};
use crate::check::{Check, Looked};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "template",
    what: "The chat template fails on this environment's messages.",
    measure: FOLLOWED,
    fix: "Fix the template at the reported line; `hone render --model DIR` shows what a template writes.",
    explains: &["opens", "call_format"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    refused(probe, RefusalKind::Other, |task| format!("the prompt of task {task} cannot be rendered"))
}
