//! Surrogate loss of one token: the part in which named losses differ.

use std::fmt::Debug;

/// Inputs of a surrogate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token {
    /// The learner's logprob now.
    pub logp: f64,
    /// The anchor of the ratio: the old logprob, or the sampler's.
    pub anchor: f64,
    /// Log of the ratio, at the objective's level, and the ratio.
    pub log_ratio: f64,
    pub ratio: f64,
    pub advantage: f64,
    /// Drift of the policy on the whole sequence: the sum of its log ratios, corrections included.
    pub drift: f64,
    /// (advantage − its mean) × (logprob − its mean) over the optimizer step, for surrogates with a selector.
    pub covariance: f64,
    /// A number in [0, 1) that belongs to this token, for surrogates that select at random.
    pub draw: f64,
    /// True when the surrogate's selector singled this token out.
    pub selected: bool,
}

/// A term of the loss and its two gradient paths to the logprob.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Term {
    pub value: f64,
    /// d value / d log ratio.
    pub slope: f64,
    /// d value / d logp with the ratio held fixed.
    pub direct: f64,
    /// True when a clip set the gradient to zero.
    pub clipped: bool,
}

impl Term {
    /// −ratio × advantage: the importance-weighted policy gradient that most surrogates start from.
    pub fn weighted(token: &Token) -> Self {
        let value = -token.ratio * token.advantage;
        Self { value, slope: value, ..Self::default() }
    }

    /// −factor × advantage × logp, the factor held fixed.
    pub fn likelihood(token: &Token, factor: f64) -> Self {
        let direct = -factor * token.advantage;
        Self { value: direct * token.logp, direct, ..Self::default() }
    }

    /// A constant: no gradient.
    pub fn flat(value: f64) -> Self {
        Self { value, clipped: true, ..Self::default() }
    }

    pub(super) fn scaled(self, factor: f64) -> Self {
        let Self { value, slope, direct, clipped } = self;
        Self { value: factor * value, slope: factor * slope, direct: factor * direct, clipped }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            slope: self.slope + other.slope,
            direct: self.direct + other.direct,
            clipped: self.clipped && other.clipped,
        }
    }
}

/// One policy objective, token by token. Pure; one small file each.
pub trait Surrogate: Send + Sync + Debug {
    fn term(&self, token: &Token) -> Term;

    /// Singles out some of the optimizer step's tokens, for surrogates that treat them differently.
    fn selector(&self) -> Option<&dyn Selector> {
        None
    }

    /// Stop-gradient: true when a factor of the term is held fixed (sg[·]), so that the gradient is not the derivative of
    /// the value.
    fn stops_gradient(&self) -> bool {
        false
    }

    /// True when the off-policy correction already is in the term (through [`Token::drift`]).
    fn absorbs_correction(&self) -> bool {
        false
    }
}

/// Singles out the tokens with the highest scores of the whole optimizer step.
pub trait Selector {
    /// Share of the step's tokens; at least one token is selected.
    fn share(&self) -> f64;

    /// `None`: not eligible.
    fn score(&self, token: &Token) -> Option<f64>;
}
