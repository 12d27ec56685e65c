//! A child process with everything it started: killed together or not at all.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The group of a child that was spawned with `process_group(0)`. Nothing where the child has been reaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    pub(crate) fn kill(self) {
        if let Some(group) = self.0 {
            // Already gone is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Kills the group when dropped.
#[derive(Debug)]
pub(crate) struct KillOnDrop(pub(crate) Group);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}
