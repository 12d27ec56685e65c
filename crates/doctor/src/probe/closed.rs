//! Episodes after their end: the resources that an environment holds, and a further step of a closed episode.

use std::time::Duration;

use hone_arena::baseline::Baseline;
use hone_trace::{Action, Arena, Held, Task};

use super::Closed;
use super::script::{Limits, Session};

/// Time for a count, and for the answer to a step of a closed episode.
const PATIENCE: Duration = Duration::from_secs(5);
/// Closed episodes that are stepped once more.
const ASKED: usize = 2;
/// Pause before the last count: an episode may be closed behind its answer.
const SETTLING: Duration = Duration::from_secs(1);

impl Closed {
    /// Counts what is held after a number of closed episodes.
    pub(super) async fn count(&mut self, arena: &dyn Arena, episodes: usize) {
        let held = tokio::time::timeout(PATIENCE, arena.holds()).await.unwrap_or_default();
        if !held.is_empty() {
            self.held.push((episodes, held));
        }
    }

    /// The last count again, where it is over the first one.
    pub(super) async fn settle(&mut self, arena: &dyn Arena, episodes: usize) {
        self.held.retain(|(at, _)| *at != episodes);
        self.count(arena, episodes).await;
        let total = |held: &[Held]| held.iter().map(|held| held.count).sum::<u64>();
        let (Some((_, first)), Some((_, last))) = (self.held.first(), self.held.last()) else { return };
        let in_excess = last.iter().any(|held| held.in_use.is_some_and(|in_use| held.count > in_use));
        if in_excess || total(last) > total(first) {
            tokio::time::sleep(SETTLING).await;
            self.held.retain(|(at, _)| *at != episodes);
            self.count(arena, episodes).await;
        }
    }

    /// Opens episodes, closes them after a call, and steps them once more.
    pub(super) async fn ask(&mut self, arena: &dyn Arena, task: &Task, script: &dyn Baseline, limits: Limits) {
        for number in 0..ASKED as u64 {
            let opened = Session::open(arena, task, limits.seed.wrapping_add(number), limits.deadline).await;
            let Ok(mut session) = opened else { return };
            let action = session.next(script);
            if !matches!(action, Action::Calls(_)) || !session.advance(script).await {
                return;
            }
            let asked = session.env.outlives_close(action);
            if let Ok(Some(answered)) = tokio::time::timeout(PATIENCE.min(limits.deadline), asked).await {
                self.asked += 1;
                self.answered += usize::from(answered);
            }
        }
    }
}
