//! Confidence intervals at 95 %: of a share, of the difference between two policies on the same tasks, and by bootstrap
//! over tasks. Everything that reports an interval takes it from here.

pub mod bootstrap;

use serde::{Deserialize, Serialize};

use crate::evaluate::ByTask;

const Z: f64 = 1.959_963_984_540_054;

/// Wilson's score interval. `None` if `n` is 0.
pub fn wilson(good: usize, n: usize) -> Option<[f64; 2]> {
    (n > 0).then(|| score(good as f64 / n as f64, n as f64))
}

fn score(p: f64, n: f64) -> [f64; 2] {
    let centre = p + Z * Z / (2.0 * n);
    let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    // At the ends the formula gives 0 and 1 up to rounding.
    let low = if p == 0.0 { 0.0 } else { (centre - spread) / scale };
    let high = if p == 1.0 { 1.0 } else { (centre + spread) / scale };
    [low, high]
}

/// Mean of the task means, and its interval: Wilson's at the effective sample size, the number of independent episodes
/// that would have the variance observed between tasks. Episodes of one task are not independent; with one episode per
/// task this is Wilson's.
pub(crate) fn clustered<'a>(tasks: impl Iterator<Item = &'a [f64]>) -> Option<(f64, [f64; 2])> {
    let mut episodes = 0usize;
    let means: Vec<f64> = tasks
        .inspect(|values| episodes += values.len())
        .map(|values| values.iter().sum::<f64>() / values.len() as f64)
        .collect();
    let k = means.len() as f64;
    let p = means.iter().sum::<f64>() / k;
    if means.is_empty() {
        return None;
    }
    let variance = means.iter().map(|mean| (mean - p).powi(2)).sum::<f64>() / (k - 1.0).max(1.0) / k;
    let effective = if episodes == means.len() || variance <= 0.0 {
        k
    } else {
        (p * (1.0 - p) / variance).clamp(1.0, episodes as f64)
    };
    Some((p, score(p, effective)))
}

/// Mean difference of two policies on the tasks that both were scored on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub mean: f64,
    /// Bonett and Price's adjusted Wald interval of a paired difference.
    pub ci: [f64; 2],
    pub tasks: usize,
}

impl Difference {
    /// True if the interval lies above 0.
    pub fn is_gain(&self) -> bool {
        self.ci[0] > 0.0
    }

    /// Tasks at which a gain of this size and spread would be shown: more than there are, if it is not.
    pub fn tasks_needed(&self) -> Option<usize> {
        let tasks = self.tasks as f64;
        let centre = self.mean * tasks / (tasks + 2.0);
        // One end may be cut off at 1.
        let half = (centre - self.ci[0]).max(self.ci[1] - centre);
        let squares = ((half / Z).powi(2) * (tasks + 2.0) + centre.powi(2)) * (tasks + 2.0) - 2.0;
        let square = (squares / tasks).clamp(0.0, 1.0);
        let low = |tasks: f64| {
            let (n, sum) = (tasks + 2.0, self.mean * tasks);
            sum / n - Z * (((square * tasks + 2.0) / n - (sum / n).powi(2)) / n).sqrt()
        };
        (1..MOST_TASKS).find(|tasks| low(*tasks as f64) > 0.0)
    }

    /// Verdict in one to three words.
    pub fn word(&self) -> &'static str {
        match self.ci {
            [low, _] if low > 0.0 => "better",
            [_, high] if high < 0.0 => "worse",
            _ => "no difference shown",
        }
    }
}

/// No evaluation has more.
const MOST_TASKS: usize = 1_000_000;

/// `after` minus `before`, task by task. `None` without common tasks.
///
/// The interval adds one task that got better and one that got worse (Bonett and Price 2012): four tasks that all got
/// better do not make a certainty, and many that all stayed the same still leave room for a little.
pub fn paired(before: &ByTask, after: &ByTask) -> Option<Difference> {
    let differences: Vec<f64> = before.iter().filter_map(|(task, was)| Some(after.get(task)? - was)).collect();
    let tasks = differences.len();
    if tasks == 0 {
        return None;
    }
    let (sum, squares) = differences.iter().fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
    let n = tasks as f64 + 2.0;
    let centre = sum / n;
    let spread = Z * (((squares + 2.0) / n - centre * centre) / n).sqrt();
    Some(Difference { mean: sum / tasks as f64, ci: [(centre - spread).max(-1.0), (centre + spread).min(1.0)], tasks })
}

#[cfg(test)]
mod tests {
    use hone_trace::Rng;

    use super::*;

    #[test]
    fn a_gain_that_is_not_shown_needs_more_tasks_than_there_are() {
        let by_task = |solved: &[usize]| -> ByTask {
            (0..16).map(|task| (task.to_string(), f64::from(u8::from(solved.contains(&task))))).collect()
        };
        let (before, after) = (by_task(&[0]), by_task(&[1, 2, 3, 4, 5]));
        let gain = paired(&before, &after).unwrap();
        assert!((gain.mean - 0.25).abs() < 1e-9 && !gain.is_gain(), "{gain:?}");
        let needed = gain.tasks_needed().unwrap();
        assert!((17..64).contains(&needed), "{needed}");
        let shown = paired(&by_task(&[]), &by_task(&[1, 2, 3, 4, 5, 6, 7, 8, 9])).unwrap();
        assert!(shown.is_gain() && shown.tasks_needed().unwrap() <= 16, "{shown:?}");
    }

    #[test]
    fn the_interval_is_wilsons() {
        // Computed by hand from the formula in double precision.
        let [low, high] = wilson(37, 100).unwrap();
        assert!((low - 0.281_823_6).abs() < 1e-6 && (high - 0.467_794_7).abs() < 1e-6, "{low} {high}");
        assert_eq!(wilson(0, 0), None);
        assert!(wilson(0, 50).unwrap()[0] == 0.0 && wilson(50, 50).unwrap()[1] == 1.0);
    }

    #[test]
    fn episodes_of_one_task_are_no_independent_evidence() {
        let width = |tasks: &[&[f64]]| {
            let (mean, [low, high]) = clustered(tasks.iter().copied()).unwrap();
            (mean, high - low)
        };
        let (good, bad): (&[f64], &[f64]) = (&[1.0], &[0.0]);
        let once: Vec<&[f64]> = (0..40).map(|at| if at % 2 == 0 { good } else { bad }).collect();
        let (repeated_good, repeated_bad): (&[f64], &[f64]) = (&[1.0; 8], &[0.0; 8]);
        let same: Vec<&[f64]> = (0..40).map(|at| if at % 2 == 0 { repeated_good } else { repeated_bad }).collect();
        let mixed: Vec<&[f64]> = vec![&[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]; 40];
        let (mean, single) = width(&once);
        let [low, high] = wilson(20, 40).unwrap();
        assert!(mean == 0.5 && (single - (high - low)).abs() < 1e-12);
        assert!((width(&same).1 / single - 1.0).abs() < 0.02, "asking again teaches nothing of other tasks");
        assert!(width(&mixed).1 <= single, "independent episodes do");
        assert_eq!(clustered(std::iter::empty()), None);
    }

    /// The interval covers the true difference in about 95 % of simulated evaluations, small ones included.
    #[test]
    fn the_paired_interval_covers() {
        let mut rng = Rng::new(5);
        for (tasks, worse, better) in [(16, 0.05, 0.3), (64, 0.1, 0.1), (256, 0.02, 0.5)] {
            let mut covered = 0;
            for _ in 0..2000 {
                let (mut before, mut after) = (ByTask::new(), ByTask::new());
                for task in 0..tasks {
                    let (was, is) = match rng.unit() {
                        u if u < worse => (1.0, 0.0),
                        u if u < worse + better => (0.0, 1.0),
                        _ => (1.0, 1.0),
                    };
                    before.insert(task.to_string(), was);
                    after.insert(task.to_string(), is);
                }
                let [low, high] = paired(&before, &after).unwrap().ci;
                covered += usize::from((low..=high).contains(&(better - worse)));
            }
            assert!((1860..=1990).contains(&covered), "{tasks} tasks: {covered} of 2000");
        }
        assert_eq!(paired(&ByTask::new(), &ByTask::new()), None);
    }
}
