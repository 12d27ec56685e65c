use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::{POLICY_GRAD_NORM, POLICY_SKIPPED_STEPS, TOKENS_TRAINED};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "gradients",
    what: "Gradients vanish, explode, or are not finite.",
    measure: "`policy/grad_norm`: error where it was not finite, so that optimizer steps were skipped; warning where it is \
              over 20 times its median in a step. 0 at every step is an error where tokens were trained, else a warning.",
    fix: "Lower the learning rate or train.max_grad_norm; look at the step's traces for an extreme reward.",
    explains: &["kl_runaway", "policy_frozen"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let skipped = run.sum(POLICY_SKIPPED_STEPS).unwrap_or(0.0);
    if skipped > 0.0 {
        let steps = run.series(POLICY_SKIPPED_STEPS);
        let first = steps.iter().find(|(_, count)| *count > 0.0).map_or(0, |(step, _)| *step);
        let says = format!("{skipped:.0} optimizer steps had a gradient that was not finite");
        return Finding::new(Severity::Error, says).line(format!("the first in step {first}")).into();
    }
    let norms = run.series(POLICY_GRAD_NORM);
    if norms.is_empty() {
        return Looked::skipped("a recorded optimizer step");
    }
    let mut sorted: Vec<f64> = norms.iter().map(|(_, norm)| *norm).collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    if sorted.last().is_some_and(|most| *most == 0.0) {
        let trained = run.sum(TOKENS_TRAINED).unwrap_or(0.0);
        let severity = if trained > 0.0 { Severity::Error } else { Severity::Warning };
        return Finding::new(severity, "the gradient is 0 at every step")
            .line(format!("{trained:.0} tokens were trained in {} steps", norms.len()))
            .fix(
                "Look for weights that are frozen, an adapter that is not attached, or a loss that is multiplied by 0.",
            )
            .into();
    }
    let spikes: Vec<_> = norms.iter().filter(|(_, norm)| median > 0.0 && *norm > 20.0 * median).collect();
    let Some((step, norm)) = spikes.first() else { return Ok(Looked::Healthy) };
    Finding::new(
        Severity::Warning,
        format!("the gradient's norm is {norm:.2} in step {step}, {:.0} times its median", norm / median),
    )
    .line(format!("{} of {} steps are over 20 times the median, {median:.4}", spikes.len(), norms.len()))
    .into()
}
