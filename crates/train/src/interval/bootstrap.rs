//! Bootstrap intervals over tasks: episodes of one task are not independent, so tasks are resampled, never episodes.
//!
//! The percentile interval of few tasks is too narrow, by the factor between the bootstrap's variance and the sample's
//! and between the normal and Student's quantile. Both are corrected (Hesterberg 2015, "What teachers should know about
//! the bootstrap", section 4.1.3).
//!
//! Near 0 and 1 it is too narrow as well, since unseen outcomes cannot be drawn: with 64 tasks of four episodes and a
//! true value of 0.03 it covered that in 86 of 100 simulated evaluations. Shares are therefore drawn from the tasks and
//! two more, one that always passes and one that never does (as Agresti and Coull 1998 add to a binomial); the estimate
//! stays the tasks' own mean. Shares of tasks that each passed or failed have Wilson's interval, as in a run's report.

use hone_trace::{Rng, Seed};
use serde::{Deserialize, Serialize};

use super::{Z, wilson};

/// A mean over tasks with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    pub ci: [f64; 2],
    /// Number of tasks.
    pub tasks: usize,
}

const DRAWS: usize = 2000;
/// Samples of the sign-flip test, if there are too many sign patterns to enumerate.
const TRIES: usize = 10_000;
/// The mean of the tasks' values. `None` without values. `share`: the values are shares, and so are the interval's
/// ends.
pub fn over_tasks(values: &[f64], share: bool) -> Option<Estimate> {
    drawn(values, share, DRAWS)
}

fn drawn(values: &[f64], share: bool, draws: usize) -> Option<Estimate> {
    let tasks = values.len();
    if tasks == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / tasks as f64;
    // One outcome for each task: the interval that a run's own evaluations have.
    if share && values.iter().all(|value| *value == 0.0 || *value == 1.0) {
        let good = values.iter().filter(|value| **value == 1.0).count();
        return wilson(good, tasks).map(|ci| Estimate { mean, ci, tasks });
    }
    let pool: Vec<f64> = values.iter().copied().chain([0.0, 1.0].into_iter().filter(|_| share)).collect();
    let flat = pool.iter().all(|value| (value - pool[0]).abs() < 1e-12);
    if flat {
        return Some(Estimate { mean, ci: [mean, mean], tasks });
    }
    let of = |pool: &[&f64]| Some(pool.iter().copied().sum::<f64>() / pool.len() as f64);
    let centre = pool.iter().sum::<f64>() / pool.len() as f64;
    let rng = Seed::root(0).with("bootstrap").at(tasks as u64).rng();
    let mut ci = widened(&resampled(&pool, draws, rng, of), centre, pool.len(), tasks)?;
    if share {
        ci = [ci[0].clamp(0.0, mean), ci[1].clamp(mean, 1.0)];
    }
    Some(Estimate { mean, ci, tasks })
}

/// Interval of any statistic of the tasks, whose value on all of them is `estimate`. Draws on which the statistic is
/// undefined count as not drawn. `None` for a single task.
pub(crate) fn of_statistic<T>(
    tasks: &[T],
    estimate: f64,
    purpose: &str,
    statistic: impl Fn(&[&T]) -> Option<f64>,
) -> Option<[f64; 2]> {
    if tasks.len() < 2 {
        return None;
    }
    let draws = resampled(tasks, DRAWS, Seed::root(0).with(purpose).rng(), statistic);
    widened(&draws, estimate, tasks.len(), tasks.len())
}

/// The statistic of tasks drawn with replacement, `draws` times, sorted.
fn resampled<T>(pool: &[T], draws: usize, mut rng: Rng, statistic: impl Fn(&[&T]) -> Option<f64>) -> Vec<f64> {
    let mut drawn = Vec::with_capacity(pool.len());
    let mut one = || {
        drawn.clear();
        drawn.extend((0..pool.len()).map(|_| &pool[rng.below(pool.len())]));
        statistic(&drawn)
    };
    let mut values: Vec<f64> = (0..draws).filter_map(|_| one()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Percentile interval of sorted draws around `centre`, widened for few tasks. `None` without draws.
fn widened(sorted: &[f64], centre: f64, size: usize, tasks: usize) -> Option<[f64; 2]> {
    let last = sorted.len().checked_sub(1)? as f64;
    let at = |share: f64| sorted[(last * share).round() as usize];
    let n = size as f64;
    let wider = (n / (n - 1.0)).sqrt() * student((tasks as f64 - 1.0).max(1.0)) / Z;
    Some([centre - (centre - at(0.025)) * wider, centre + (at(0.975) - centre) * wider])
}

/// The 97.5 % quantile of Student's distribution, by the Cornish-Fisher expansion; exact to 1 % from 3 degrees of freedom on.
fn student(nu: f64) -> f64 {
    if nu < 3.0 {
        return if nu < 2.0 { 12.706 } else { 4.303 };
    }
    let z = Z;
    z + (z.powi(3) + z) / (4.0 * nu)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * nu * nu)
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * nu.powi(3))
}

/// The chance of a mean difference at least this large if signs were arbitrary: a two-sided sign-flip test. Exact up to 16
/// differences that are not 0, else by 10,000 draws. `None` without differences.
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let moved: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    let seen = moved.iter().sum::<f64>().abs() - 1e-9;
    if moved.len() <= 16 {
        let all = 1u32 << moved.len();
        let sum = |signs: u32| {
            moved.iter().enumerate().map(|(at, d)| if signs >> at & 1 == 0 { *d } else { -d }).sum::<f64>()
        };
        let as_large = (0..all).filter(|signs| sum(*signs).abs() >= seen).count();
        return Some(as_large as f64 / f64::from(all));
    }
    let mut rng = Seed::root(0).with("sign flip").rng();
    let mut one = || moved.iter().map(|d| if rng.below(2) == 0 { *d } else { -d }).sum::<f64>().abs() >= seen;
    let as_large = (0..TRIES).filter(|_| one()).count();
    // The observed signs are one of the possible patterns.
    Some((as_large + 1) as f64 / (TRIES + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of simulated evaluations whose interval covers the true mean: tasks from easy to hard, some episodes
    /// each.
    fn covered(tasks: usize, episodes: u32, truth: f64) -> f64 {
        let (mut rng, rounds) = (Rng::new(11), 1500);
        let mut holds = || {
            let mut task = || {
                // A power of a uniform, with this mean.
                let p = rng.unit().powf(1.0 / truth - 1.0);
                (0..episodes).filter(|_| rng.unit() < p).count() as f64 / f64::from(episodes)
            };
            let values: Vec<f64> = (0..tasks).map(|_| task()).collect();
            let [low, high] = drawn(&values, true, 400).unwrap().ci;
            (low..=high).contains(&truth)
        };
        (0..rounds).filter(|_| holds()).count() as f64 / f64::from(rounds)
    }

    #[test]
    fn the_interval_covers() {
        for (tasks, episodes, truth) in [(50, 3, 0.5), (120, 1, 0.5), (64, 4, 0.3), (120, 4, 0.2), (250, 1, 0.1)] {
            let share = covered(tasks, episodes, truth);
            assert!((0.93..=0.97).contains(&share), "{tasks} tasks of {episodes} episodes, {truth}: {share}");
        }
    }

    /// Few tasks, nearly all alike: the interval errs on the wide side; Wilson's of 20 tasks played once on the narrow one.
    #[test]
    fn the_interval_of_little_evidence_is_not_too_narrow() {
        for (tasks, episodes, truth) in [(12, 4, 0.5), (20, 4, 0.1), (20, 1, 0.05), (64, 4, 0.03), (64, 1, 0.05)] {
            let share = covered(tasks, episodes, truth);
            let least = if episodes == 1 { 0.91 } else { 0.93 };
            assert!(share >= least, "{tasks} tasks of {episodes} episodes, {truth}: {share}");
        }
    }

    #[test]
    fn tasks_that_all_agree_are_no_certainty() {
        let all = over_tasks(&[1.0; 20], true).unwrap();
        assert!(all.mean == 1.0 && all.ci[0] < 0.9 && all.ci[1] == 1.0, "{all:?}");
        assert_eq!(over_tasks(&[], true), None);
        let half = over_tasks(&[0.5; 8], true).unwrap();
        assert!(half.ci[0] < 0.5 && half.ci[1] > 0.5);
        let one = over_tasks(&[1.0], true).unwrap();
        assert!(one.ci[0] < 0.25 && one.ci[1] == 1.0, "{one:?}");
        let mut passed = vec![1.0; 56];
        passed.resize(64, 0.0);
        assert_eq!(Some(over_tasks(&passed, true).unwrap().ci), wilson(56, 64), "as the report of a run");
        assert_eq!(over_tasks(&[-0.5; 3], false).unwrap().ci, [-0.5, -0.5], "a reward has no ends to think of");
    }

    #[test]
    fn students_quantiles() {
        for (nu, exact) in [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (9.0, 2.262), (30.0, 2.042), (1e9, Z)] {
            assert!((student(nu) / exact - 1.0).abs() < 0.01, "{nu}: {}", student(nu));
        }
    }

    #[test]
    fn the_sign_flip_test_is_exact_for_few_and_close_for_many() {
        // Five tasks that all got better: 2 of 32 sign patterns are as large.
        assert_eq!(sign_flip(&[1.0; 5]), Some(2.0 / 32.0));
        assert_eq!(sign_flip(&[0.0, 0.0]), Some(1.0));
        assert_eq!(sign_flip(&[]), None);
        // McNemar's mid-sized case: 30 better, 10 worse; the exact two-sided binomial value is 0.0022.
        let many: Vec<f64> = (0..40).map(|at| if at < 30 { 1.0 } else { -1.0 }).collect();
        let p = sign_flip(&many).unwrap();
        assert!((0.0005..0.006).contains(&p), "{p}");
    }
}
