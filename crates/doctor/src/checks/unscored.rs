use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "unscored",
    what: "Episodes stayed unscored: a judge or verifier was down, so a success rate covers only the rest.",
    measure: "Episodes of an evaluation, and of the probed training steps, whose success component has no value. Warning \
              from 2 %, error from 20 %.",
    fix: "Bring the scorer up and evaluate again; the reason is in each trace's reward.",
    explains: &["nothing_trained", "no_signal", "too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mut worst: Option<(f64, Finding)> = None;
    let mut hold = |what: &str, part: usize, of: usize, traces: Vec<u64>, why: Option<String>| {
        let rate = part as f64 / of.max(1) as f64;
        if rate < 0.02 || worst.as_ref().is_some_and(|(other, _)| *other >= rate) {
            return;
        }
        let severity = if rate < 0.2 { Severity::Warning } else { Severity::Error };
        let mut finding =
            Finding::new(severity, format!("{} episodes of {what} have no score", share(part, of))).traces(traces);
        finding.evidence.lines.extend(why.map(|why| format!("the first one's reason: {why}")));
        worst = Some((rate, finding));
    };
    let found = [("the evaluation before training", run.before()), ("the evaluation after training", run.after())];
    for (what, evaluation) in found.into_iter().filter_map(|(what, found)| Some((what, found?))) {
        hold(what, evaluation.unscored, evaluation.n + evaluation.unscored, Vec::new(), None);
    }
    let episodes: Vec<_> = run.probed()?.into_iter().filter(|(_, trace)| trace.outcome.is_scorable()).collect();
    let missing: Vec<_> = episodes.iter().filter(|(_, trace)| run.solved(trace).is_none()).collect();
    let reason = missing.first().and_then(|(_, trace)| {
        let reward = trace.rewards.iter().find(|reward| reward.component == run.recipe.eval.success)?;
        Some(reward.why().to_owned())
    });
    let numbers = missing.iter().map(|(number, _)| *number).collect();
    hold("the probed training steps", missing.len(), episodes.len(), numbers, reason);
    Ok(worst.map_or(Looked::Healthy, |(_, finding)| Looked::Found(finding)))
}
