//! ctrl-c, SIGTERM and SIGHUP: the first requests an orderly stop, the second stops immediately.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};

use hone_remote::supervise::cleanup;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Handle;
use crate::scratch;

/// True once a command handles its own orderly end.
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// Words of a command without an orderly end that can be continued.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// Shows these words if a signal ends this process.
pub(crate) fn say_at_stop(words: String) {
    watch();
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
}

/// Releases rented instances and removes scratch directories when a signal ends a command that has no orderly end. Called
/// again, it does nothing.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(start_watching);
}

fn start_watching() {
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::listen() else { return };
            let _ = ready.send(());
            loop {
                let number = signals.next().await;
                if !ORDERLY.load(Ordering::Relaxed) {
                    let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(words) = words {
                        crate::output::noted(&format!("\n{words}"));
                    }
                    let _ = tokio::task::spawn_blocking(cleanup::release_all).await;
                    scratch::remove_all();
                    std::process::exit(128 + number);
                }
            }
        });
    });
    // Nothing is rented before the handler listens. If it cannot, the channel is closed and only the TTL remains.
    let _ = is_ready.recv();
}

/// The signal that requested an orderly stop; 0 before one does.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

/// Exit code of a command that a signal stopped, as a shell writes it: 130 after ctrl-c, 143 after SIGTERM.
pub(crate) fn exit_code() -> Option<std::process::ExitCode> {
    let number = STOPPED_BY.load(Ordering::Relaxed);
    (number > 0).then(|| std::process::ExitCode::from(128 + number as u8))
}

/// Flag that is set when a stop was requested.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Listens from now on, on the runtime this is called in. `notice` is shown on the first signal.
    pub(crate) fn listen(&self, handle: Handle, notice: String) {
        let asked = Arc::clone(&self.0);
        // If no handler can be installed, the signals keep their default: they end the process.
        let Ok(mut signals) = Signals::listen() else { return };
        ORDERLY.store(true, Ordering::Relaxed);
        tokio::spawn(async move {
            STOPPED_BY.store(signals.next().await, Ordering::Relaxed);
            asked.store(true, Ordering::Relaxed);
            handle.notice(&notice);
            let number = signals.next().await;
            // Records can be read after a kill at any byte, and no terminal mode is left to undo.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\nstopped immediately\n");
            // Rented instances would continue to cost.
            let _ = tokio::task::spawn_blocking(cleanup::release_all).await;
            scratch::remove_all();
            std::process::exit(128 + number);
        });
    }
}

/// The signals that ask a process to stop: by a person, a scheduler, a terminal that was closed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent if it is ignored, as under nohup: then the run is meant to outlive its terminal.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let hang_up = SignalKind::hangup();
        let ignored = is_ignored(hang_up.as_raw_value());
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if ignored { None } else { Some(signal(hang_up)?) },
        })
    }

    /// Waits for the next signal; returns its number.
    async fn next(&mut self) -> i32 {
        let hung_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hung_up => SignalKind::hangup(),
        }
        .as_raw_value()
    }
}

/// True when this process was started with a signal ignored, as far as the system says.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}
