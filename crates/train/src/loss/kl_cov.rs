//! KL-Cov: keeps entropy up by holding back the tokens that would cost it most.

use super::{Knobs, Selector, Surrogate, Term, Token};

/// −ρA, plus a penalty on |log ρ| for the share of tokens with the highest covariance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlCov {
    pub share: f64,
    pub penalty: f64,
}

impl KlCov {
    pub(super) fn from_knobs(knobs: &mut Knobs) -> Self {
        Self { share: knobs.take("share", 0.2), penalty: knobs.take("penalty", 1.0) }
    }
}

impl Surrogate for KlCov {
    fn term(&self, token: &Token) -> Term {
        let term = Term::weighted(token);
        if !token.selected || token.log_ratio == 0.0 {
            return term;
        }
        Term {
            value: term.value + self.penalty * token.log_ratio.abs(),
            slope: term.slope + self.penalty * token.log_ratio.signum(),
            ..term
        }
    }

    fn selector(&self) -> Option<&dyn Selector> {
        Some(self)
    }
}

impl Selector for KlCov {
    fn share(&self) -> f64 {
        self.share
    }

    fn score(&self, token: &Token) -> Option<f64> {
        Some(token.covariance)
    }
}
