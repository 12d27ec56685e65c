//! Parity: the recipe's rubric against the environment's own on the same episodes.
//!
//! Training pays one function and the environment means another. Where the two order episodes of a task differently, the
//! curve rises and the service does not.

use std::collections::BTreeMap;

use hone_arena::rewards::{Rubric, TOTAL};
use hone_trace::{EndState, Reward};
use serde::Serialize;

use crate::evidence::{Evidence, Played};

/// Two rubrics over the same episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parity {
    /// Pairs of episodes of a task that the environment's own rubric tells apart.
    pub pairs: usize,
    /// Of those, pairs that the recipe's rubric orders the other way.
    pub inverted: usize,
    /// Pairs of a right and a wrong episode of a task, by the environment's own test.
    pub right_wrong: usize,
    /// Of those, pairs in which the wrong one earns at least as much.
    pub unpriced: usize,
    /// A pair that is inverted: what the environment prefers, and what the recipe does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<[String; 2]>,
}

/// Less than this is not a difference.
const SAME: f64 = 0.02;

/// Scores every episode by the environment's own rubric and compares.
pub(crate) async fn parity(evidence: &Evidence, environments: &BTreeMap<String, Rubric>) -> Parity {
    let mut own = Vec::new();
    for played in evidence.episodes() {
        let Some(rubric) = environments.get(&played.trace.env) else { continue };
        let end = EndState { facts: played.trace.facts.clone() };
        let total: Reward = rubric.score(&played.trace, &end).await.total;
        if let (Some(theirs), Some(ours)) = (total.value(), played.value(TOTAL)) {
            own.push((played, theirs, ours));
        }
    }
    let mut found = Parity { pairs: 0, inverted: 0, right_wrong: 0, unpriced: 0, example: None };
    for task in 0..evidence.tasks {
        let mine: Vec<_> = own.iter().filter(|(played, ..)| played.task == task).collect();
        for (at, (one, their_one, our_one)) in mine.iter().enumerate() {
            for (other, their_other, our_other) in &mine[at + 1..] {
                found.compare((one, *their_one, *our_one), (other, *their_other, *our_other));
                found.judge(evidence, (one, *our_one), (other, *our_other));
            }
        }
    }
    found
}

impl Parity {
    fn compare(&mut self, one: (&Played, f64, f64), other: (&Played, f64, f64)) {
        let (theirs, ours) = (one.1 - other.1, one.2 - other.2);
        if theirs.abs() < SAME {
            return;
        }
        self.pairs += 1;
        if theirs * ours < 0.0 && ours.abs() >= SAME {
            self.inverted += 1;
            let (better, worse) = if theirs > 0.0 { (one.0, other.0) } else { (other.0, one.0) };
            self.example.get_or_insert([better.label.clone(), worse.label.clone()]);
        }
    }

    fn judge(&mut self, evidence: &Evidence, one: (&Played, f64), other: (&Played, f64)) {
        let solved = |played: &Played| played.solved(&evidence.success);
        let (right, wrong) = match (solved(one.0), solved(other.0)) {
            (Some(true), Some(false)) => (one.1, other.1),
            (Some(false), Some(true)) => (other.1, one.1),
            _ => return,
        };
        self.right_wrong += 1;
        self.unpriced += usize::from(wrong >= right - 1e-9);
    }
}
