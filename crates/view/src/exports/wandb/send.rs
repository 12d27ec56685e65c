//! Upload of a recorded run to W&B's server: the rows that it does not have.

use std::time::Duration;

use serde_json::Value;

use super::upload::Upload;
use super::{Account, Wandb, line};
use crate::exports::rows::{Origin, rows};
use crate::run::Run;

/// Rows of one request.
const ROWS: usize = 200;
/// Deadline for all requests together.
const PATIENCE: Duration = Duration::from_mins(10);

/// Sends a run; returns its URL.
pub fn send(run: &Run, account: Account) -> Result<String, String> {
    let origin = Origin::of(run);
    let named = Wandb::from_env().named(run, &origin);
    let place = format!("run {} of the project {} on {}", named.id, named.project, account.server);
    let all: Vec<Value> = rows(run, None).map(|row| line(&origin, &row).into()).collect();
    let mut upload = Upload::start(account, named);
    for part in all.chunks(ROWS) {
        upload.rows(part.to_vec())?;
    }
    upload.finish(run.is_complete(), PATIENCE)?;
    Ok(place)
}
