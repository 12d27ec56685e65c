use hone_chat::render::Rewrite;
use hone_trace::rundir::RunDirError;

use super::{FOLLOWED, refused};
use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "append_only",
    what: "The chat template rewrites what was already said, so that later turns do not extend the tokens the \
           policy saw.",
    measure: FOLLOWED,
    fix: "Change the named line of the template, so that a turn, once written, never changes.",
    explains: &["opens", "call_format", "tool_results"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let looked = refused(probe, RefusalKind::NotAppendOnly, |task| {
        format!("turns cannot be appended to the prompt of task {task}")
    })?;
    let openings = probe.world.known().into_iter().flat_map(|world| &world.openings);
    let mut rewrites = openings.filter_map(|opening| opening.rendered.known()).flat_map(|rendered| &rendered.rewrites);
    match rewrites.find(|rewrite| matches!(rewrite, Rewrite::Prompt { .. })) {
        Some(rewrite) if looked == Looked::Healthy => Finding::new(Severity::Warning, rewrite.to_string())
            .line("a server that renders every turn anew shows the policy other tokens than it was trained on")
            .into(),
        _ => Ok(looked),
    }
}
