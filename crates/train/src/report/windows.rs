//! The window table: a metric early in training against late in it. Early is not the starting policy, which no step
//! shows; that is evaluated at step 0.

use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;
use crate::ledger::names::Name;

/// Maximum steps of the two windows.
const FIRST: usize = 10;
const LAST: usize = 50;

/// Steps of the two windows, first and last of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    pub first: [u64; 2],
    pub last: [u64; 2],
}

impl Windows {
    /// First 10 steps and last 50; in a shorter run a quarter of it each, so that they never overlap. `None` for a run
    /// without steps.
    pub fn of(steps: &[Ledger]) -> Option<Self> {
        let count = steps.len();
        let (first, last) = ((count / 4).clamp(1, FIRST), (count / 4).clamp(1, LAST));
        let step = |index: usize| steps.get(index).map(|ledger| ledger.step);
        Some(Self { first: [step(0)?, step(first - 1)?], last: [step(count - last)?, step(count - 1)?] })
    }
}

/// A metric in the two windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub first: f64,
    pub last: f64,
    pub difference: f64,
    /// Standard error of the difference, from how the steps differ. Absent for windows of one step.
    pub standard_error: Option<f64>,
}

impl Row {
    /// Means over the steps of each window that have the metric. `None` if a window has none.
    pub fn of(metric: impl Into<Name>, steps: &[Ledger], windows: Windows) -> Option<Self> {
        let metric = metric.into();
        let values = |[from, to]: [u64; 2]| -> Vec<f64> {
            let inside = steps.iter().filter(|ledger| (from..=to).contains(&ledger.step));
            inside.filter_map(|ledger| ledger.get(metric.clone())).collect()
        };
        let (first, last) = (values(windows.first), values(windows.last));
        let (before, after) = (mean(&first)?, mean(&last)?);
        let errors = squared_error(&first).zip(squared_error(&last));
        Some(Self {
            name: metric.to_string(),
            first: before,
            last: after,
            difference: after - before,
            standard_error: errors.map(|(first, last)| (first + last).sqrt()),
        })
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The squared standard error of the mean.
fn squared_error(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let degrees = values.len().checked_sub(2)? + 1;
    Some(values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (degrees * values.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::names;

    fn steps(count: u64) -> Vec<Ledger> {
        let line = |step: u64| serde_json::json!({"step": step, "timing/step": step as f64}).as_object().cloned();
        (1..=count).filter_map(|step| Ledger::from_map(&line(step)?)).collect()
    }

    #[test]
    fn windows_are_ten_and_fifty_or_what_the_run_has() {
        let of = |count| Windows::of(&steps(count)).map(|windows| (windows.first, windows.last));
        assert_eq!(of(300), Some(([1, 10], [251, 300])));
        assert_eq!(of(40), Some(([1, 10], [31, 40])));
        assert_eq!(of(5), Some(([1, 1], [5, 5])));
        assert_eq!(of(1), Some(([1, 1], [1, 1])));
        assert_eq!(of(0), None);
    }

    #[test]
    fn a_row_is_the_means_and_their_difference() {
        let steps = steps(8);
        let row = Row::of(names::TIMING_STEP, &steps, Windows::of(&steps).unwrap()).unwrap();
        assert_eq!((row.first, row.last, row.difference), (1.5, 7.5, 6.0));
        // Each window has a variance of 0.5 over two steps.
        assert!((row.standard_error.unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(Row::of(names::TIMING_GENERATE, &steps, Windows::of(&steps).unwrap()), None);
    }
}
