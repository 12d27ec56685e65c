use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "small_groups",
    what: "Groups are so small that siblings say little about each other.",
    measure: "train.group_size. Note under 4: of two episodes, half of all groups at a success of one half have no \
              variance.",
    fix: "Sample 8 episodes a task where time allows.",
    explains: &["no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let size = probe.recipe.train.group_size;
    if size >= 4 {
        return Ok(Looked::Healthy);
    }
    let lost = 100.0 * 0.5f64.powi(size as i32 - 1);
    Finding::new(
        Severity::Note,
        format!("groups have {size} episodes: at a success of one half {lost:.0} % of them have no variance"),
    )
    .into()
}
