use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "held_out_overlap",
    what: "Held-out tasks occur in training, so that their success is no generalisation.",
    measure: "Held-out prompts, and reference calls with their arguments, that training tasks have too, by content. \
              Warning from 1 %, error where from 20 % of the tasks both are one training task's.",
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
    let severity = if tasks >= 0.2 { Severity::Error } else { Severity::Warning };
    let says = format!("{:.1} % of the {} held-out prompts occur in training", 100.0 * prompts, overlap.held_out);
    Finding::new(severity, says)
        .line(format!("reference calls: {:.1} %, prompt and calls together: {:.1} %", 100.0 * calls, 100.0 * tasks))
        .into()
}
