use hone_trace::rundir::RunDirError;
use hone_train::events::Event;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "extended",
    what: "The run was continued with different settings: another length, batch or number of threads.",
    measure: "`extended` events. Note, with the keys before and after. The CPU engine gives the same bits on any number of \
              threads; a change of train.batch_tokens changes how sums are rounded.",
    fix: "Say so beside the run's numbers, or run it again from the start.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let changes = run.events.iter().filter_map(|event| match event {
        Event::Extended { step, changed } => Some((step, changed)),
        _ => None,
    });
    let mut lines = Vec::new();
    for (step, changed) in changes {
        lines.extend(changed.iter().map(|(key, [was, is])| format!("after step {step}: {key} {was} -> {is}")));
    }
    let Some(first) = lines.first() else { return Ok(Looked::Healthy) };
    Finding::new(Severity::Note, format!("the run went on with other settings {first}"))
        .lines(lines.iter().skip(1).cloned())
        .into()
}
