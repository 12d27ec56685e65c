use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "vocabulary",
    what: "Tokenizer and weights do not belong together, or the tokenizer loses text.",
    measure: "Largest id of the tokenizer against the ids the weights know (error); the tokenizer of \
              policy.reference (error); lines of the prompt encoded and decoded again (warning).",
    fix: "Take tokenizer and weights from the same model.",
    explains: &["logprob_mismatch", "parse_failures", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(texts) = probe.texts.known() else { return probe.texts.skipped("a model directory") };
    if let Some(known) = texts.vocabulary.filter(|known| texts.largest_id as usize >= *known) {
        let says = format!("the tokenizer's ids go up to {}, and the weights know {known}", texts.largest_id);
        return Finding::new(Severity::Error, says).into();
    }
    if texts.reference_agrees == Some(false) {
        return Finding::new(Severity::Error, "policy.reference has another tokenizer than policy.model")
            .line("a KL between them compares probabilities of different tokens")
            .fix("Leave policy.reference out to compare with the start, or name a model of the same family.")
            .into();
    }
    let rendered = probe.world.known().into_iter().flat_map(|world| &world.openings);
    let lossy = rendered.into_iter().find_map(|opening| opening.rendered.known()?.lossy.as_ref());
    match lossy {
        Some((text, back)) => Finding::new(Severity::Warning, "the tokenizer does not give back what it was given")
            .line(format!("{text:?} comes back as {back:?}"))
            .into(),
        None => Ok(Looked::Healthy),
    }
}
