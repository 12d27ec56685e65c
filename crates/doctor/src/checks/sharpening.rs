use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Verdict;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "sharpening",
    what: "Sharpening only: the policy is more confident in what it could already do, and cannot do more.",
    measure: "The sampled success gained; the greedy one did not, or the start gains as much when it is merely sharpened to \
              the end's entropy. Paired 95 % intervals. Warning.",
    fix: "Start from a policy that fails under greedy decoding, or report the gain as sharpening.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(judgement) = &run.report.held_out.judgement else {
        return Looked::skipped("evaluations before and after training, greedy and sampled, and the sharpened start");
    };
    if judgement.verdict != Verdict::Confident {
        return Ok(Looked::Healthy);
    }
    let signed = |name: &str, difference: &hone_train::evaluate::Difference| {
        let [mean, low, high] = [difference.mean, difference.ci[0], difference.ci[1]].map(hone_trace::signed);
        format!("{name}: {mean} [{low}, {high}]")
    };
    let mut finding = Finding::new(Severity::Warning, "the policy is only more confident; no gain in ability is shown")
        .line(signed("after less before, sampled", &judgement.sampled))
        .line(signed("after less before, greedily", &judgement.greedy));
    if let Some(worth) = &judgement.sharpening {
        finding = finding.line(signed("the start sharpened to the same entropy, less the start", worth));
    }
    finding.into()
}
