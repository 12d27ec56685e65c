use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "held_out_overlap",
    what: "Held-out tasks occur in training, so their success does not show generalisation.",
    measure: "Held-out prompts, and reference calls with their arguments, that training tasks have too, by content. \
              From 1 % a warning for prompts and a note for calls; an error where from 20 % of the tasks both are one \
              training task's.",
    fix: "Split by content: by customer, product or template, not by number.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(overlap) = &run.report.held_out.overlap else { return Looked::skipped("the recorded overlap") };
    let (prompts, calls) = (overlap.prompts.unwrap_or(0.0), overlap.calls.unwrap_or(0.0));
    if prompts < 0.01 && calls < 0.01 {
        return Ok(Looked::Healthy);
    }
    // Either alone may repeat where the world is small: two customers who cancel order 12 are two tasks, and so is one
    // ticket in two knowledge bases.
    let tasks = overlap.tasks.unwrap_or(prompts);
    let (severity, part, share) = match () {
        () if tasks >= 0.2 => (Severity::Error, "prompts", prompts),
        () if prompts >= 0.01 => (Severity::Warning, "prompts", prompts),
        () => (Severity::Note, "reference calls", calls),
    };
    let says = format!("{:.1} % of the {part} of {} held-out tasks occur in training", 100.0 * share, overlap.held_out);
    let parts = [("prompts", prompts), ("reference calls", calls), ("both at once", tasks)];
    let parts = parts.map(|(name, share)| format!("{name}: {:.1} %", 100.0 * share));
    Finding::new(severity, says).line(parts.join(", ")).into()
}
