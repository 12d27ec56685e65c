//! Progress of long work: a small block of lines that is redrawn on a terminal, plain lines anywhere else. It knows
//! nothing about training, only named numbers.
//!
//! No terminal mode outlives a single write: no raw mode, no hidden cursor, no alternate screen. Whatever kills the process
//! leaves a terminal that works.

mod board;
mod faults;
pub(crate) mod interrupt;
mod screen;
pub(crate) mod sft;
mod sparkline;
mod style;
pub(crate) mod summary;
pub(crate) mod train;
mod waits;

use std::io::IsTerminal as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use board::Board;
pub(crate) use interrupt::{Interrupt, watch};
use screen::Screen;
pub(crate) use style::Style;

/// Interval at which the clock and the terminal size are checked between events.
const TICK: Duration = Duration::from_secs(1);

/// A block of lines on stderr. Dropped, it leaves its last state behind.
#[derive(Debug)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug)]
struct State {
    board: Board,
    /// `None` if stderr is not a terminal: then only lines are printed.
    screen: Option<Screen>,
    style: Style,
    finished: bool,
}

impl Progress {
    pub(crate) fn start(board: Board) -> Self {
        let stderr = std::io::stderr();
        let live = stderr.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let state = State { board, screen: live.then(Screen::default), style: Style::for_stderr(), finished: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), done: Condvar::new() });
        let ticker = live.then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.tick())
        });
        Self { shared, ticker }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.shared.lock().screen.is_some()
    }

    pub(crate) fn style(&self) -> Style {
        self.shared.lock().style
    }

    /// Changes what is shown.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Board)) {
        let mut state = self.shared.lock();
        change(&mut state.board);
        state.draw();
    }

    /// Estimated time left.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.shared.lock().board.left()
    }

    /// Prints permanent lines, above the block if there is one.
    pub(crate) fn print(&self, text: &str) {
        self.shared.lock().print(text);
    }

    /// Handle for printing from elsewhere.
    pub(crate) fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.board.settle();
        state.draw();
        state.finished = true;
        drop(state);
        self.shared.done.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // A ticker that panicked has nothing to tell.
            let _ = ticker.join();
        }
    }
}

/// See [`Progress::handle`].
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    /// Prints permanent lines.
    pub(crate) fn print(&self, text: &str) {
        let mut state = self.0.lock();
        if !state.finished {
            state.print(text);
        }
    }

    /// Shows what is being waited for: in the block while it lasts, or as a line. `None`: nothing any more.
    fn waiting(&self, text: Option<String>) {
        let mut state = self.0.lock();
        if state.finished || state.board.waiting == text {
            return;
        }
        if let (Some(text), false) = (&text, state.screen.is_some()) {
            state.print(text);
        } else {
            state.board.waiting = text;
            state.draw();
        }
    }

    /// Shows a notice: in the block, or as a line.
    pub(crate) fn notice(&self, text: &str) {
        let mut state = self.0.lock();
        if state.finished {
            return;
        }
        if state.screen.is_some() {
            state.board.notice = Some(text.to_owned());
            state.draw();
        } else {
            state.print(text);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while drawing leaves numbers that can still be shown.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut state = self.lock();
        while !state.finished {
            state = self.done.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            if !state.finished {
                state.draw();
            }
        }
    }
}

impl State {
    fn draw(&mut self) {
        let Some(screen) = &mut self.screen else { return };
        if self.finished {
            return;
        }
        let size = screen::size();
        let lines = self.board.lines(size.room(), self.style);
        write(&screen.redraw(&lines, size));
    }

    fn print(&mut self, text: &str) {
        match &mut self.screen {
            Some(screen) => {
                let size = screen::size();
                let lines = self.board.lines(size.room(), self.style);
                let above = screen.erase(size) + text.trim_end_matches('\n') + "\n";
                write(&(above + &screen.redraw(&lines, size)));
            }
            None => write(&format!("{}\n", text.trim_end_matches('\n'))),
        }
    }
}

/// One write, so that nothing is interleaved. A closed stderr does not stop training.
fn write(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), text.as_bytes());
}
