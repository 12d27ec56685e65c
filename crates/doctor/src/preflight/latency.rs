use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Played, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "latency",
    what: "The environment is slow.",
    measure: "Seconds to open an episode and to answer a step, of the scripts. Warning where one takes over a third \
              of its deadline, note where an episode waits longer for the environment than for the sampler.",
    fix: "Raise env.workers or rollout.concurrency, or make the environment cheaper to open.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let all: Vec<_> = scripts.again.iter().map(|(first, _)| first).chain(&scripts.idle).collect();
    if all.is_empty() {
        return Looked::skipped("a scripted episode");
    }
    let rollout = &probe.recipe.rollout;
    let open = all.iter().map(|script| script.open_seconds).fold(0.0, f64::max);
    let step = all.iter().map(|script| script.slowest_seconds).fold(0.0, f64::max);
    let (opening, answer) = (rollout.user_deadline_s.max(rollout.env_deadline_s), rollout.env_deadline_s);
    for (what, took, deadline, key) in [
        ("to open", open, opening, "rollout.user_deadline_s"),
        ("to answer a step", step, answer, "rollout.env_deadline_s"),
    ] {
        if 3.0 * took > deadline {
            let says = format!("the environment takes {took:.1} s {what}, and its deadline is {deadline:.1} s");
            return Finding::new(Severity::Warning, says).fix(format!("Raise {key}, or make it faster.")).into();
        }
    }
    let (mut world, mut sampler) = (0.0, 0.0);
    for (_, trace) in probe.played.known().into_iter().flat_map(Played::episodes) {
        world += trace.turns.iter().filter_map(|turn| turn.timings.environment).sum::<f64>();
        sampler += trace.turns.iter().filter_map(|turn| turn.timings.sampler).sum::<f64>();
    }
    if world > sampler && world > 1.0 {
        let says = format!("episodes waited {world:.1} s for the environment and {sampler:.1} s for the sampler");
        return Finding::new(Severity::Note, says).into();
    }
    Ok(Looked::Healthy)
}
