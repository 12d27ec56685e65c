//! Events of a run: one line of events.jsonl each, written and read by these types. docs/run-directory.md describes them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hone_arena::perturb::Perturbation;
use hone_trace::rundir::Superseded;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::checkpoint::Best;
use crate::evaluate::baselines::{Floor, Played};
use crate::evaluate::overlap::Overlap;
use crate::evaluate::{Evaluation, Kind};
use crate::guard::Measure;

/// Numbers of traces, `[from, to)`.
pub type Traces = [u64; 2];

/// One line of events.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Overlap of the held-out tasks with the training tasks.
    Overlap {
        result: Overlap,
    },
    /// A policy without a model, on the held-out tasks.
    Baseline {
        #[serde(default, deserialize_with = "if_readable")]
        result: Option<Floor>,
        played: Played,
    },
    /// Evaluation of the held-out tasks, greedy or sampled. Reports recount the traces; `result` is for people.
    Eval {
        step: u64,
        /// Older runs evaluated only by sampling, and did not record it.
        #[serde(default)]
        kind: Kind,
        #[serde(default, deserialize_with = "if_readable")]
        result: Option<Evaluation>,
        traces: Traces,
    },
    /// Control: the starting policy, played beside the final one.
    Control(ControlEvent),
    /// A step's episodes.
    Step {
        step: u64,
        traces: Traces,
    },
    /// Optimizer step, with the rewards of its own sequences.
    OptimizerStep(OptimizerEvent),
    /// Faults of a step.
    Faults {
        step: u64,
        episodes: usize,
        /// By the part that broke.
        faults: BTreeMap<String, Counted>,
        /// By component.
        unscored: BTreeMap<String, Counted>,
        /// Reasons why optimizer steps were not taken.
        skipped_optimizer_steps: Vec<String>,
    },
    Checkpoint {
        step: u64,
        best: Option<Best>,
    },
    /// Sudden drop in success, and the guard's response.
    Guard(GuardEvent),
    /// A run continued with different settings: `[before, now]` by key.
    Extended {
        step: u64,
        changed: BTreeMap<String, [Value; 2]>,
    },
    /// Fault noticed at a step, once per run: see docs/doctor.md. Step 0: before the first.
    Notice {
        step: u64,
        check: String,
        severity: String,
        says: String,
        /// The recipe's reason for waiving it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waived: Option<String>,
    },
    Resumed {
        /// Step of the checkpoint. Absent if there was none.
        step: Option<u64>,
        superseded: Superseded,
        /// Bytes of incomplete records, per file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<Vec<(PathBuf, u64)>>,
    },
}

/// A control, or the reason why it was not played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlEvent {
    pub step: u64,
    pub kind: ControlPart,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "if_readable")]
    pub result: Option<Evaluation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
    /// The entropy that sharpening aimed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy_wanted: Option<f64>,
    /// Reason why the start was not sharpened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

impl ControlEvent {
    pub(crate) fn played(step: u64, kind: ControlPart, result: Evaluation, traces: Traces) -> Self {
        Self { step, kind, result: Some(result), traces: Some(traces), entropy_wanted: None, skipped: None }
    }

    /// The start was not sharpened, and why.
    pub(crate) fn skipped(step: u64, why: &str) -> Self {
        let skipped = Some(why.to_owned());
        Self { step, kind: ControlPart::Sharpened, result: None, traces: None, entropy_wanted: None, skipped }
    }
}

/// Part of the controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlPart {
    /// The start with another seed.
    Again,
    /// A temperature that the search tried.
    Probe,
    /// The probe whose entropy came nearest to the end's.
    Sharpened,
    /// The end, greedily, with the tools in reverse order.
    OrderReversed,
    /// The end, greedily, with the tools' names exchanged.
    NamesExchanged,
}

impl From<Perturbation> for ControlPart {
    fn from(how: Perturbation) -> Self {
        match how {
            Perturbation::OrderReversed => Self::OrderReversed,
            Perturbation::NamesExchanged => Self::NamesExchanged,
        }
    }
}

/// An optimizer step, with its metrics by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimizerEvent {
    pub step: u64,
    /// Index among the step's optimizer steps.
    pub batch: usize,
    pub sequences: usize,
    pub policy_step: u64,
    #[serde(flatten)]
    pub metrics: Map<String, Value>,
    /// Reason why it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Sudden drop in the success rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardEvent {
    pub step: u64,
    /// Measure that dropped; older versions recorded success only.
    #[serde(default)]
    pub measure: Measure,
    pub before: f64,
    pub after: f64,
    /// Steps that `before` is the mean of; 0 in the records of older versions.
    #[serde(default)]
    pub normal: u64,
    /// Steps that `after` is the mean of.
    pub steps: u64,
    pub why: String,
    pub advice: String,
    /// Checkpoint the run rolled back to, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_to: Option<u64>,
    /// Factor on the learning rate from here on.
    pub rate_factor: f64,
}

/// Number of episodes, and the message of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub episodes: usize,
    pub first: String,
}

impl Event {
    /// A recorded line. `None` for an event this version does not know: newer versions may write more.
    pub fn read(line: &Value) -> Option<Self> {
        serde_json::from_value(line.clone()).ok()
    }
}

/// Results of other versions may have other fields; they are counted again from the traces anyway.
fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Schema of events.jsonl, which other tools read.
    #[test]
    fn events_are_written_as_documented_and_read_back() {
        let lines = [
            json!({"event": "step", "step": 3, "traces": [4, 8]}),
            json!({"event": "control", "step": 3, "kind": "sharpened", "skipped": "the entropy did not fall"}),
            json!({"event": "optimizer_step", "step": 3, "batch": 0, "sequences": 4, "policy_step": 7,
                "batch_reward/total": 0.5, "policy/grad_norm": null, "skipped": "not finite"}),
            json!({"event": "faults", "step": 3, "episodes": 9, "faults": {"environment": {"episodes": 1, "first": "gone"}},
                "unscored": {}, "skipped_optimizer_steps": []}),
            json!({"event": "checkpoint", "step": 3, "best": null}),
            json!({"event": "notice", "step": 3, "check": "gradients", "severity": "warning", "says": "they vanish"}),
        ];
        for line in lines {
            let event = Event::read(&line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line.to_string());
        }
        assert_eq!(Event::read(&json!({"event": "of tomorrow"})), None);
    }

    #[test]
    fn an_evaluation_of_an_older_run_is_still_one() {
        let line = json!({"event": "eval", "step": 2, "result": {"success": 0.5}, "traces": [0, 4]});
        let expected = Event::Eval { step: 2, kind: Kind::Sampled, result: None, traces: [0, 4] };
        assert_eq!(Event::read(&line), Some(expected));
    }
}
