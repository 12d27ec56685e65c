use hone_trace::rundir::RunDirError;
use hone_trace::{Fate, Trace};
use hone_train::evaluate::Kind;
use hone_train::ledger::names::{ROLLOUTS_TOTAL, TOKENS_SAMPLED, TOKENS_TRAINED};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "records",
    what: "The records are damaged, or contradict each other.",
    measure: "Traces of the probed steps and evaluations, read one by one; `rollouts/total`, `tokens/sampled` and \
              `tokens/trained` against the traces of the step; replies without a turn that was read from them; steps that \
              are missing or recorded twice. Error.",
    fix: "Go back to the last checkpoint with `hone train --resume`, or restore the directory; numbers of a damaged \
          run are worth nothing.",
    explains: &["unscored", "no_signal", "nothing_trained", "too_few_tasks", "logprob_mismatch"],
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
        damaged.extend(foreign_reply(&episodes));
        let fates: String =
            episodes.iter().filter_map(|(_, trace)| trace.lesson.as_ref()).map(|lesson| &*lesson.fates).collect();
        if let Some(trained) = ledger.get(TOKENS_TRAINED).filter(|trained| *trained > 0.0)
            && !fates.is_empty()
            && !fates.contains(Fate::Trained.letter())
        {
            damaged.push(format!("`{}` of step {step} is {trained}, and by its traces none was", TOKENS_TRAINED.name));
        }
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

/// A turn is read from every reply; one without was not the policy's.
fn foreign_reply(episodes: &[(u64, Trace)]) -> Option<String> {
    let sampled = |trace: &Trace| trace.sampled().filter(|(_, node)| !node.tokens().is_empty()).count();
    let odd = episodes.iter().filter(|(_, trace)| trace.outcome.is_scorable() && !trace.turns.is_empty());
    let (number, trace) = odd.into_iter().find(|(_, trace)| sampled(trace) > trace.turns.len())?;
    let (sampled, turns) = (sampled(trace), trace.turns.len());
    Some(format!("episode {number} has {sampled} sampled nodes and {turns} turns: not all are the policy's replies"))
}
