use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "budget",
    what: "The machine does not have the memory that the run may need.",
    measure: "Weights, optimizer, copies, activations and caches at their largest, against what is free. Error \
              where the optimizer and the copies alone do not fit, or one episode as long as the window; warning where \
              everything at its largest does not.",
    fix: "Lower train.batch_tokens or rollout.concurrency, set train.recompute = true, or train an adapter \
          (policy.lora).",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(budget) = &probe.budget else { return Looked::skipped("an engine that opens") };
    if let Err(error) = budget.check() {
        return Finding::new(Severity::Error, error.to_string()).into();
    }
    let short = |severity, shortage: String| {
        let finding = Finding::new(severity, shortage);
        match &budget.change {
            Some(change) => finding.fix(format!("Set {change}.")),
            None => finding,
        }
    };
    match budget.shortage() {
        Some(shortage) if budget.one_is_too_many => short(Severity::Error, shortage).likely().into(),
        Some(shortage) => short(Severity::Warning, shortage).possible().into(),
        None if budget.memory.is_none() => Looked::skipped("an engine on this machine"),
        None => Ok(Looked::Healthy),
    }
}
