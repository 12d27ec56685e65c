use std::collections::BTreeSet;

use hone_trace::rundir::RunDirError;
use hone_trace::{Message, Origin, Trace};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::{Run, messages, text};

/// Episodes whose observations are decoded.
const EPISODES: usize = 64;

pub(super) const CHECK: Check = Check {
    name: "tool_results",
    what: "Tool results do not reach the policy: the tools answered, but their answers are not in the tokens.",
    measure: "Words of the tools' answers, of up to 64 probed episodes, searched for in the observation tokens, decoded by \
              the tokenizer of the run's checkpoint: an episode where fewer than half are found. Error from 20 %.",
    fix: "Render answers as messages of role \"tool\", with a template that has a branch for it.",
    explains: &["no_signal", "repeated_calls", "truncated", "no_recovery", "unanswered_calls"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(tokenizer) = run.tokenizer() else { return Looked::skipped("a checkpoint with a tokenizer") };
    let episodes = run.probed()?;
    let (mut all, mut lost) = (0usize, Vec::new());
    let apart = episodes.len().div_ceil(EPISODES).max(1);
    for (number, trace) in episodes.iter().step_by(apart) {
        let answered = answers(trace);
        let seen = trace.nodes().iter().filter(|node| matches!(node.origin(), Origin::Observation));
        let ids: Vec<u32> = seen.flat_map(|node| node.tokens().iter().copied()).collect();
        let Ok(decoded) = tokenizer.decode(&ids) else { continue };
        if answered.is_empty() {
            continue;
        }
        all += 1;
        let seen = words(&decoded);
        let found = answered.iter().filter(|word| seen.contains(*word)).count();
        if 2 * found < answered.len() {
            lost.push((*number, found, answered.len()));
        }
    }
    if all == 0 {
        return Looked::skipped("recorded conversations with answers of tools");
    }
    let rate = lost.len() as f64 / all as f64;
    let Some((number, found, of)) = lost.first().filter(|_| rate >= 0.2) else { return Ok(Looked::Healthy) };
    Finding::new(Severity::Error, format!("{} episodes do not show what the tools answered", share(lost.len(), all)))
        .line(format!("episode {number}: {found} of {of} words of the answers are among its tokens"))
        .traces(lost.iter().map(|(number, ..)| *number))
        .into()
}

/// Words of the answers that the policy read: those behind its last reply reach nobody.
fn answers(trace: &Trace) -> BTreeSet<String> {
    let messages = messages(trace).unwrap_or_default();
    let last = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })).unwrap_or(0);
    let read = messages[..last].iter().filter(|message| matches!(message, Message::Tool { .. }));
    read.flat_map(|message| words(&text(message))).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).map(str::to_lowercase).collect()
}
