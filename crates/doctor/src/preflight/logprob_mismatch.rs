use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "logprob_mismatch",
    what: "Sampler and learner disagree on the same tokens: the policy, prompt or distribution that is served is not \
           the trained one.",
    measure: "The learner's logprobs of tokens that the start policy sampled. Warning from a mean difference of \
              0.02 or a correlation under 0.99, error from 0.2 or under 0.9.",
    fix: "Compare the served weights, the prompt's tools and the temperature with the trained ones; turn penalties \
          and filters off.",
    explains: &["sampler_follows"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(identity) = probe.identity.known() else {
        return probe.identity.skipped("tokens that the learner scores too");
    };
    let least = identity.correlation.unwrap_or(1.0);
    if identity.mean < 0.02 && least >= 0.99 {
        return Ok(Looked::Healthy);
    }
    let severity = if identity.mean >= 0.2 || least < 0.9 { Severity::Error } else { Severity::Warning };
    let says = format!("logprobs of sampler and learner differ by {:.3} per token on average", identity.mean);
    let mut finding = Finding::new(severity, says)
        .line(format!("over {} tokens: at most {:.3}, correlation {least:.4}", identity.tokens, identity.max));
    if let Some((trace, position, sampler, learner)) = identity.parts_at {
        finding = finding
            .line(format!(
                "they part at token {position} of episode {trace}: {sampler:.4} sampled, {learner:.4} learned"
            ))
            .traces([trace]);
    }
    finding.into()
}
