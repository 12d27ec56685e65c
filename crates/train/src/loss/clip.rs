//! The clipped objective of PPO, with an asymmetric range and an optional cap on what a bad token may cost.

use std::cmp::Ordering;

use super::{Knobs, Surrogate, Term, Token};

/// −min( min(ρ, cap) A, clip(ρ, 1−low, 1+high) A ).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    pub low: f64,
    pub high: f64,
    /// Bounds the loss of tokens with a negative advantage (dual clip, two-sided clip). `None`: unbounded.
    pub cap: Option<f64>,
}

impl Clip {
    pub(super) fn from_knobs(knobs: &mut Knobs, low: f64, high: f64) -> Self {
        Self { low: knobs.take("clip_low", low), high: knobs.take("clip_high", high), cap: knobs.take_optional("cap") }
    }
}

impl Surrogate for Clip {
    fn term(&self, token: &Token) -> Term {
        let capped = self.cap.is_some_and(|cap| token.ratio > cap);
        let free = self.cap.map_or(token.ratio, |cap| token.ratio.min(cap)) * token.advantage;
        let clipped = token.ratio.clamp(1.0 - self.low, 1.0 + self.high) * token.advantage;
        let inside = (1.0 - self.low..=1.0 + self.high).contains(&token.ratio);
        // The smaller branch decides: the free one moves with the ratio unless capped, the clipped one only inside.
        let moves = match free.total_cmp(&clipped) {
            Ordering::Less => !capped,
            Ordering::Greater => inside,
            Ordering::Equal => true,
        };
        if moves { Term::weighted(token) } else { Term::flat(-free.min(clipped)) }
    }
}
