use std::collections::BTreeMap;

use hone_trace::rundir::RunDirError;
use hone_train::ledger::names::REWARD_PARSE_FAILURE_RATE;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "parse_failures",
    what: "Replies are neither a valid call nor a plain reply, so that the tools never run.",
    measure: "`reward/parse_failure_rate`, late in training. Warning from 10 %, error from 40 %; the kinds come from the \
              traces.",
    fix: "Name the model's own tool-call format (`hone parse --help` lists them), or start from a policy that knows \
          it.",
    explains: &["calls_not_run", "no_signal", "nothing_trained", "shared_gate", "do_nothing", "no_recovery"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(rate) = run.windows(REWARD_PARSE_FAILURE_RATE) else {
        return Looked::skipped("a recorded step with replies");
    };
    if rate.last < 0.1 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate.last < 0.4 { Severity::Warning } else { Severity::Error };
    let mut kinds: BTreeMap<&'static str, (usize, String, u64)> = BTreeMap::new();
    let mut turns = 0_usize;
    for (number, trace) in run.probed()? {
        turns += trace.turns.len();
        for failure in trace.turns.iter().filter_map(|turn| turn.failure.as_ref()) {
            let words = format!("{}; {}", failure.message, failure.hint);
            kinds.entry(failure.kind.name()).or_insert((0, words, number)).0 += 1;
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let says = format!("{:.1} % of replies cannot be read late in training", 100.0 * rate.last);
    let mut finding = Finding::new(severity, says)
        .line(format!("{:.1} % early, {:.1} % late", 100.0 * rate.first, 100.0 * rate.last))
        .traces(kinds.iter().map(|(_, (.., number))| *number));
    for (kind, (count, words, _)) in kinds.iter().take(3) {
        finding = finding.line(format!("{kind}: {count} of {turns} replies of the probed steps, e.g. {words}"));
    }
    finding.into()
}
