//! Whether stated confidences mean anything: Murphy's decomposition of recorded forecasts.

use hone_arena::rewards::calibration::{forecast, murphy};
use hone_trace::Trace;
use serde::{Deserialize, Serialize};

/// Brier loss = reliability − resolution + uncertainty.
///
/// Reliability is what wrong numbers cost, resolution what telling easy from hard gains, uncertainty what the tasks are. A
/// calibration reward that rises while resolution stays near 0 is a constant confidence, not knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub n: usize,
    pub brier_loss: f64,
    pub reliability: f64,
    pub resolution: f64,
    pub uncertainty: f64,
    pub mean_confidence: f64,
    pub success: f64,
}

impl Calibration {
    /// `None` for no forecasts.
    pub fn of(forecasts: &[(f64, bool)]) -> Option<Self> {
        let parts = murphy(forecasts)?;
        let n = forecasts.len();
        Some(Self {
            n,
            brier_loss: parts.loss,
            reliability: parts.reliability,
            resolution: parts.resolution,
            uncertainty: parts.uncertainty,
            mean_confidence: forecasts.iter().map(|(confidence, _)| confidence).sum::<f64>() / n as f64,
            success: forecasts.iter().filter(|(_, correct)| *correct).count() as f64 / n as f64,
        })
    }
}

/// The confidences a trace stated, with what came of them, as its rewards recorded them.
pub(super) fn forecasts(trace: &Trace) -> impl Iterator<Item = (f64, bool)> {
    trace.rewards.iter().filter(|reward| reward.value().is_some()).filter_map(|reward| forecast(reward.why()))
}
