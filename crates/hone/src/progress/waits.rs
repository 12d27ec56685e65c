//! Wait table: printed in full on SIGUSR1, and one line during a long wait.

use std::time::Duration;

use hone_remote::supervise::waits;
use tokio::signal::unix::{SignalKind, signal};

use super::Handle;

/// A wait that is worth a line.
const LONG: Duration = Duration::from_secs(10);

/// Shows waits from now on, on the runtime this is called in.
pub(super) fn listen(handle: Handle) {
    let shown = handle.clone();
    tokio::spawn(async move {
        // Without a handler, the table cannot be requested.
        let Ok(mut asked) = signal(SignalKind::user_defined1()) else { return };
        while asked.recv().await.is_some() {
            shown.print(&waits::page(Duration::ZERO));
        }
    });
    tokio::spawn(async move {
        // A line after ten seconds, then at every doubling, so that one wait does not fill a log.
        let mut next = LONG;
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let waits = waits::longer_than(LONG);
            let Some(longest) = waits.first() else {
                next = LONG;
                handle.waiting(None);
                continue;
            };
            let waited = longest.since.elapsed();
            if waited >= next {
                next = waited * 2;
                let others = waits.len() - 1;
                let text = format!(
                    "waiting {:.0} s at {} for {} ({}), and {others} more; kill -USR1 {} shows all",
                    waited.as_secs_f64(),
                    longest.server,
                    longest.what,
                    longest.who,
                    std::process::id()
                );
                handle.waiting(Some(text));
            }
        }
    });
}
