//! Input formats of tasks, each read into a [`Task`]: Fleet's and ours, SkyRL's rows, tau-bench's and tau2-bench's.

mod fields;
mod fleet;
mod tau;

use hone_trace::{Side, Task};
use serde_json::{Map, Value};

use crate::issue::Cause;

pub(crate) use fields::side_of;
pub(crate) use tau::{Domain, domain_of};

/// Facts about a file known before its rows are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    /// The environment of tasks that name none.
    pub(crate) env: Option<String>,
    /// The environment of tasks that name none where `env` is absent: the file's name. It does not decide a tau domain.
    pub(crate) env_by_file: Option<String>,
    /// The tau domain, by the file's path.
    pub(crate) domain: Option<Domain>,
    /// The split of a tau-bench file: `test` of `tasks_test.json`.
    pub(crate) split: String,
}

/// Task, with the repairs it needed.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) task: Task,
    pub(crate) side: Option<Side>,
    pub(crate) repairs: Vec<Trouble>,
    /// The environment is named after the file.
    pub(crate) env_by_file: bool,
}

/// Something wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
    pub(crate) fix: String,
    pub(crate) cause: Cause,
}

impl Trouble {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { field, reason: reason.into(), fix: fix.into(), cause: Cause::Form }
    }
}

/// Reads the row at position `at` of its file.
pub(crate) fn read(fields: Map<String, Value>, at: usize, context: &Context) -> Result<Read, Trouble> {
    if fields.contains_key("user_scenario") || (fields.contains_key("instruction") && fields.contains_key("actions")) {
        return tau::read(fields, at, context);
    }
    fleet::read(fields, context)
}
