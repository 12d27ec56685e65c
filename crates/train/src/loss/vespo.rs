//! VESPO: one smooth weight per sequence, highest near the policy that sampled it.

use hone_trace::keys;

use super::{Hyperparameters, LossEntry, MakeLoss, Objective, Reduction, Surrogate, Term, Token};

pub(super) const VESPO: LossEntry = LossEntry {
    name: "vespo",
    maths: "−sg[φ(x)]·A·l, φ(x) = exp(λ+kx−λeˣ), x the sum of l−o over the sequence; (k, λ) = (2, 3) for A ≥ 0, else (3, 2); token_mean.",
    advice: "For very stale samples: sequences far from the policy fade out smoothly. Takes token_* corrections into x.",
    paper: Some("VESPO: Variational Sequence-Level Soft Policy Optimization, 2026, arXiv:2602.10693"),
    make: MakeLoss {
        hyperparameters: keys! {
            /// Slope of the kernel for good sequences.
            k_positive: f64 where real(0.0, 1e3),
            /// Scale of the kernel for good sequences.
            lambda_positive: f64 where real(0.0, 1e3),
            /// Slope of the kernel for bad sequences.
            k_negative: f64 where real(0.0, 1e3),
            /// Scale of the kernel for bad sequences.
            lambda_negative: f64 where real(0.0, 1e3),
        },
        build: |hyperparameters| Ok(Objective::new(Vespo::from_hyperparameters(hyperparameters), Reduction::TokenMean)),
    },
};

/// −sg[ φ(x) ] A l, φ(x) = exp(λ + kx − λeˣ), x the sequence's drift. φ(0) = 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Vespo {
    /// (k, λ) of sequences with an advantage of at least zero.
    pub positive: (f64, f64),
    pub negative: (f64, f64),
}

/// The drift φ is evaluated at is held in ln(1e-8) ..= 20, as in the published loss.
const DRIFT: (f64, f64) = (-18.420_680_743_952_367, 20.0);

impl Vespo {
    pub(super) fn from_hyperparameters(hyperparameters: &mut Hyperparameters) -> Self {
        Self {
            positive: (hyperparameters.take("k_positive", 2.0), hyperparameters.take("lambda_positive", 3.0)),
            negative: (hyperparameters.take("k_negative", 3.0), hyperparameters.take("lambda_negative", 2.0)),
        }
    }
}

impl Surrogate for Vespo {
    fn term(&self, token: &Token) -> Term {
        let (k, lambda) = if token.advantage >= 0.0 { self.positive } else { self.negative };
        let x = token.drift.clamp(DRIFT.0, DRIFT.1);
        Term::likelihood(token, (lambda + k * x - lambda * x.exp()).exp())
    }

    fn absorbs_correction(&self) -> bool {
        true
    }

    fn stops_gradient(&self) -> bool {
        true
    }
}
