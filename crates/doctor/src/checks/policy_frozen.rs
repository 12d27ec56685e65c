use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;
use hone_train::ledger::names::TOKENS_TRAINED;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::{Run, weights};

pub(super) const CHECK: Check = Check {
    name: "policy_frozen",
    what: "The policy that samples never changes: updates do not reach it.",
    measure: "Digests of the weights that sampled the first and the last probed steps, and the first and the last \
              evaluation, while tokens were trained. Error.",
    fix: "Look at how weights reach the sampler: adapters that are skipped, a base model under the policy's name, a \
          cache.",
    explains: &["logprob_mismatch", "staleness", "reward_without_success", "sharpening", "too_few_tasks", "no_signal"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let trained = run.sum(TOKENS_TRAINED).unwrap_or(0.0);
    let steps = run.probed_steps();
    let (Some((first, early)), Some((last, late))) = (steps.first(), steps.last()) else {
        return Looked::skipped("two recorded steps");
    };
    if first == last || trained == 0.0 {
        return Looked::skipped("two recorded steps with something trained between them");
    }
    let ends = [("step", weights(&run.step_episodes(early)?), weights(&run.step_episodes(late)?))];
    let evaluated = run.evaluation_ends(Kind::Sampled)?;
    let evaluated = evaluated.map(|(before, after)| ("evaluation", weights(&before), weights(&after)));
    for (what, before, after) in ends.into_iter().chain(evaluated) {
        if let (Some(one), Some(other)) = (before.last(), after.last())
            && one == other
        {
            let says = format!("the first {what} and the last were sampled by the same weights, {one}");
            return Finding::new(Severity::Error, says)
                .line(format!("steps {first} to {last}; {trained:.0} tokens were trained"))
                .into();
        }
    }
    Ok(Looked::Healthy)
}
