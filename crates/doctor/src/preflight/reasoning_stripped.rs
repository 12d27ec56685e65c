use hone_chat::render::Rewrite;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "reasoning_stripped",
    what: "The chat template strips reasoning from earlier replies, so the served policy sees different prompts than \
           in training.",
    measure: "A reply with reasoning, rendered alone and followed by a user message. Warning.",
    fix: "Serve the policy by appending tokens, as training does, or change the template so that reasoning stays.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let rendered: Vec<_> = world.openings.iter().filter_map(|opening| opening.rendered.known()).collect();
    if rendered.is_empty() {
        return Looked::skipped("a rendered prompt");
    }
    let found = rendered.iter().flat_map(|r| &r.rewrites).find(|r| matches!(r, Rewrite::Reasoning { .. }));
    match found {
        Some(rewrite) => Finding::new(Severity::Warning, rewrite.to_string()).into(),
        None => Ok(Looked::Healthy),
    }
}
