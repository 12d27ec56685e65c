//! A novice at the desk: whom imitation sees where reinforcement learning is to have something to put right.
//!
//! It knows how the work is done and does it with care one time in four. Otherwise a reader takes the first article
//! for the right one, and a searcher escalates without a search. Either way it is sure of itself, nearly always
//! where the ticket has an answer and too often where it leaves something open.

use hone_trace::{Rng, ToolCall};

use super::facts::{Gold, Submitted};
use super::tasks::{known_gold, unknown_gold};
use super::text::Scene;
use super::world::World;

/// Of a hundred tickets, those it takes no care of.
const CARELESS_PERCENT: usize = 75;
/// Of a hundred tickets, those it is sure of: of tickets that have an answer, and of those that leave it open.
const SURE_PERCENT: [usize; 2] = [95, 50];
/// How sure that is. Else it says any tenth.
const SURE: f64 = 0.9;

/// The calls before the submission, and what is submitted.
pub(super) struct Work {
    pub calls: Vec<ToolCall>,
    pub submitted: Submitted,
}

/// What the novice does with a ticket: `careful` where it takes care. `shown` are the ids in a reader's prompt, none at
/// a searcher's.
pub(super) fn work(careful: Work, world: &World, scene: &Scene, shown: &[String], rng: &mut Rng) -> Work {
    let open = !scene.log || careful.submitted.escalate;
    let any_tenth = (1 + rng.below(9)) as f64 / 10.0;
    let confidence = if rng.below(100) < SURE_PERCENT[usize::from(open)] { SURE } else { any_tenth };
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

/// What would be right if this document alone were; `None` where it answers nothing by itself.
fn answer_of(world: &World, id: &str) -> Option<Gold> {
    let is_its = |problem: &&_| world.article(**problem).is_some_and(|article| article.id == id);
    known_gold(world, *world.problems.iter().find(is_its)?).filter(|gold| gold.gold_ids == [id])
}
