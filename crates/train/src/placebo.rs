//! The placebo: the same procedure with advantages that know nothing of the rewards.
//!
//! A policy can change without being taught: by imitating its own samples, by losing entropy, by luck of the evaluation.
//! What training gains over its placebo is what the reward taught.

use hone_trace::{Advantage, Seed, Span};
use serde::{Deserialize, Serialize};

use crate::evaluate::Evaluation;

/// What the advantages are replaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placebo {
    /// Each group's advantages, handed out to its episodes at random.
    Shuffle,
    /// The same advantage for every episode: the mean size of the step's.
    Constant,
}

impl Placebo {
    /// Replaces the advantages of one step. Episodes without one stay without.
    pub fn treat(self, advantages: &mut [Vec<Advantage>], seed: Seed) {
        match self {
            Self::Shuffle => {
                for (number, group) in advantages.iter_mut().enumerate() {
                    shuffle(group, seed.at(number as u64));
                }
            }
            Self::Constant => {
                let sizes: Vec<f64> = advantages.iter().flatten().flat_map(Advantage::values).map(f64::abs).collect();
                let value = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
                for advantage in advantages.iter_mut().flatten() {
                    if !matches!(advantage, Advantage::None { .. }) {
                        *advantage = Advantage::Whole { value };
                    }
                }
            }
        }
    }
}

fn shuffle(group: &mut [Advantage], seed: Seed) {
    let credited: Vec<usize> = (0..group.len()).filter(|at| !matches!(group[*at], Advantage::None { .. })).collect();
    let mut from = credited.clone();
    seed.rng().shuffle(&mut from);
    let before = group.to_vec();
    for (to, from) in credited.into_iter().zip(from) {
        group[to] = handed_over(&before[from], &before[to]);
    }
}

/// Another episode's advantage, cut to this one's turns; an episode with more turns keeps the last value for the rest.
fn handed_over(from: &Advantage, to: &Advantage) -> Advantage {
    match (from, to) {
        (Advantage::PerTurn { values }, Advantage::PerTurn { values: own }) => {
            let last = values.len().saturating_sub(1);
            let at = |turn: usize| values.get(turn.min(last)).copied().unwrap_or(0.0);
            Advantage::PerTurn { values: (0..own.len()).map(at).collect() }
        }
        // Where the values go stays: it is the episode's own text.
        (Advantage::Spans { value, spans }, Advantage::Spans { spans: own, .. }) => {
            let handed = own.iter().enumerate().map(|(at, span)| {
                let value = spans.get(at).map_or(*value, |from| from.value);
                Span { value, ..*span }
            });
            Advantage::Spans { value: *value, spans: handed.collect() }
        }
        _ => from.clone(),
    }
}

/// How much better a policy does than another on the same tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    pub difference: f64,
    /// Newcombe's 95 % interval of a difference of proportions, from both Wilson intervals.
    pub ci: [f64; 2],
}

/// The gain of `a` over `b` in success.
pub fn gain(a: &Evaluation, b: &Evaluation) -> Gain {
    let difference = a.success - b.success;
    let down = (a.success - a.ci[0]).hypot(b.ci[1] - b.success);
    let up = (a.ci[1] - a.success).hypot(b.success - b.ci[0]);
    Gain { difference, ci: [difference - down, difference + up] }
}
