//! Plain log-likelihood, weighted by the advantage: REINFORCE, and with an advantage of 1 the cross-entropy of SFT.

use super::{Surrogate, Term, Token};

/// −A l.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likelihood;

impl Surrogate for Likelihood {
    fn term(&self, token: &Token) -> Term {
        Term::likelihood(token, 1.0)
    }
}
