use hone_chat::render::Rewrite;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "append_only",
    what: "The chat template rewrites what was already said, so that later turns do not extend the tokens the \
           policy saw.",
    measure: "The first prompt of a task of every environment, rendered with its tools, and what the template makes \
              of it once a reply and an answer follow. Error.",
    fix: "Change the named line of the template, so that a turn, once written, never changes.",
    explains: &["opens", "call_format", "tool_results"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let found = world.openings.iter().find_map(|opening| {
        opening
            .refusal
            .as_ref()
            .filter(|refusal| refusal.kind == RefusalKind::NotAppendOnly)
            .map(|refusal| (opening, refusal))
    });
    if let Some((opening, refusal)) = found {
        let says = format!("turns cannot be appended to the prompt of task {}", opening.task);
        return Finding::new(Severity::Error, says).line(refusal.words.clone()).into();
    }
    let rewritten = world.openings.iter().filter_map(|opening| opening.rendered.known()).flat_map(|r| &r.rewrites);
    if let Some(rewrite) = rewritten.into_iter().find(|rewrite| matches!(rewrite, Rewrite::Prompt { .. })) {
        return Finding::new(Severity::Warning, rewrite.to_string())
            .line("a server that renders every turn anew shows the policy other tokens than it was trained on")
            .into();
    }
    if world.openings.iter().all(|opening| opening.rendered.known().is_none() && opening.refusal.is_none()) {
        return Looked::skipped("a rendered prompt");
    }
    Ok(Looked::Healthy)
}
