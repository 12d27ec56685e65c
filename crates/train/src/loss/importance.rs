//! The importance-weighted policy gradient, unclipped or silent outside a range.

use super::{Surrogate, Term, Token};

/// −ρA; with a range, zero outside it, whatever the sign of the advantage.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Importance {
    /// (low, high): tokens count while 1−low ≤ ρ ≤ 1+high.
    pub range: Option<(f64, f64)>,
}

impl Surrogate for Importance {
    fn term(&self, token: &Token) -> Term {
        match self.range {
            Some((low, high)) if !(1.0 - low..=1.0 + high).contains(&token.ratio) => Term::flat(0.0),
            _ => Term::weighted(token),
        }
    }
}
