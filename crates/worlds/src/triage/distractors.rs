//! Selection of the wrong documents shown beside the right ones in a reader's prompt.
//!
//! The harder the level, the closer they are: level 1 takes other products, level 2 shares the product or the symptom,
//! level 3 adds the same symptom with another cause, the same cause in another product, and incidents that look right.

use std::collections::HashSet;

use hone_trace::Rng;

use super::problems::Problem;
use super::text::Scene;
use super::world::{Document, Shelf, World};

/// Fills `gold` up to `count` documents and shuffles: the ids in the order the prompt shows them.
pub(super) fn documents(world: &World, scene: &Scene, gold: &[String], count: usize, rng: &mut Rng) -> Vec<String> {
    let mut shown: Vec<String> = gold.to_vec();
    let mut seen: HashSet<String> = gold.iter().cloned().collect();
    let near = if scene.level >= 3 { near(world, scene, rng) } else { Vec::new() };
    let related = if scene.level >= 2 { related(world, scene, rng) } else { Vec::new() };
    // Level 3 leaves room for merely related ones: half near, half related.
    let near_count = (count.saturating_sub(gold.len())).div_ceil(2);
    for id in near.into_iter().take(near_count).chain(related).chain(others(world, scene, rng)) {
        if shown.len() >= count.max(gold.len()) {
            break;
        }
        if seen.insert(id.clone()) {
            shown.push(id);
        }
    }
    rng.shuffle(&mut shown);
    shown
}

/// The same symptom with another cause, the same cause at another product, the incidents of the symptom.
fn near(world: &World, scene: &Scene, rng: &mut Rng) -> Vec<String> {
    let ours = scene.problem;
    let close = |other: Problem| {
        other != ours
            && (other.symptom() == ours.symptom()
                || (other.domain, other.failure, other.cause) == (ours.domain, ours.failure, ours.cause))
    };
    let mut ids = articles(world, close);
    let incidents = world.known_incidents.iter().enumerate();
    ids.extend(
        incidents
            .filter(|(_, known)| known.symptom == ours.symptom())
            .map(|(index, _)| world.incident_document(index).id.clone()),
    );
    rng.shuffle(&mut ids);
    ids
}

/// The same product or the same symptom elsewhere.
fn related(world: &World, scene: &Scene, rng: &mut Rng) -> Vec<String> {
    let ours = scene.problem;
    let close = |other: Problem| {
        other.domain == ours.domain
            && other.symptom() != ours.symptom()
            && (other.product == ours.product || other.failure == ours.failure)
    };
    let mut ids = articles(world, close);
    rng.shuffle(&mut ids);
    ids
}

/// Articles about other products.
fn others(world: &World, scene: &Scene, rng: &mut Rng) -> Vec<String> {
    let product = world.product(scene.problem);
    let articles = world.documents(Shelf::Articles);
    let mut ids = Vec::new();
    // More draws than any prompt shows; the caller drops repetitions.
    for _ in 0..64 {
        let Some(Document { id, title, .. }) = rng.pick(articles) else { break };
        if !title.contains(product) {
            ids.push(id.clone());
        }
    }
    ids
}

fn articles(world: &World, wanted: impl Fn(Problem) -> bool) -> Vec<String> {
    let wanted = world.problems.iter().filter(|&&problem| wanted(problem));
    wanted.filter_map(|&problem| world.article(problem)).map(|article| article.id.clone()).collect()
}
