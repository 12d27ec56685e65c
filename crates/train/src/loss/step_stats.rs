//! Step-wide statistics, for objectives that need them before they can judge one token.

/// Statistics of all targets of an optimizer step. [`super::Objective::step_stats`] computes them from the step's
/// micro-batches; an objective without them uses the batch it sees, which is right if the step is one batch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepStats {
    pub mean_advantage: f64,
    pub mean_logp: f64,
    /// Tokens that score at least this are selected by the surrogate's selector.
    pub score_floor: Option<f64>,
    /// Tokens whose distribution has at least this entropy pass the top-entropy mask.
    pub entropy_floor: Option<f64>,
}

/// The score that the best `count` reach. `None` if there are no scores.
pub(super) fn kth_highest(mut scores: Vec<f64>, count: usize) -> Option<f64> {
    let last = count.min(scores.len()).checked_sub(1)?;
    let (_, kth, _) = scores.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
    Some(*kth)
}

/// The quantile at `q` in [0, 1], interpolated between neighbours.
pub(super) fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let at = q.clamp(0.0, 1.0) * values.len().checked_sub(1)? as f64;
    let below = values[at.floor() as usize];
    let above = values[at.ceil() as usize];
    Some(below + (above - below) * at.fract())
}
