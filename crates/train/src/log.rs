//! Logs for other tools, written during a run.

use std::path::PathBuf;

use hone_trace::documented;
use serde::{Deserialize, Serialize};

documented! {
    /// `[log]`: metrics and evaluations for other tools, after every step. A log that cannot be written never stops the run.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct LogRecipe {
        /// A directory for `tensorboard --logdir`: each run has an event file in a subdirectory there. Absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tensorboard: Option<PathBuf> where path().may_change(),
        /// Directory for offline W&B runs, one for each run, of the project `WANDB_PROJECT`; `wandb sync` uploads them.
        /// With `WANDB_API_KEY` set the rows are also sent immediately, unless `WANDB_MODE` says otherwise. Absent:
        /// none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub wandb: Option<PathBuf> where path().may_change(),
    }
}

impl LogRecipe {
    pub(crate) fn is_empty(&self) -> bool {
        self.tensorboard.is_none() && self.wandb.is_none()
    }
}
