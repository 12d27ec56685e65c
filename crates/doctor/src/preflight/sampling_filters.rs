use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "sampling_filters",
    what: "Training samples through a filter, so it trains a different distribution from the one it samples.",
    measure: "sampling.top_k, top_p and min_p. Warning; error where they leave one token, note where they cut off \
              less than a thousandth.",
    fix: "Leave sampling.top_k, top_p and min_p out of training; a filter at evaluation is `eval.filters`.",
    explains: &["identical_rollouts"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let sampling = &probe.recipe.sampling;
    if !sampling.truncates() {
        return Ok(Looked::Healthy);
    }
    let what = format!("top_k {}, top_p {}, min_p {}", sampling.top_k, sampling.top_p, sampling.min_p);
    if sampling.top_k == 1 || sampling.top_p < 0.05 || sampling.min_p > 0.9 {
        return Finding::new(Severity::Error, format!("training samples the likeliest token only ({what})"))
            .line("every episode of a group is the same, with no advantage and no gradient")
            .into();
    }
    // So little is cut off that the two distributions are one.
    if sampling.top_k == 0 && sampling.top_p >= 0.999 && sampling.min_p <= 0.001 {
        return Finding::new(
            Severity::Note,
            format!("training samples through a filter that cuts next to nothing ({what})"),
        )
        .into();
    }
    let corrected = probe.recipe.loss.correction.is_some();
    let finding = Finding::new(Severity::Warning, format!("training samples through a filter ({what})"));
    if corrected { finding.line("loss.correction weighs it up").into() } else { finding.into() }
}
