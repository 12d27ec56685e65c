use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "tool_results",
    what: "The chat template does not show tool results: the policy never sees the result of its actions.",
    measure: "The first prompt of a task of every environment, rendered with its tools, and what the template makes \
              of it once a reply and an answer follow. Error.",
    fix: "Use a template with a branch for the role \"tool\".",
    explains: &["opens", "call_format", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let found = world.openings.iter().find_map(|opening| {
        opening
            .refusal
            .as_ref()
            .filter(|refusal| refusal.kind == RefusalKind::ObservationLost)
            .map(|refusal| (opening, refusal))
    });
    if let Some((opening, refusal)) = found {
        let says = format!("the template drops what the tools of task {} answer", opening.task);
        return Finding::new(Severity::Error, says).line(refusal.words.clone()).into();
    }
    if world.openings.iter().all(|opening| opening.rendered.known().is_none() && opening.refusal.is_none()) {
        return Looked::skipped("a rendered prompt");
    }
    Ok(Looked::Healthy)
}
