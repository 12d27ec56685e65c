use std::collections::BTreeMap;

use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;
use hone_trace::{Outcome, Trace};
use hone_train::evaluate::count;
use hone_train::events::Event;
use hone_train::ledger::Ledger;
use hone_train::ledger::names::{BATCH_REWARD_COMPONENT, Name, REWARD_AVG_RAW_REWARD, REWARD_SUCCESS_RATE};
use hone_train::report::Evaluated;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::{Episodes, Run};

pub(super) const CHECK: Check = Check {
    name: "metrics_mismatch",
    what: "Headline numbers do not match the episodes: metrics, evaluations or a report say more or less than the \
           traces earned.",
    measure: "`reward/success_rate`, `reward/avg_raw_reward` and `batch_reward/*` of up to 64 steps, the results of up to \
              8 evaluations, and the held-out success in report.json, each counted again from the recorded traces. Error \
              where one differs by more than rounding.",
    fix: "Trust the traces: `hone report` recounts the evaluations. Restore metrics.jsonl and events.jsonl as the run \
          wrote them, or look for a metric that is computed from other episodes than the recorded ones.",
    explains: &["reward_without_success", "success_cliff", "too_few_tasks", "no_signal"],
    look,
};

/// Steps and evaluations that are counted again.
const STEPS: usize = 64;
const EVALUATIONS: usize = 8;
/// Largest difference, relative to the larger of the two or to 1.
const TOLERANCE: f64 = 1e-6;

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mut numbers = Numbers::default();
    numbers.of_steps(run)?;
    numbers.of_evaluations(run)?;
    numbers.of_report(run);
    let Numbers { compared, wrong } = numbers;
    if compared == 0 {
        return Looked::skipped("metrics of rewards, or evaluations, beside the traces that they were counted from");
    }
    if wrong.is_empty() {
        return Ok(Looked::Healthy);
    }
    let upward = wrong.iter().filter(|wrong| wrong.more > 0.0).count();
    let says =
        format!("{} of {compared} numbers are not what their traces make, {upward} of them too high", wrong.len());
    Finding::new(Severity::Error, says)
        .lines(wrong.iter().take(4).map(|wrong| wrong.line.clone()))
        .traces(wrong.iter().filter_map(|wrong| wrong.trace))
        .into()
}

/// Recorded numbers compared with those counted again.
#[derive(Default)]
struct Numbers {
    compared: usize,
    wrong: Vec<Wrong>,
}

struct Wrong {
    /// Excess of the recorded number.
    more: f64,
    line: String,
    trace: Option<u64>,
}

impl Numbers {
    fn compare(&mut self, said: f64, counted: f64, trace: Option<u64>, line: impl FnOnce() -> String) {
        self.compared += 1;
        if !near(said, counted) {
            self.wrong.push(Wrong { more: said - counted, line: line(), trace });
        }
    }

    fn of_steps(&mut self, run: &Run) -> Result<(), RunDirError> {
        // Of a step that was recorded again after a crash, the last record counts.
        let steps: BTreeMap<_, _> = run.all_steps().into_iter().collect();
        for (step, range) in spread(&steps.into_iter().collect::<Vec<_>>(), STEPS) {
            let Some(ledger) = run.steps.iter().find(|ledger| ledger.step == *step) else { continue };
            let episodes = run.step_episodes(range)?;
            let first = episodes.first().map(|(number, _)| *number);
            for (name, counted) in headlines(ledger, &episodes, &run.recipe.eval.success) {
                let Some(said) = ledger.get(name.clone()) else { continue };
                self.compare(said, counted, first, || {
                    format!("`{}` of step {step} is {said:.4}, and its traces make {counted:.4}", name.as_str())
                });
            }
        }
        Ok(())
    }

    fn of_evaluations(&mut self, run: &Run) -> Result<(), RunDirError> {
        let evaluations = run.events.iter().filter_map(|event| match event {
            Event::Eval { step, kind, result: Some(result), traces: [from, to] } => {
                Some((step, kind, result, *from..*to))
            }
            _ => None,
        });
        for (step, kind, result, range) in spread(&evaluations.collect::<Vec<_>>(), EVALUATIONS) {
            let traces: Vec<Trace> = run.step_episodes(range)?.into_iter().map(|(_, trace)| trace).collect();
            let counted = count(&traces, &run.recipe.eval.success).evaluation.success;
            let (Some(said), Some(counted)) = (result.success, counted) else { continue };
            self.compare(said, counted, Some(range.start), || {
                let kind = kind.name();
                format!(
                    "the {kind} evaluation after step {step} says a success of {said:.4}, and its traces make {counted:.4}"
                )
            });
        }
        Ok(())
    }

    fn of_report(&mut self, run: &Run) {
        let Some(saved) = run.saved_report().filter(|saved| saved.steps == run.report.steps) else { return };
        for (when, said, counted) in
            [("before", &saved.before, &run.report.before), ("after", &saved.after, &run.report.after)]
        {
            let success = |found: &Option<Evaluated>| found.as_ref()?.result.success;
            let (Some(said), Some(counted)) = (success(said), success(counted)) else { continue };
            self.compare(said, counted, None, || {
                format!("report.json has a success of {said:.4} {when} training, and the traces make {counted:.4}")
            });
        }
    }
}

/// The metrics of rewards, counted from a step's episodes as the ledger counts them: those that broke aside.
fn headlines(ledger: &Ledger, episodes: &Episodes, success: &str) -> Vec<(Name, f64)> {
    let kept =
        || episodes.iter().map(|(_, trace)| trace).filter(|trace| !matches!(trace.outcome, Outcome::Fault { .. }));
    let values = |component: &str| -> Vec<f64> { kept().filter_map(|trace| trace.reward(component)).collect() };
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let solved = values(success).into_iter().map(|value| f64::from(u8::from(value == 1.0))).collect();
    let mut headlines =
        vec![(Name::from(REWARD_SUCCESS_RATE), mean(solved)), (Name::from(REWARD_AVG_RAW_REWARD), mean(values(TOTAL)))];
    headlines.extend(
        ledger.component_names().into_iter().map(|name| (BATCH_REWARD_COMPONENT.of([&name]), mean(values(name)))),
    );
    headlines.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn near(said: f64, counted: f64) -> bool {
    (said - counted).abs() <= TOLERANCE * said.abs().max(counted.abs()).max(1.0)
}

/// Elements of a list, `most` of them at most, its ends included.
fn spread<T>(all: &[T], most: usize) -> Vec<&T> {
    if all.len() <= most {
        return all.iter().collect();
    }
    (0..most).map(|at| &all[at * (all.len() - 1) / (most - 1)]).collect()
}
