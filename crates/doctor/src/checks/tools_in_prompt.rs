use hone_trace::Origin;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

/// Episodes whose prompts are decoded.
const EPISODES: usize = 64;

pub(super) const CHECK: Check = Check {
    name: "tools_in_prompt",
    what: "The tools are not in the prompt: the policy is asked to use what it was never shown.",
    measure: "The prompt tokens of up to 64 probed episodes, decoded by the tokenizer of the run's checkpoint and searched \
              for the name of every tool the episode offers. Error from 5 %.",
    fix: "Render the prompt with the tools that the agent is offered; templates of base models often ignore them.",
    explains: &["parse_failures", "calls_as_text", "calls_not_run", "no_signal", "do_nothing", "logprob_mismatch"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(tokenizer) = run.tokenizer() else { return Looked::skipped("a checkpoint with a tokenizer") };
    let episodes = run.probed()?;
    let (mut all, mut without) = (0usize, Vec::new());
    let apart = episodes.len().div_ceil(EPISODES).max(1);
    for (number, trace) in episodes.iter().step_by(apart).filter(|(_, trace)| !trace.tools().is_empty()) {
        let prompt = trace.nodes().iter().filter(|node| matches!(node.origin(), Origin::Prompt { .. }));
        let ids: Vec<u32> = prompt.flat_map(|node| node.tokens().iter().copied()).collect();
        let Ok(text) = tokenizer.decode(&ids) else { continue };
        all += 1;
        let lost: Vec<&str> =
            trace.tools().iter().map(|tool| tool.name.as_str()).filter(|name| !text.contains(name)).collect();
        if !lost.is_empty() {
            let words = format!("{} of {} tools, {}", lost.len(), trace.tools().len(), lost.join(", "));
            without.push((*number, ids.len(), words));
        }
    }
    if all == 0 {
        return Looked::skipped("episodes with tools");
    }
    let rate = without.len() as f64 / all as f64;
    let Some((number, tokens, lost)) = without.first().filter(|_| rate >= 0.05) else { return Ok(Looked::Healthy) };
    Finding::new(Severity::Error, format!("{} prompts do not name the tools on offer", share(without.len(), all)))
        .line(format!("episode {number}: its prompt of {tokens} tokens lacks {lost}"))
        .traces(without.iter().map(|(number, ..)| *number))
        .into()
}
