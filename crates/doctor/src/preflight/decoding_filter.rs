use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "decoding_filter",
    what: "The evaluation samples through a filter or at another temperature than training, so its numbers are not the \
           trained policy's.",
    measure: "eval.filters with a filter in [sampling] (warning), and eval.temperature against sampling.temperature \
              (note).",
    fix: "Leave eval.filters and eval.temperature out, or report both.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let (eval, sampling) = (&probe.recipe.eval, &probe.recipe.sampling);
    if eval.filters && sampling.truncates() {
        return Finding::new(Severity::Warning, "held-out tasks are sampled through top_k, top_p or min_p").into();
    }
    match eval.temperature.filter(|value| (value - sampling.temperature).abs() > 1e-6) {
        Some(value) => {
            let says =
                format!("held-out tasks are sampled at temperature {value}, training at {}", sampling.temperature);
            Finding::new(Severity::Note, says).into()
        }
        None => Ok(Looked::Healthy),
    }
}
