//! Tasks of remote environments: from a file, or numbered with a seed each.

use std::path::Path;

use hone_arena::registry::{Counts, HELD_OUT, RegistryError, TRAIN, TaskFile, set};
use hone_trace::{Task, TaskSet};
use indexmap::IndexMap;
use serde_json::json;

/// Seeds of held-out tasks start here, far from those of training tasks. Servers may keep a seed in 32 bits.
const HELD_OUT_SEEDS: u64 = 1 << 30;

/// The two splits of an environment: of a task file, or numbered.
pub(crate) fn splits(
    name: &str,
    prompt: &str,
    file: Option<&Path>,
    counts: Counts,
) -> Result<IndexMap<String, TaskSet>, RegistryError> {
    let (train, held_out) = match file {
        Some(path) => TaskFile { path, held_out: None, name, counts }.split()?,
        None => (
            numbered(name, prompt, TRAIN, counts.tasks, counts.seed, 0),
            numbered(name, prompt, HELD_OUT, counts.held_out, counts.seed, HELD_OUT_SEEDS),
        ),
    };
    let version = format!("seed{}", counts.seed);
    Ok([set(name, TRAIN, &version, train)?, set(name, HELD_OUT, &version, held_out)?].into())
}

/// Tasks that differ only in the seed of their reset.
fn numbered(name: &str, prompt: &str, split: &str, count: usize, seed: u64, from: u64) -> Vec<Task> {
    let task = |number: u64| {
        let mut task = Task::new(format!("{name}-{split}-{seed}-{number}"), name, prompt);
        let own = (seed.wrapping_mul(1_000_003).wrapping_add(number)) % HELD_OUT_SEEDS + from;
        task.extra.insert("reset".into(), json!({"seed": own}));
        task
    };
    (0..count as u64).map(task).collect()
}
