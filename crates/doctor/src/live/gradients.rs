use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "gradients",
    what: "Gradients vanish, explode, or are not finite.",
    measure: "`policy/skipped_steps` of the last step (error), `policy/grad_norm` over 20 times the mean of the \
              first 8 steps (warning), or 0 for 8 steps (warning).",
    fix: "Lower the learning rate or train.max_grad_norm; look at the step's traces for an extreme reward.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    if live.last(names::POLICY_SKIPPED_STEPS).is_some_and(|skipped| skipped > 0.0) {
        return Finding::new(Severity::Error, "an optimizer step was skipped: its gradient was not finite").into();
    }
    let Some(norm) = live.last(names::POLICY_GRAD_NORM) else { return Looked::skipped("`policy/grad_norm`") };
    if live.seen() < super::WINDOW {
        return Looked::skipped("8 steps");
    }
    if live.late(names::POLICY_GRAD_NORM) == Some(0.0) {
        return Finding::new(Severity::Warning, "the gradient has been 0 for 8 steps").into();
    }
    match live.early(names::POLICY_GRAD_NORM) {
        Some(usual) if usual > 0.0 && norm > 20.0 * usual => Finding::new(
            Severity::Warning,
            format!("the gradient's norm is {norm:.2}, {:.0} times what it was at first", norm / usual),
        )
        .into(),
        _ => Ok(Looked::Healthy),
    }
}
