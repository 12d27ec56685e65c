//! Scorers behind a command. A scorer that breaks leaves its component unscored, with the reason; never 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use hone_trace::Verdict;
use serde::Deserialize;
use serde_json::{Value, json};

use super::worker::Worker;
use super::{CommandError, CommandSpec};
use crate::rewards::{Case, Component};

/// Scores cases in the processes of a command. Read from configuration, it is its [`CommandSpec`].
#[derive(Debug, Deserialize)]
#[serde(try_from = "CommandSpec")]
pub struct StdioScorer {
    workers: Vec<Worker>,
    next: AtomicU64,
}

impl StdioScorer {
    pub fn new(spec: CommandSpec) -> Result<Self, CommandError> {
        spec.check()?;
        let spec = Arc::new(spec);
        let workers = (0..spec.workers).map(|_| Worker::new(Arc::clone(&spec))).collect();
        Ok(Self { workers, next: AtomicU64::new(0) })
    }

    async fn ask(&self, case: &Case) -> Result<Verdict, String> {
        let case = serde_json::to_value(case).map_err(|error| format!("the case cannot be written: {error}"))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let worker = &self.workers[number % self.workers.len()];
        let process = worker.process().await.map_err(|failed| failed.what)?;
        let request = json!({"op": "score", "case": case});
        let answer = worker.ask(&process, &request).await.map_err(|failed| failed.what)?;
        verdict(Value::Object(answer))
    }
}

impl TryFrom<CommandSpec> for StdioScorer {
    type Error = CommandError;

    fn try_from(spec: CommandSpec) -> Result<Self, CommandError> {
        Self::new(spec)
    }
}

const RIGHT: &str = "send one of the two: {\"value\": 0.5, \"why\": \"…\"} or {\"unscored\": \"…\"}";

fn verdict(answer: Value) -> Result<Verdict, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        value: Option<f64>,
        why: Option<String>,
        unscored: Option<String>,
        not_applicable: Option<bool>,
    }
    match serde_json::from_value(answer) {
        Ok(Form { value: Some(value), why, unscored: None, not_applicable: None }) => {
            Ok(Verdict::scored(value, why.unwrap_or_default()))
        }
        Ok(Form { value: None, why: None, unscored: Some(why), not_applicable }) => Ok(match not_applicable {
            Some(true) => Verdict::NotApplicable { why },
            _ => Verdict::unscored(why),
        }),
        Ok(_) => Err(format!("the answer has the wrong form; {RIGHT}")),
        Err(error) => Err(format!("the answer has the wrong form: {error}; {RIGHT}")),
    }
}

#[async_trait]
impl Component for StdioScorer {
    async fn verdict(&self, case: &Case) -> Verdict {
        self.ask(case).await.unwrap_or_else(|why| Verdict::unscored(format!("scorer_command: {why}")))
    }
}
