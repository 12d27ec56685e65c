use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;
use hone_train::ledger::names::{ROLLOUTS_TOTAL, TOKENS_SAMPLED};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "records",
    what: "The records are damaged, or say different things.",
    measure: "Traces of the probed steps and evaluations, read one by one; `rollouts/total` and `tokens/sampled` \
              against the traces of the step; steps that are missing or recorded twice. Error.",
    fix: "Go back to the last checkpoint with `hone train --resume`, or restore the directory; numbers of a damaged \
          run are worth nothing.",
    explains: &["unscored", "no_signal", "nothing_trained", "too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    if run.steps.is_empty() {
        return Looked::skipped("a recorded step");
    }
    let mut damaged = Vec::new();
    for (step, range) in run.probed_steps() {
        let episodes = match run.step_episodes(&range) {
            Ok(episodes) => episodes,
            Err(error) => {
                damaged.push(format!(
                    "the traces {} to {} of step {step} cannot be read: {error}",
                    range.start, range.end
                ));
                continue;
            }
        };
        let Some(ledger) = run.steps.iter().find(|ledger| ledger.step == step) else {
            damaged.push(format!("step {step} has traces and no metrics"));
            continue;
        };
        let tokens: usize =
            episodes.iter().flat_map(|(_, trace)| trace.sampled()).map(|(_, node)| node.tokens().len()).sum();
        for (metric, counted) in [(ROLLOUTS_TOTAL, episodes.len()), (TOKENS_SAMPLED, tokens)] {
            if let Some(said) = ledger.get(metric).filter(|said| (said - counted as f64).abs() > 0.5) {
                damaged.push(format!("`{}` of step {step} is {said}, and its traces have {counted}", metric.name));
            }
        }
    }
    for pair in run.steps.windows(2) {
        if pair[1].step != pair[0].step + 1 {
            damaged.push(format!("step {} is followed by step {}", pair[0].step, pair[1].step));
        }
    }
    for kind in [Kind::Greedy, Kind::Sampled] {
        if let Err(error) = run.evaluated(kind) {
            damaged.push(format!("the last {} evaluation cannot be read: {error}", kind.name()));
        }
    }
    let Some(first) = damaged.first() else { return Ok(Looked::Healthy) };
    Finding::new(Severity::Error, first.clone()).lines(damaged.iter().skip(1).take(4).cloned()).into()
}
