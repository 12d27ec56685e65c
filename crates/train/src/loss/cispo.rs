//! CISPO: clip the importance weight, never the gradient.

use super::{Knobs, Surrogate, Term, Token};

/// −sg[ min(ρ, cap) ] A l. No token falls silent; the cap only bounds how loud one may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cispo {
    pub cap: f64,
}

impl Cispo {
    pub(super) fn from_knobs(knobs: &mut Knobs) -> Self {
        Self { cap: knobs.take("cap", 5.0) }
    }
}

impl Surrogate for Cispo {
    fn term(&self, token: &Token) -> Term {
        Term::likelihood(token, token.ratio.min(self.cap))
    }
}
