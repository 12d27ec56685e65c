use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "decoding_filter",
    what: "The evaluation samples through a filter (top-k, top-p, min-p) or at another temperature than training.",
    measure: "Sampling parameters of the recorded evaluation traces. Warning for filters, note for a temperature.",
    fix: "Leave eval.filters and eval.temperature out, or report both.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let sampled = &run.report.held_out.sampled;
    let Some(evaluation) = sampled.after.as_ref().or(sampled.before.as_ref()).map(|found| &found.result) else {
        return Looked::skipped("a sampled evaluation");
    };
    let sampling = &run.recipe.sampling;
    if evaluation.filters {
        let says = format!(
            "held-out tasks are sampled with top_k {}, top_p {} and min_p {}: points the policy has not earned",
            sampling.top_k, sampling.top_p, sampling.min_p
        );
        return Finding::new(Severity::Warning, says).into();
    }
    if (evaluation.temperature - sampling.temperature).abs() > 1e-6 {
        let says = format!(
            "held-out tasks are sampled at temperature {}, training at {}",
            evaluation.temperature, sampling.temperature
        );
        return Finding::new(Severity::Note, says).into();
    }
    Ok(Looked::Healthy)
}
