//! Guard: reports a sudden drop in success, or in the share of tasks solved at least once, with the likely cause and what
//! to change.
//!
//! A policy can forget a third of its tasks while the success rate stays above half of what it was: what no episode of a
//! group solves any more has no advantage, and is not learned again.
//!
//! A step's batch is sampled by the policy of the previous step, so a drop shows one step after the update that caused
//! it. With `[guard] rollback = true` the run returns to the weights before it, at half the learning rate.

use hone_trace::documented;
use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;
use crate::ledger::names;

documented! {
    /// `[guard]`
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub(crate) struct GuardRecipe {
        /// Roll back to the last good checkpoint, at half the learning rate, after a sudden drop. Keeps at least four checkpoints.
        pub rollback: bool where open().may_change(),
        /// Smallest drop that counts, of the success rate or of the share of tasks solved at least once. 0: the guard is off.
        pub fall: f64 where real(0.0, 1.0).may_change(),
    }
}

impl Default for GuardRecipe {
    fn default() -> Self {
        Self { rollback: false, fall: 0.2 }
    }
}

impl GuardRecipe {
    /// Checkpoints to keep: a drop is noticed up to three steps after the update to blame, whose weights are the fourth
    /// checkpoint from the end.
    pub(crate) fn kept(&self, keep_last: usize) -> usize {
        if self.rollback { keep_last.max(4) } else { keep_last }
    }

    pub(crate) fn check(&self, staleness: u64) -> Result<(), String> {
        if self.rollback && staleness > 0 {
            return Err(
                "guard.rollback restores weights other than those the episodes in flight were sampled with; set \
                        async.staleness = 0 or leave guard.rollback out"
                    .into(),
            );
        }
        if self.rollback && self.fall == 0.0 {
            return Err("guard.rollback has no effect while guard.fall is 0; set it to 0.2".into());
        }
        Ok(())
    }
}

/// Steps that make up the baseline.
const NORMAL: usize = 8;
/// Size of a drop in standard errors of the mean over tasks, whose episodes are not independent.
const ERRORS: f64 = 3.0;
/// The same for the share of tasks solved at least once, which has no second condition.
const SOLVED_ERRORS: f64 = 4.0;
/// Steps that must all show such a drop, and the least steps before them.
const SOLVED_STEPS: usize = 2;
const SOLVED_NORMAL: usize = 3;

/// State of the guard between steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GuardState {
    /// The newest steps, oldest first.
    seen: Vec<Seen>,
    /// Times the learning rate was halved.
    halved: u32,
}

/// A step as the guard sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Seen {
    step: u64,
    success: f64,
    /// Share of tasks solved by at least one episode of their group.
    #[serde(default)]
    solved: Option<f64>,
    parse_failures: Option<f64>,
    entropy: Option<f64>,
    grad_norm: Option<f64>,
}

/// Measure that dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    #[default]
    Success,
    /// Share of tasks solved at least once (pass@k).
    SolvedTasks,
}

/// Size of a step's batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize {
    pub(crate) groups: usize,
    pub(crate) group_size: u32,
}

/// Sudden drop, with its likely cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fall {
    pub(crate) measure: Measure,
    /// First step whose episodes show it: the update before it is to blame.
    pub(crate) first: u64,
    pub(crate) steps: u64,
    /// Steps before it whose mean is `before`.
    pub(crate) normal: u64,
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) why: String,
}

impl GuardState {
    pub(crate) fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Factor on the learning rate.
    pub(crate) fn factor(&self) -> f64 {
        0.5f64.powi(self.halved.min(30) as i32)
    }

    /// Examines a step. The caller reports how it handled a drop: [`Self::went_back`] or
    /// [`Self::went_on`].
    pub(crate) fn look(
        &mut self,
        recipe: GuardRecipe,
        ledger: &Ledger,
        success: &str,
        BatchSize { groups, group_size }: BatchSize,
    ) -> Option<Fall> {
        let value = ledger.get(names::BATCH_REWARD_COMPONENT.of([&success]))?;
        self.seen.push(Seen {
            step: ledger.step,
            success: value,
            solved: ledger.get(names::REWARD_AVG_PASS_AT_N.of([&group_size])),
            parse_failures: ledger.get(names::REWARD_PARSE_FAILURE_RATE),
            entropy: ledger.get(names::POLICY_POLICY_ENTROPY),
            grad_norm: ledger.get(names::POLICY_GRAD_NORM),
        });
        let excess = self.seen.len().saturating_sub(NORMAL + 3);
        self.seen.drain(..excess);
        if recipe.fall == 0.0 {
            return None;
        }
        let success = [1, 3].into_iter().find_map(|late| self.fell(recipe.fall, late, groups));
        success.or_else(|| self.narrowed(recipe.fall, groups))
    }

    /// The run continues at the lower level: reported once, and later steps are measured against the new baseline.
    pub(crate) fn went_on(&mut self, first: u64) {
        self.seen.retain(|seen| seen.step >= first);
    }

    /// The weights were rolled back to before the drop: its steps no longer count as a reference, and the learning rate
    /// is halved.
    pub(crate) fn went_back(&mut self, first: u64) {
        self.seen.retain(|seen| seen.step < first);
        self.halved += 1;
    }

    /// True if the mean of the last `late` steps is far below that of the steps before.
    fn fell(&self, least: f64, late: usize, groups: usize) -> Option<Fall> {
        let split = self.seen.len().checked_sub(late).filter(|normal| *normal > 0)?;
        let (normal, fallen) = self.seen.split_at(split);
        let normal = &normal[normal.len().saturating_sub(NORMAL)..];
        let mean = |steps: &[Seen]| steps.iter().map(|seen| seen.success).sum::<f64>() / steps.len() as f64;
        let (before, after) = (mean(normal), mean(fallen));
        let p = before.clamp(0.0, 1.0);
        let error = (p * (1.0 - p) / (groups * late).max(1) as f64).sqrt();
        // All of them must be low: one bad step among three is the first case, not the second.
        let low = fallen.iter().all(|seen| seen.success < before / 2.0);
        let first = fallen.first()?;
        (low && before - after > least.max(ERRORS * error)).then(|| Fall {
            measure: Measure::Success,
            first: first.step,
            steps: late as u64,
            normal: normal.len() as u64,
            before,
            after,
            why: cause(normal, fallen),
        })
    }

    /// True if the last steps all solved far fewer tasks, at least once, than the steps before.
    fn narrowed(&self, least: f64, groups: usize) -> Option<Fall> {
        let split = self.seen.len().checked_sub(SOLVED_STEPS)?;
        let (normal, fallen) = self.seen.split_at(split);
        let normal = &normal[normal.len().saturating_sub(NORMAL)..];
        let solved = |steps: &[Seen]| steps.iter().map(|seen| seen.solved).collect::<Option<Vec<f64>>>();
        let (before, after) = (solved(normal)?, solved(fallen)?);
        if before.len() < SOLVED_NORMAL {
            return None;
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (before, most) = (mean(&before), after.iter().copied().fold(0.0, f64::max));
        let error = (before.clamp(0.0, 1.0) * (1.0 - before).max(0.0) / groups.max(1) as f64).sqrt();
        (before - most > least.max(SOLVED_ERRORS * error)).then(|| Fall {
            measure: Measure::SolvedTasks,
            first: fallen[0].step,
            steps: SOLVED_STEPS as u64,
            normal: normal.len() as u64,
            before,
            after: mean(&after),
            why: cause(normal, fallen),
        })
    }
}

/// Change of the entropy that can explain a drop in success, as a ratio.
const RATIO: f64 = 2.0;

/// Most likely cause, judging by what else changed: the last steps against the steps before them.
fn cause(normal: &[Seen], fallen: &[Seen]) -> String {
    let failures = shift(normal, fallen, |seen| seen.parse_failures);
    if let Some(Shift { was, is, clear: true }) = failures
        && is > was
        && is - was > LEAST_FAILURES
    {
        return format!(
            "replies that cannot be read went from {was:.3} to {is:.3}: the policy is losing the format of a call, which \
             updates that are too large do"
        );
    }
    if let Some(Shift { was, is, clear: true }) = shift(normal, fallen, |seen| seen.entropy).filter(|by| by.was > 0.0) {
        if is < was / RATIO {
            return format!("entropy fell from {was:.3} to {is:.3}: the policy gives the same reply to every prompt");
        }
        if is > was * RATIO {
            return format!("entropy rose from {was:.3} to {is:.3}: the updates scattered the policy");
        }
    }
    match normal.last().and_then(|seen| seen.grad_norm) {
        Some(was) if was > 10.0 => format!("the gradient before it had a norm of {was:.1}"),
        _ => "neither replies that cannot be read nor entropy changed clearly: the policy does something else now, or the \
              environment or the reward changed"
            .into(),
    }
}

/// Smallest rise in unreadable replies that can explain a drop in success.
const LEAST_FAILURES: f64 = 0.05;

/// Means before and after, and whether they differ by more than the noise.
struct Shift {
    was: f64,
    is: f64,
    clear: bool,
}

fn shift(normal: &[Seen], fallen: &[Seen], value: impl Fn(&Seen) -> Option<f64>) -> Option<Shift> {
    let values = |steps: &[Seen]| steps.iter().filter_map(&value).collect::<Vec<f64>>();
    let (before, after) = (values(normal), values(fallen));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let (was, is) = (mean(&before), mean(&after));
    let squares: f64 = before.iter().map(|value| (value - was).powi(2)).sum();
    // With few steps the noise is not known.
    let noise = if before.len() > 2 { (squares / (before.len() - 1) as f64).sqrt() } else { 0.0 };
    let error = noise * (1.0 / before.len() as f64 + 1.0 / after.len() as f64).sqrt();
    Some(Shift { was, is, clear: (is - was).abs() > ERRORS * error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Metrics;

    const SIZE: BatchSize = BatchSize { groups: 16, group_size: 8 };

    fn look(guard: &mut GuardState, step: u64, success: f64, failures: f64) -> Option<Fall> {
        let mut metrics = Metrics::default();
        metrics.set(names::BATCH_REWARD_COMPONENT.of([&"correct"]), success);
        metrics.set(names::REWARD_PARSE_FAILURE_RATE, failures);
        guard.look(GuardRecipe::default(), &Ledger::of(step, [metrics]), "correct", SIZE)
    }

    /// A step in which `solved` of 32 tasks were solved at least once.
    fn look_at_solved(guard: &mut GuardState, step: u64, success: f64, solved: usize) -> Option<Fall> {
        let mut metrics = Metrics::default();
        metrics.set(names::BATCH_REWARD_COMPONENT.of([&"correct"]), success);
        metrics.set(names::REWARD_AVG_PASS_AT_N.of([&8]), solved as f64 / 32.0);
        let size = BatchSize { groups: 32, ..SIZE };
        guard.look(GuardRecipe::default(), &Ledger::of(step, [metrics]), "correct", size)
    }

    /// The figures of a run that forgot a third of its tasks in one update, at 0.57 of its success.
    #[test]
    fn tasks_that_are_no_longer_solved_at_all_are_noticed() {
        let mut guard = GuardState::default();
        for (step, solved) in (1..).zip([30, 30, 31, 29, 30]) {
            assert_eq!(look_at_solved(&mut guard, step, 0.56, solved), None);
        }
        assert_eq!(look_at_solved(&mut guard, 6, 0.36, 20), None, "one step may be bad luck with its tasks");
        let fall = look_at_solved(&mut guard, 7, 0.34, 20).unwrap();
        assert_eq!((fall.measure, fall.first, fall.steps), (Measure::SolvedTasks, 6, 2));
        assert!((fall.before - 0.9375).abs() < 1e-9 && (fall.after - 0.625).abs() < 1e-9, "{fall:?}");
    }

    #[test]
    fn noise_in_the_tasks_drawn_is_no_forgetting() {
        for (seed, rate) in [(5, 0.5), (6, 0.8), (7, 0.94), (8, 0.2)] {
            let mut guard = GuardState::default();
            let (mut rng, mut falls) = (hone_trace::Seed::root(seed).rng(), 0);
            for step in 1..=2000 {
                let solved = (0..32).filter(|_| rng.unit() < rate).count();
                falls += usize::from(look_at_solved(&mut guard, step, 0.5, solved).is_some());
            }
            assert_eq!(falls, 0, "false alarms in 2000 steps at {rate}");
        }
    }

    /// As in a run that does not roll back.
    fn look_on(guard: &mut GuardState, step: u64, success: f64, failures: f64) -> Option<Fall> {
        let fall = look(guard, step, success, failures)?;
        guard.went_on(fall.first);
        Some(fall)
    }

    #[test]
    fn a_cliff_is_seen_in_one_step_and_said_once() {
        let mut guard = GuardState::default();
        for (step, success) in (1..).zip([0.5, 0.6, 0.55, 0.5]) {
            assert_eq!(look(&mut guard, step, success, 0.02), None);
        }
        let fall = look_on(&mut guard, 5, 0.02, 0.98).unwrap();
        assert_eq!((fall.first, fall.steps), (5, 1));
        assert!((fall.before - 0.5375).abs() < 1e-9 && fall.why.contains("0.020 to 0.980"), "{fall:?}");
        for step in 6..20 {
            assert_eq!(look_on(&mut guard, step, 0.01, 0.98), None);
        }
    }

    /// A policy that lost the format in part, and became less sure: both are said with their numbers.
    #[test]
    fn a_cause_is_told_by_relative_changes_beyond_the_noise() {
        let seen = |step, parse_failures, entropy| Seen {
            step,
            success: 0.0,
            solved: None,
            parse_failures: Some(parse_failures),
            entropy: Some(entropy),
            grad_norm: Some(1.0),
        };
        let normal: Vec<Seen> = (0..8).map(|step| seen(step, 0.028 + 0.004 * (step % 2) as f64, 0.088)).collect();
        let why = cause(&normal, &[seen(8, 0.186, 0.233)]);
        assert!(why.contains("0.030 to 0.186"), "{why}");
        let why = cause(&normal, &[seen(8, 0.04, 0.233)]);
        assert!(why.contains("entropy rose from 0.088 to 0.233"), "{why}");
        let noisy: Vec<Seen> = (0..8).map(|step| seen(step, 0.2 * (step % 2) as f64, 0.088)).collect();
        let why = cause(&noisy, &[seen(8, 0.22, 0.1)]);
        assert!(why.contains("neither"), "{why}");
    }

    #[test]
    fn noise_is_no_cliff() {
        let mut guard = GuardState::default();
        let (mut rng, mut falls) = (hone_trace::Seed::root(3).rng(), 0);
        for step in 1..=2000 {
            let solved = (0..16).filter(|_| rng.unit() < 0.5).count();
            falls += usize::from(look_on(&mut guard, step, solved as f64 / 16.0, 0.0).is_some());
        }
        assert!(falls <= 10, "{falls} false alarms in 2000 steps");
    }

    #[test]
    fn a_fall_from_a_low_rate_is_seen_over_three_steps() {
        let mut guard = GuardState::default();
        for step in 1..=8 {
            assert_eq!(look(&mut guard, step, 0.3, 0.0), None);
        }
        let falls: Vec<bool> = (9..=11).map(|step| look(&mut guard, step, 0.0, 0.0).is_some()).collect();
        assert_eq!(falls, [false, false, true]);
    }

    #[test]
    fn going_back_halves_the_rate_and_keeps_the_old_normal() {
        let mut guard = GuardState::default();
        for step in 1..=4 {
            look(&mut guard, step, 0.55, 0.0);
        }
        let fall = look(&mut guard, 5, 0.0, 0.9).unwrap();
        guard.went_back(fall.first);
        assert!((guard.factor() - 0.5).abs() < 1e-12);
        assert_eq!(look(&mut guard, 6, 0.4, 0.0), None);
        // Against the one step since, 0.4 to 0.04 could be luck; against all good ones it is not.
        assert!(look(&mut guard, 7, 0.04, 0.4).is_some(), "the next cliff is seen too");
    }

    #[test]
    fn a_step_without_a_score_is_no_fall() {
        let mut guard = GuardState::default();
        look(&mut guard, 1, 0.9, 0.0);
        assert_eq!(guard.look(GuardRecipe::default(), &Ledger::of(2, [Metrics::default()]), "correct", SIZE), None);
    }
}
