//! Placebo: the same procedure with advantages that carry no information about the rewards.
//!
//! A policy can change without being taught: by imitating its own samples, by losing entropy, by luck of the
//! evaluation. A placebo shows what the procedure does by itself, as long as the placebo remains a policy: noise
//! through an optimizer destroys a small softmax, and a gain over a collapsed policy says nothing. [`Placebo::Permute`]
//! is therefore held within the KL that the real run had at each step ([`crate::drift`]); the other two are not.

use hone_trace::{Advantage, Seed, Span};
use serde::{Deserialize, Serialize};

/// Substitutes for the advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placebo {
    /// The step's advantages, permuted at random across tasks.
    Permute,
    /// Each group's advantages, permuted at random among its episodes.
    Shuffle,
    /// The same advantage for every episode: the mean size of the step's.
    Constant,
}

impl Placebo {
    pub const ALL: [Self; 3] = [Self::Permute, Self::Shuffle, Self::Constant];

    pub fn name(self) -> &'static str {
        match self {
            Self::Permute => "permute",
            Self::Shuffle => "shuffle",
            Self::Constant => "constant",
        }
    }

    /// Replaces the advantages of one step. Episodes without one stay without.
    pub fn treat(self, advantages: &mut [Vec<Advantage>], seed: Seed) {
        match self {
            Self::Permute => {
                let mut flat: Vec<Advantage> = advantages.iter().flatten().cloned().collect();
                shuffle(&mut flat, seed);
                for (advantage, handed) in advantages.iter_mut().flatten().zip(flat) {
                    *advantage = handed;
                }
            }
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
        // The positions of the spans stay: they belong to the episode's own text.
        (Advantage::Spans { value, spans }, Advantage::Spans { spans: own, .. }) => {
            let handed = own.iter().enumerate().map(|(at, span)| {
                let value = spans.get(at).map_or(*value, |from| from.value);
                Span { value, ..*span }
            });
            Advantage::Spans { value: *value, spans: handed.collect() }
        }
        // Spans of another episode do not exist in this one's text.
        (Advantage::Spans { value, .. }, _) => Advantage::Whole { value: *value },
        _ => from.clone(),
    }
}
