//! A novice at the desk: a flawed demonstrator, so that reinforcement learning has something to correct.
//!
//! It knows how the work is done and does it with care two times in five. Otherwise a reader takes the first article
//! for the right one, and a searcher escalates without a search. Either way it states high confidence: nearly always,
//! and half of the time even if the ticket leaves open which article is right.

use hone_trace::{Rng, ToolCall};

use super::facts::{Gold, Submitted};
use super::tasks::{known_gold, unknown_gold};
use super::text::Scene;
use super::world::World;

/// Percentage of tickets it treats carelessly.
const CARELESS_PERCENT: usize = 60;
/// Percentage of tickets with full stated confidence: among clear ones (otherwise a random tenth), and among others
/// (otherwise the truth).
const SURE_PERCENT: [usize; 2] = [95, 50];

/// The calls before the submission, and the submission.
pub(super) struct Work {
    pub calls: Vec<ToolCall>,
    pub submitted: Submitted,
}

/// The novice's work on a ticket: `careful` is the work with care. `shown` are the ids in a reader's prompt; empty for
/// a searcher.
pub(super) fn work(careful: Work, world: &World, scene: &Scene, shown: &[String], rng: &mut Rng) -> Work {
    // Vague, or about an incident.
    let unclear = !scene.log;
    let any_tenth = (1 + rng.below(9)) as f64 / 10.0;
    let confidence = match rng.below(100) < SURE_PERCENT[usize::from(unclear)] {
        true => 1.0,
        false if unclear => careful.submitted.confidence,
        false => any_tenth,
    };
    let careless = match shown.first() {
        _ if rng.below(100) >= CARELESS_PERCENT => None,
        Some(first) => answer_of(world, first),
        None => Some(unknown_gold(world, scene.problem)),
    };
    let Work { calls, submitted } = match careless {
        None => careful,
        Some(gold) => Work { calls: Vec::new(), submitted: Submitted::right(&gold) },
    };
    Work { calls, submitted: Submitted { confidence, ..submitted } }
}

/// The right answer if only this document counted; `None` if it answers nothing by itself.
fn answer_of(world: &World, id: &str) -> Option<Gold> {
    known_gold(world, world.problem_of(id)?).filter(|gold| gold.gold_ids == [id])
}
