//! Success before and after, counted again from the traces a run recorded.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hone_trace::rundir::{RunReader, TraceReader};
use hone_trace::{Outcome, Trace};
use hone_train::evaluate::wilson;
use hone_train::recipe::Recipe;
use serde::Serialize;
use serde_json::Value;

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Counted {
    pub(super) success: f64,
    pub(super) ci: [f64; 2],
    pub(super) parse_failure_rate: f64,
    /// Episodes without a fault.
    pub(super) n: usize,
    pub(super) faults: usize,
}

/// The first evaluation of a run against its last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Recount {
    pub(super) before: Counted,
    pub(super) after: Counted,
    /// Over the tasks of both, and its 95 % interval: the same tasks, so paired.
    pub(super) gain: f64,
    pub(super) gain_ci: [f64; 2],
    /// As the run measured it: that policy leaves no traces.
    pub(super) do_nothing: f64,
    /// Held-out tasks that occur among the trained episodes.
    pub(super) leaked: usize,
}

impl Recount {
    pub(super) fn of(directory: &Path) -> Result<Self> {
        let run = RunReader::open(directory)?;
        let success = Recipe::parse(&run.recipe()?, &[])?.eval.success;
        let traces = run.traces()?;
        let (mut evaluations, mut trained, mut do_nothing) = (BTreeMap::new(), HashSet::new(), None);
        for event in run.events()?.records {
            let (Some(step), Some(range)) = (event["step"].as_u64(), range(&event["traces"])) else { continue };
            match event["event"].as_str() {
                Some("eval") => {
                    do_nothing = event["result"]["do_nothing"].as_f64();
                    evaluations.insert(step, range);
                }
                Some("step") => {
                    for trace in traces.range(range) {
                        trained.insert(trace?.task);
                    }
                }
                _ => {}
            }
        }
        let (first, last) = evaluations.first_key_value().zip(evaluations.last_key_value()).context("no evaluation")?;
        if first.0 == last.0 {
            bail!("the run has one evaluation, at step {}: there is nothing to compare", first.0);
        }
        let (before, after) = (Played::of(&traces, first.1, &success)?, Played::of(&traces, last.1, &success)?);
        let (gain, gain_ci) = before.gain(&after)?;
        Ok(Self {
            leaked: after.verdicts.keys().filter(|task| trained.contains(*task)).count(),
            before: before.counted,
            after: after.counted,
            gain,
            gain_ci,
            do_nothing: do_nothing.context("the run did not measure the do-nothing policy")?,
        })
    }
}

/// An evaluation's episodes.
struct Played {
    counted: Counted,
    /// By task: whether it succeeded. Faults are in neither.
    verdicts: BTreeMap<String, bool>,
}

impl Played {
    fn of(traces: &TraceReader, range: &Range<u64>, success: &str) -> Result<Self> {
        let traces: Vec<Trace> = traces.range(range.clone()).collect::<Result<_, _>>()?;
        let (mut good, mut n, mut failures, mut replies) = (0, 0, 0, 0);
        let mut verdicts = BTreeMap::new();
        for trace in &traces {
            replies += trace.turns.len();
            failures += trace.turns.iter().filter(|turn| turn.failure.is_some()).count();
            if matches!(trace.outcome, Outcome::Fault { .. }) {
                continue;
            }
            let won = trace.reward(success) == Some(1.0);
            n += 1;
            good += usize::from(won);
            verdicts.insert(trace.task.clone(), won);
        }
        let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let counted = Counted {
            success: share(good, n),
            ci: wilson(good, n),
            parse_failure_rate: share(failures, replies),
            n,
            faults: traces.len() - n,
        };
        Ok(Self { counted, verdicts })
    }

    /// Mean and normal 95 % interval of the paired differences.
    fn gain(&self, after: &Self) -> Result<(f64, [f64; 2])> {
        let differences: Vec<f64> = self
            .verdicts
            .iter()
            .filter_map(|(task, was)| Some(f64::from(i8::from(*after.verdicts.get(task)?) - i8::from(*was))))
            .collect();
        if differences.is_empty() {
            bail!("the two evaluations have no task in common");
        }
        let n = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / n;
        let variance =
            differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let spread = 1.959_963_984_540_054 * (variance / n).sqrt();
        Ok((mean, [mean - spread, mean + spread]))
    }
}

fn range(value: &Value) -> Option<Range<u64>> {
    Some(value.get(0)?.as_u64()?..value.get(1)?.as_u64()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hone_trace::rundir::RunDir;
    use hone_trace::{Boundary, Fault, Reward, SamplingParams, ToolSet, TraceBuilder, TraceHead};
    use serde_json::json;

    use super::*;

    fn episode(task: &str, value: Option<f64>) -> Trace {
        let head = TraceHead {
            task: task.into(),
            env: "e".into(),
            replica: 0,
            seed: 0,
            tools: Arc::new(ToolSet::none()),
            sampling: SamplingParams::default(),
        };
        let fault = Outcome::Fault { fault: Fault::new(Boundary::Environment, "died") };
        let outcome = if value.is_some() { Outcome::Finished } else { fault };
        let mut trace = TraceBuilder::new(head, vec![1]).finish(outcome);
        trace.rewards = value.map(|value| Reward::scored("tau_state", value, "")).into_iter().collect();
        trace
    }

    fn record(run: &mut RunDir, event: &str, step: u64, episodes: &[Trace]) {
        let numbers = run.traces(episodes).unwrap();
        let said = json!({"success": 1.0, "do_nothing": 0.25});
        run.event(&json!({"event": event, "step": step, "traces": [numbers.start, numbers.end], "result": said}))
            .unwrap();
    }

    #[test]
    fn only_the_traces_are_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let mut run = RunDir::create(&path, "").unwrap();
        let names = ["a", "b", "c", "d"];
        let play = |values: [Option<f64>; 4]| {
            names.iter().zip(values).map(|(name, value)| episode(name, value)).collect::<Vec<_>>()
        };
        record(&mut run, "eval", 0, &play([Some(1.0), Some(0.0), Some(0.5), None]));
        assert!(Recount::of(&path).is_err(), "one evaluation is no comparison");
        record(&mut run, "step", 1, &[episode("x", Some(1.0)), episode("a", Some(1.0))]);
        record(&mut run, "eval", 1, &play([Some(1.0), Some(1.0), Some(1.0), Some(1.0)]));
        let counted = Recount::of(&path).unwrap();
        assert_eq!((counted.before.n, counted.before.faults, counted.after.n), (3, 1, 4));
        assert!((counted.before.success - 1.0 / 3.0).abs() < 1e-12 && counted.after.success == 1.0);
        // Of the three tasks both evaluations have, two got better.
        assert!((counted.gain - 2.0 / 3.0).abs() < 1e-12, "{}", counted.gain);
        assert_eq!((counted.do_nothing, counted.leaked), (0.25, 1));
        let bars = super::super::missed(&counted, None);
        assert!(
            bars.iter().any(|bar| bar.contains("trained on")) && bars.iter().any(|bar| bar.contains("256")),
            "{bars:?}"
        );
    }
}
