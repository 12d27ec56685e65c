//! ctrl-c: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Handle;

/// Whether the user has asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Listens from now on, on the runtime this is called in. `notice` is what the first ctrl-c says.
    pub(crate) fn listen(&self, handle: Handle, notice: String) {
        let asked = Arc::clone(&self.0);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            asked.store(true, Ordering::Relaxed);
            handle.notice(&notice);
            if tokio::signal::ctrl_c().await.is_ok() {
                // What is recorded can be read after a kill at any byte, and no terminal mode is left to undo.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\nstopped at once\n");
                std::process::exit(130);
            }
        });
    }
}
