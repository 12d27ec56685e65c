use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "template",
    what: "The chat template fails on this environment's messages.",
    measure: "The first prompt of a task of every environment, rendered with its tools, and what the template makes \
              of it once a reply and an answer follow. Error.",
    fix: "Fix the template at the reported line; `hone render --model DIR` shows what a template writes.",
    explains: &["opens", "call_format"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let found = world.openings.iter().find_map(|opening| {
        opening.refusal.as_ref().filter(|refusal| refusal.kind == RefusalKind::Other).map(|refusal| (opening, refusal))
    });
    if let Some((opening, refusal)) = found {
        let says = format!("the prompt of task {} cannot be rendered", opening.task);
        return Finding::new(Severity::Error, says).line(refusal.words.clone()).into();
    }
    if world.openings.iter().all(|opening| opening.rendered.known().is_none() && opening.refusal.is_none()) {
        return Looked::skipped("a rendered prompt");
    }
    Ok(Looked::Healthy)
}
