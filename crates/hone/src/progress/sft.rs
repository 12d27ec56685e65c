//! Progress display of imitation.

use hone_train::sft::SftStep;

use super::board::number;
use super::sparkline::Scale;
use super::{Board, Progress};

/// Shows a warm start on stderr.
#[derive(Debug)]
pub(crate) struct SftProgress {
    progress: Progress,
    total: u64,
    tokens: usize,
    clock: std::time::Instant,
}

/// Lines a warm start prints if nothing is redrawn.
const LINES: u64 = 20;

impl SftProgress {
    pub(crate) fn start(name: &str, total: u64) -> Self {
        let progress = Progress::start(Board::new(name, "step", total));
        Self { progress, total, tokens: 0, clock: std::time::Instant::now() }
    }

    /// The current activity: "imitating", "evaluating".
    pub(crate) fn doing(&self, what: &'static str) {
        self.progress.update(|board| board.doing = what);
    }

    pub(crate) fn stepped(&mut self, step: SftStep) {
        self.tokens += step.tokens;
        let rate = self.tokens as f64 / self.clock.elapsed().as_secs_f64().max(1e-9);
        if !self.progress.is_live() {
            if let Some(success) = step.held_out {
                let line =
                    format!("sft {:>5} of {}  success {success:.3} on held-out tasks", step.step - 1, self.total);
                self.progress.print(&line);
            }
            if step.step == 1 || step.step.is_multiple_of((self.total / LINES).max(1)) {
                let line =
                    format!("sft {:>5} of {}  loss {:.4}  {} tokens/s", step.step, self.total, step.loss, number(rate));
                self.progress.print(&line);
            }
            return;
        }
        self.progress.update(|board| {
            board.note("loss", Some(step.loss), Scale::Zero);
            board.note("gradient", step.grad_norm, Scale::Zero);
            board.note("held-out success", step.held_out, Scale::Unit);
            board.foot = format!("{} tokens/s", number(rate));
            board.reach(step.step);
        });
    }
}
