//! A novice at the desk: whom imitation sees where reinforcement learning is to have something to put right.
//!
//! It knows how the work is done and does it with care two times in five. Otherwise a reader takes the first article
//! for the right one, and a searcher escalates without a search. Either way it is sure of itself: nearly always, and
//! half of the time even where the ticket leaves open which article is right.

use hone_trace::{Rng, ToolCall};

use super::facts::{Gold, Submitted};
use super::tasks::{known_gold, unknown_gold};
use super::text::Scene;
use super::world::World;

/// Percentage of tickets it treats carelessly.
const CARELESS_PERCENT: usize = 60;
/// Percentage of tickets it claims to be sure of: among clear ones, where it otherwise says a random tenth, and among
/// others, where it otherwise says the truth.
const SURE_PERCENT: [usize; 2] = [95, 50];

/// The calls before the submission, and the submission.
pub(super) struct Work {
    pub calls: Vec<ToolCall>,
    pub submitted: Submitted,
}

/// The novice's work on a ticket: `careful` where it takes care. `shown` are the ids in a reader's prompt, none at
/// a searcher's.
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
