use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "repeated_calls",
    what: "The policy makes the same call over and over.",
    measure: "Probed episodes with the same call, arguments included, three times in a row or more. Warning from 20 %.",
    fix: "Let the environment answer a repetition with what is new, pay for progress (`repeated_calls` in \
          docs/rewards.md), or end the episode.",
    explains: &["truncated"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let episodes = run.probed()?;
    if episodes.is_empty() {
        return Looked::skipped("recorded episodes");
    }
    let mut most = 0;
    let mut stuck = Vec::new();
    for (number, trace) in &episodes {
        let calls: Vec<_> = trace.turns.iter().flat_map(|turn| &turn.calls).collect();
        let longest = calls.chunk_by(|one, other| one == other).map(<[_]>::len).max().unwrap_or(0);
        if longest >= 3 {
            most = most.max(longest);
            stuck.push(*number);
        }
    }
    if (stuck.len() as f64) < 0.2 * episodes.len() as f64 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("{} episodes repeat one call", share(stuck.len(), episodes.len())))
        .line(format!("up to {most} times in a row"))
        .traces(stuck)
        .into()
}
