//! Stated confidences compared with a constant: Murphy's decomposition of recorded forecasts, the skill over the base
//! rate, and a permutation test.
//!
//! A calibration reward rises with accuracy whatever the confidences say: confident and mostly right scores well. The
//! contribution of the confidences is the skill, 1 − loss / uncertainty: 0 for the base rate as a constant, which is
//! the best a policy can do that does not know when it is right.

use std::collections::BTreeMap;

use hone_arena::rewards::calibration::{forecast, murphy};
use hone_trace::{Forecast, Seed, Trace};
use serde::{Deserialize, Serialize};

use super::EpisodeSet;
use crate::interval::bootstrap::of_statistic;

/// Permutations of the test.
const DRAWS: usize = 2000;

/// Brier loss = reliability − resolution + uncertainty.
///
/// Reliability is the cost of wrong numbers, resolution the gain from distinguishing easy from hard, uncertainty a
/// property of the tasks. A calibration reward that rises while resolution stays near 0 is a constant confidence, not
/// knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub n: usize,
    pub brier_loss: f64,
    pub reliability: f64,
    pub resolution: f64,
    pub uncertainty: f64,
    pub mean_confidence: f64,
    pub success: f64,
    /// Brier skill score over the base rate; absent if all answers had the same outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Skill>,
    /// Mean score of the right answers' confidences, and of the wrong ones'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_right: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_wrong: Option<f64>,
    /// The change of the mean score since the first set of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// Skill of forecasts over a constant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// 1 − loss / uncertainty.
    pub value: f64,
    /// 95 % interval: bootstrap over tasks, the base rate taken anew in each, widened for few tasks. Absent for a single
    /// task.
    pub interval: Option<[f64; 2]>,
    /// The share of permutations of the outcomes over the tasks whose resolution is at least as large.
    pub resolution_p: f64,
    /// The mean calibration reward of these forecasts.
    pub earned: f64,
    /// The best constant confidence, which is the base rate, and its mean calibration reward.
    pub best_constant: f64,
    pub constant_earns: f64,
}

/// Change of the mean score, split exactly: how often answers are right, and what is stated about right and wrong ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub total: f64,
    /// Part due to more or fewer right answers, each scored at the mean of its kind.
    pub accuracy: f64,
    /// Part due to different confidences in right or wrong answers.
    pub confidence: f64,
}

impl Calibration {
    /// Skill is shown: the interval lies above 0.
    pub fn is_skilled(&self) -> bool {
        self.skill.and_then(|skill| skill.interval).is_some_and(|[low, _]| low > 0.0)
    }

    /// Verdict on the confidences, in words.
    pub fn verdict(&self) -> String {
        let Some(Skill { value, interval, earned, best_constant, constant_earns, .. }) = self.skill else {
            return "all answers had the same outcome, so calibration is undefined".into();
        };
        let constant =
            format!("saying {best_constant:.2} every time would earn {constant_earns:.4}, they earn {earned:.4}");
        match interval {
            None => format!("one task shows no skill, {value:.3}: {constant}"),
            Some([low, high]) => {
                let found = match (low > 0.0, high < 0.0) {
                    (true, _) => "the confidences have skill over a constant:",
                    (_, true) => "the confidences are worse than a constant, skill",
                    _ => "no skill over a constant is shown,",
                };
                format!("{found} {value:.3} ({low:.3} to {high:.3}): {constant}")
            }
        }
    }

    /// The change from `self` to `later`, by Kitagawa's decomposition: each part at the mean of the other.
    fn change_to(&self, later: &Self) -> Change {
        // A side without such answers says nothing about their confidences.
        let scores = |before: Option<f64>, after: Option<f64>| {
            let (before, after) = (before.or(after).unwrap_or(0.0), after.or(before).unwrap_or(0.0));
            (0.5 * (before + after), after - before)
        };
        let (right, more_right) = scores(self.score_right, later.score_right);
        let (wrong, more_wrong) = scores(self.score_wrong, later.score_wrong);
        let rate = 0.5 * (self.success + later.success);
        Change {
            total: self.brier_loss - later.brier_loss,
            accuracy: (later.success - self.success) * (right - wrong),
            confidence: rate * more_right + (1.0 - rate) * more_wrong,
        }
    }
}

/// The changes of later sets of a kind since its first, in the order in which they are given.
pub(super) fn changes(mut sets: Vec<(EpisodeSet, Calibration)>) -> BTreeMap<EpisodeSet, Calibration> {
    for at in 1..sets.len() {
        let (before, later) = sets.split_at_mut(at);
        let (set, calibration) = &mut later[0];
        let first = before.iter().find(|(other, _)| other.is_like(*set));
        calibration.change = first.map(|(_, first)| first.change_to(calibration));
    }
    sets.into_iter().collect()
}

/// Confidences with their outcomes, by task: answers to one task are not independent of each other.
#[derive(Debug, Default)]
pub struct Forecasts {
    tasks: BTreeMap<String, Vec<(f64, bool)>>,
}

impl Forecasts {
    /// The confidences a trace stated, as its rewards recorded them.
    pub(super) fn add_trace(&mut self, trace: &Trace) {
        for Forecast { confidence, correct } in trace.rewards.iter().filter_map(forecast) {
            self.add(&trace.task, confidence, correct);
        }
    }

    pub fn add(&mut self, task: &str, confidence: f64, correct: bool) {
        self.tasks.entry(task.to_owned()).or_default().push((confidence, correct));
    }

    /// `None` for no forecasts.
    pub fn judge(&self) -> Option<Calibration> {
        let forecasts: Vec<(f64, bool)> = self.tasks.values().flatten().copied().collect();
        let parts = murphy(&forecasts)?;
        let n = forecasts.len();
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            (count > 0.0).then(|| sum / count)
        };
        let score =
            |wanted: bool| mean(&mut forecasts.iter().filter(|(_, correct)| *correct == wanted).map(|f| 1.0 - loss(f)));
        let success = forecasts.iter().filter(|(_, correct)| *correct).count() as f64 / n as f64;
        let skill = (parts.uncertainty > 0.0).then(|| Skill {
            value: 1.0 - parts.loss / parts.uncertainty,
            interval: self.interval(1.0 - parts.loss / parts.uncertainty),
            resolution_p: self.resolution_p(parts.resolution),
            earned: 1.0 - parts.loss,
            best_constant: success,
            constant_earns: 1.0 - parts.uncertainty,
        });
        Some(Calibration {
            n,
            brier_loss: parts.loss,
            reliability: parts.reliability,
            resolution: parts.resolution,
            uncertainty: parts.uncertainty,
            mean_confidence: mean(&mut forecasts.iter().map(|(confidence, _)| *confidence)).unwrap_or(0.0),
            success,
            skill,
            score_right: score(true),
            score_wrong: score(false),
            change: None,
        })
    }

    /// Interval of the skill over tasks drawn with replacement. Draws in which all answers had the same outcome have none.
    fn interval(&self, skill: f64) -> Option<[f64; 2]> {
        let tasks: Vec<[f64; 3]> = self.tasks.values().map(|forecasts| sums(forecasts)).collect();
        let [low, high] = of_statistic(&tasks, skill, "skill interval", |drawn| {
            let mut all = [0.0; 3];
            drawn.iter().for_each(|task| all.iter_mut().zip(*task).for_each(|(sum, part)| *sum += part));
            let [n, right, loss] = all;
            let uncertainty = right / n * (1.0 - right / n);
            (uncertainty > 0.0).then(|| 1.0 - loss / n / uncertainty)
        })?;
        // No forecasts are better than certainty.
        Some([low, high.min(1.0)])
    }

    /// Permutes outcomes between whole tasks, so that the dependence within a task is preserved.
    fn resolution_p(&self, observed: f64) -> f64 {
        let mut outcomes: Vec<Vec<bool>> =
            self.tasks.values().map(|task| task.iter().map(|(_, correct)| *correct).collect()).collect();
        let mut rng = Seed::root(0).with("resolution").rng();
        let mut at_least = 1;
        for _ in 0..DRAWS {
            rng.shuffle(&mut outcomes);
            let confidences = self.tasks.values().flatten().map(|(confidence, _)| *confidence);
            let permuted: Vec<_> = confidences.zip(outcomes.iter().flatten().copied()).collect();
            at_least += usize::from(murphy(&permuted).is_some_and(|parts| parts.resolution >= observed - 1e-12));
        }
        at_least as f64 / (DRAWS + 1) as f64
    }
}

fn loss((confidence, correct): &(f64, bool)) -> f64 {
    (confidence - f64::from(u8::from(*correct))).powi(2)
}

/// Number, right ones and Brier loss of a task's forecasts.
fn sums(forecasts: &[(f64, bool)]) -> [f64; 3] {
    let right = forecasts.iter().filter(|(_, correct)| *correct).count();
    [forecasts.len() as f64, right as f64, forecasts.iter().map(loss).sum()]
}

#[cfg(test)]
mod tests {
    use hone_trace::Rng;

    use super::*;

    /// Counts of tasks by (confidence, share right of a hundred).
    fn forecasts(kinds: &[(f64, usize, usize)]) -> Forecasts {
        let mut all = Forecasts::default();
        for (kind, &(confidence, percent, count)) in kinds.iter().enumerate() {
            for task in 0..count {
                all.add(&format!("{kind}-{task}"), confidence, task * 100 < percent * count);
            }
        }
        all
    }

    #[test]
    fn a_constant_confidence_has_no_skill_and_is_told_so() {
        for constant in [0.83, 0.97, 0.5] {
            let judged = forecasts(&[(constant, 83, 500)]).judge().unwrap();
            let skill = judged.skill.unwrap();
            assert!(skill.value <= 1e-12 && skill.interval.unwrap()[0] <= 0.0 && !judged.is_skilled(), "{skill:?}");
            assert!(judged.resolution < 1e-12 && skill.resolution_p == 1.0, "{judged:?}");
            assert!((skill.constant_earns - (1.0 - 0.83 * 0.17)).abs() < 1e-12 && skill.best_constant == 0.83);
            assert!(!judged.verdict().contains("have skill over a constant"), "{}", judged.verdict());
        }
        assert!(forecasts(&[(0.97, 83, 500)]).judge().unwrap().verdict().contains("worse than a constant"));
        assert!(forecasts(&[(0.84, 83, 500)]).judge().unwrap().verdict().contains("no skill over a constant is shown"));
    }

    #[test]
    fn confidences_that_know_have_skill() {
        let judged = forecasts(&[(0.5, 50, 100), (0.9, 90, 300)]).judge().unwrap();
        let skill = judged.skill.unwrap();
        // Resolution 0.25 · 0.3² + 0.75 · 0.1² = 0.03 of an uncertainty of 0.16.
        let [low, high] = skill.interval.unwrap();
        assert!((skill.value - 0.03 / 0.16).abs() < 1e-9 && low > 0.05 && high < 0.35);
        assert!(
            skill.resolution_p < 0.001
                && judged.is_skilled()
                && judged.verdict().contains("have skill over a constant")
        );
        // Two levels that mean nothing.
        let noise = forecasts(&[(0.7, 80, 200), (0.9, 80, 200)]).judge().unwrap();
        assert!(noise.skill.unwrap().resolution_p > 0.2 && !noise.is_skilled());
    }

    /// Sixteen answers to a task are one piece of evidence, not sixteen.
    #[test]
    fn answers_to_one_task_hang_together() {
        let (mut apart, mut together) = (Forecasts::default(), Forecasts::default());
        for index in 0..160 {
            let (task, right) = (index / 16, (index / 16) % 3 != 0);
            let confidence = if task % 2 == 0 { 0.6 } else { 0.7 };
            apart.add(&index.to_string(), confidence, right);
            together.add(&task.to_string(), confidence, right);
        }
        let width = |forecasts: &Forecasts| {
            let [low, high] = forecasts.judge().unwrap().skill.unwrap().interval.unwrap();
            high - low
        };
        assert!(width(&together) > 2.0 * width(&apart));
    }

    /// Share of simulated evaluations whose interval covers the true skill: half the tasks are coin flips and half are
    /// easy, and the confidences say which, a little too surely.
    fn covered(tasks: usize, episodes: usize) -> f64 {
        let (mut rng, rounds) = (Rng::new(5), 300);
        let kinds = [(0.5, 0.6), (0.9, 0.95)];
        let loss = |(p, c): (f64, f64)| p * (1.0 - c).powi(2) + (1.0 - p) * c.powi(2);
        let truth = 1.0 - f64::midpoint(loss(kinds[0]), loss(kinds[1])) / (0.7 * 0.3);
        let mut holds = || {
            let mut all = Forecasts::default();
            for task in 0..tasks {
                let (p, confidence) = kinds[rng.below(2)];
                (0..episodes).for_each(|_| all.add(&task.to_string(), confidence, rng.unit() < p));
            }
            let parts = murphy(&all.tasks.values().flatten().copied().collect::<Vec<_>>()).unwrap();
            let interval = all.interval(1.0 - parts.loss / parts.uncertainty);
            interval.is_none_or(|[low, high]| (low..=high).contains(&truth))
        };
        (0..rounds).filter(|_| holds()).count() as f64 / f64::from(rounds)
    }

    /// The plain percentile interval covered the truth in 89 of 100 evaluations of 12 tasks.
    #[test]
    fn the_interval_of_the_skill_covers() {
        for (tasks, episodes) in [(12, 4), (64, 2)] {
            let share = covered(tasks, episodes);
            assert!((0.92..=0.99).contains(&share), "{tasks} tasks of {episodes} episodes: {share}");
        }
    }

    #[test]
    fn a_change_is_split_into_accuracy_and_confidence() {
        let judge = |kinds: &[(f64, usize, usize)]| forecasts(kinds).judge().unwrap();
        let (before, after) = (judge(&[(0.97, 55, 400)]), judge(&[(0.97, 88, 400)]));
        let change = before.change_to(&after);
        assert!(
            (change.total - change.accuracy).abs() < 1e-12 && change.confidence.abs() < 1e-12 && change.total > 0.3
        );
        let modest = judge(&[(0.6, 55, 400)]);
        let change = before.change_to(&modest);
        assert!(
            change.accuracy.abs() < 1e-12 && (change.confidence - change.total).abs() < 1e-12 && change.total > 0.0
        );
        for later in [judge(&[(0.5, 50, 100), (0.9, 90, 300)]), judge(&[(1.0, 100, 10)]), judge(&[(0.2, 0, 10)])] {
            let Change { total, accuracy, confidence } = before.change_to(&later);
            assert!((accuracy + confidence - total).abs() < 1e-12);
        }
    }
}
