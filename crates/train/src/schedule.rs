//! Learning-rate schedules: a linear warm-up, then constant, linear or cosine decay.

use serde::{Deserialize, Serialize};

/// Course of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    Constant,
    Linear,
    Cosine,
}

impl Decay {
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear decay",
            Self::Cosine => "cosine decay",
        }
    }
}

/// Learning rate by step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub peak: f64,
    /// Steps of linear growth; the last of them has the peak rate.
    pub warmup: u64,
    /// Steps in all; the rate reaches `floor` at the last.
    pub total: u64,
    pub decay: Decay,
    pub floor: f64,
}

impl Schedule {
    /// The rate of a step, counted from 1.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * step as f64 / self.warmup as f64;
        }
        let span = self.total.saturating_sub(self.warmup).max(1) as f64;
        let done = ((step - self.warmup) as f64 / span).min(1.0);
        let left = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => 1.0 - done,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        };
        self.floor + (self.peak - self.floor) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_rise_then_fall() {
        let schedule = |decay| Schedule { peak: 2.0, warmup: 4, total: 12, decay, floor: 0.5 };
        let cosine = schedule(Decay::Cosine);
        assert_eq!([1, 2, 4].map(|s| cosine.at(s)), [0.5, 1.0, 2.0]);
        assert!((cosine.at(8) - 1.25).abs() < 1e-12 && cosine.at(12) == 0.5 && cosine.at(99) == 0.5);
        assert_eq!([4, 8, 12].map(|s| schedule(Decay::Linear).at(s)), [2.0, 1.25, 0.5]);
        assert_eq!([4, 8, 99].map(|s| schedule(Decay::Constant).at(s)), [2.0; 3]);
        let none = Schedule { warmup: 0, total: 0, ..cosine };
        assert!(none.at(1).is_finite());
    }
}
