use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::{Played, Probe, Scripts, Transcript, World};

pub(super) const CHECK: Check<Probe> = Check {
    name: "unscored",
    what: "Episodes stay unscored: a judge or verifier is down, or the environment omits what the reward needs.",
    measure: "Episodes of the start policy, and replays of references (without any, finished episodes of random \
              calls), without a value of the success component; for solutions, also those where it fell back to its \
              `otherwise`. Warning from 2 %, error from 20 %.",
    fix: "Bring the scorer up, or let the environment state what the component asks for under `facts`; the reason \
          is in the reward.",
    explains: &["no_signal", "reference_fails", "do_nothing"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let success = &probe.recipe.eval.success;
    let mut all = 0;
    let mut missing: Vec<(Option<u64>, String)> = Vec::new();
    for (number, trace) in probe.played.known().into_iter().flat_map(Played::episodes) {
        if trace.outcome.is_scorable() {
            all += 1;
            if let Some(reward) = trace.rewards.iter().find(|r| r.component == *success && r.value().is_none()) {
                missing.push((Some(number), reward.why().to_owned()));
            }
        }
    }
    for (script, solves) in scripts(probe) {
        all += 1;
        // What is wrong may leave a component its `otherwise`; a solution has everything.
        let stood_in = script.stood_in.iter().filter(|_| solves);
        let mut reasons = script.unscored.iter().chain(stood_in);
        missing.extend(reasons.find(|(name, _)| name == success).map(|(_, why)| (None, why.clone())));
    }
    if all == 0 {
        return Looked::skipped("episodes: `hone check` plays some, `hone train` does not");
    }
    let rate = missing.len() as f64 / all as f64;
    let Some((_, why)) = missing.first().filter(|_| rate >= 0.02) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.2 { Severity::Warning } else { Severity::Error };
    let finding = Finding::new(severity, format!("{} probed episodes have no `{success}`", share(missing.len(), all)))
        .line(format!("the first one's reason: {why}"))
        .traces(missing.iter().filter_map(|(number, _)| *number).collect::<Vec<_>>());
    // Something answered, in a form that cannot be read.
    let misread = why.starts_with("bad_case: ") || why.contains("the answer has the wrong form");
    if misread { finding.fix("Send what the reason says is expected there.").into() } else { finding.into() }
}

/// Scripted episodes that should have a value, and whether they are solutions: replays of references; of random calls
/// only those that the environment let come to an end.
fn scripts(probe: &Probe) -> impl Iterator<Item = (&Transcript, bool)> {
    let world = probe.world.known();
    let scripts = world.and_then(|world| world.scripts.known());
    let random = |scripts: &&Scripts| scripts.references.is_empty();
    let random = scripts.filter(random).into_iter().flat_map(|scripts| scripts.again.iter().map(|(first, _)| first));
    let references = scripts.into_iter().flat_map(|scripts| scripts.references.iter());
    let solved = |world: &&World| world.tasks > 0 && world.references == world.tasks;
    let first = world.filter(solved).into_iter().flat_map(|world| &world.first).filter(|script| script.done);
    let solutions = references.chain(first).map(|script| (script, true));
    let all = solutions.chain(random.filter(|script| script.done).map(|script| (script, false)));
    all.filter(|(script, _)| script.fault.is_none())
}
