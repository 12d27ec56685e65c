//! Means and deviations over values that exist.

use hone_trace::NoSignal;

/// Rewards closer together than this are the same reward.
pub(super) const SAME: f64 = 1e-9;

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sample standard deviation (n − 1). `None` for fewer than two values.
pub(super) fn deviation(values: &[f64]) -> Option<f64> {
    let degrees = values.len().checked_sub(2)? + 1;
    let centre = mean(values);
    Some((values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / degrees as f64).sqrt())
}

/// Checks that the values have a spread; otherwise the reason why there is no signal.
pub(super) fn check_spread(values: &[f64]) -> Result<(), NoSignal> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        0 | 1 => Err(NoSignal::Singleton),
        _ if high - low <= SAME => Err(NoSignal::ZeroVariance),
        _ => Ok(()),
    }
}
