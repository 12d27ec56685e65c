//! KL to the reference policy, in the loss.

use hone_trace::documented;
use serde::{Deserialize, Serialize};

use super::level::LOG_RATIO_BOUND;
use super::{Term, Token};
use crate::catalogue::{Entry, catalogue};

documented! {
    /// coefficient × estimate, added to every token's term.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Kl {
        /// Weight of the KL in the loss.
        pub coefficient: f64 where real(0.0, 1e6),
        /// One-sample KL estimator: docs/algorithms.md.
        #[serde(default)]
        pub estimator: Estimator,
        /// Multiplies the estimate by the ratio, so that it stays the current policy's KL on tokens an older one sampled.
        #[serde(default = "yes")]
        pub bias_correction: bool,
    }
}

fn yes() -> bool {
    true
}

impl Kl {
    /// The estimate for one token, before the coefficient.
    pub(super) fn term(&self, token: &Token, reference: f64) -> Term {
        let (value, direct) = self.estimator.at(token.logp - reference);
        let plain = Term { value, direct, ..Term::default() };
        if self.bias_correction { Term { slope: value, ..plain }.scaled(token.ratio) } else { plain }
    }
}

/// A one-sample estimate of the KL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    K1,
    K2,
    #[default]
    K3,
    Abs,
}

/// The estimators and their names.
pub(crate) static ESTIMATORS: &[Entry<Estimator>] = catalogue! {
    /// Δ.
    /// Unbiased as a value but noisy; in a loss its gradient vanishes in expectation unless bias-corrected.
    "k1" => Estimator::K1, after "Schulman 2020, Approximating KL Divergence, joschu.net/blog/kl-approx.html";
    /// Δ²/2.
    /// Low variance; on-policy its gradient is the true KL's.
    "k2" => Estimator::K2, after "Schulman 2020, Approximating KL Divergence, joschu.net/blog/kl-approx.html";
    /// e^(−Δ) + Δ − 1.
    /// Unbiased, never negative. The default.
    "k3" => Estimator::K3, after "Schulman 2020, Approximating KL Divergence, joschu.net/blog/kl-approx.html";
    /// |Δ|.
    /// The same pull at any distance.
    "abs" => Estimator::Abs;
};

impl Estimator {
    /// The estimate and its derivative by Δ = logp − reference.
    pub fn at(self, delta: f64) -> (f64, f64) {
        match self {
            Self::K1 => (delta, 1.0),
            Self::K2 => (delta * delta / 2.0, delta),
            // Held constant, without a gradient, before the exponential overflows: the token is lost, not merely far
            // off.
            Self::K3 if delta < -LOG_RATIO_BOUND => (Self::K3.at(-LOG_RATIO_BOUND).0, 0.0),
            Self::K3 => ((-delta).exp() + delta - 1.0, 1.0 - (-delta).exp()),
            Self::Abs if delta == 0.0 => (0.0, 0.0),
            Self::Abs => (delta.abs(), delta.signum()),
        }
    }
}
