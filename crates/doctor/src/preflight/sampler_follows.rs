use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "sampler_follows",
    what: "The sampler does not follow the learner: updates do not reach what is served.",
    measure: "One small optimizer step, then the difference between sampler and learner on newly sampled tokens, as \
              a share of how far the learner moved; the step is taken back. Error from half of it, or where other \
              weights are served than were trained.",
    fix: "Look at how weights reach the sampler: adapters that are skipped, a base model under the policy's name, a \
          cache.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(identity) = probe.identity.known() else {
        return probe.identity.skipped("tokens that the learner scores too");
    };
    let Some(update) = identity.update.known() else { return identity.update.skipped("a step that can be taken back") };
    if update.moved <= 4.0 * identity.mean.max(1e-7) {
        return Looked::skipped("a step that moves the policy by more than sampler and learner differ");
    }
    let arithmetic = format!(
        "the step moved the learner by {:.5} per token; sampler and learner differ by {:.5} after it and {:.5} before",
        update.moved, update.after, identity.mean
    );
    if update.after >= 0.5 * update.moved {
        return Finding::new(Severity::Error, "an update does not reach the sampler")
            .line(arithmetic)
            .line(format!("weights trained: {}, served: {}", update.trained, update.served))
            .into();
    }
    if update.trained != update.served {
        let says = format!("weights {} are served and {} were trained", update.served, update.trained);
        return Finding::new(Severity::Error, says).line(arithmetic).into();
    }
    if update.restored > 0.5 * update.moved {
        return Finding::new(Severity::Error, "a saved policy is not what is restored from it")
            .line(format!("after going back the learner is {:.5} per token away from the start", update.restored))
            .fix("Resuming and controls would start from other weights: look at how the engine saves and restores.")
            .into();
    }
    Ok(Looked::Healthy)
}
