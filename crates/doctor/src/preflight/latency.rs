use hone_trace::rundir::RunDirError;
use hone_train::recipe::Recipe;
use serde_json::Value;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Played, Probe, Transcript};

pub(super) const CHECK: Check<Probe> = Check {
    name: "latency",
    what: "The environment is slow.",
    measure: "Seconds that the scripts wait for an episode to open and for a step to be answered. Warning where one \
              takes over a third of its deadline, the shorter of the rollout's and the environment's own \
              (env.deadline_s); note where an episode waits longer for the environment than for the sampler.",
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
    for answer in [true, false] {
        let took = |script: &Transcript| if answer { script.slowest_seconds } else { script.open_seconds };
        // The one that comes nearest to its deadline.
        let share = |script: &Transcript| took(script) / deadline(&probe.recipe, &script.env, answer).0;
        let Some(slowest) = all.iter().max_by(|one, other| share(one).total_cmp(&share(other))) else { continue };
        let (limit, key) = deadline(&probe.recipe, &slowest.env, answer);
        let (took, part) = (took(slowest), share(slowest));
        if part > 1.0 / 3.0 {
            let what = if answer { "to answer a step" } else { "to open an episode" };
            let says = format!("the environment takes {took:.1} s {what}, and its deadline is {limit:.1} s");
            let line = format!(
                "the slowest of {} scripted episodes, task {}: {took:.2} s / {limit:.2} s ({key}) = {:.0} %; a busier machine \
                 is slower",
                all.len(),
                slowest.task,
                100.0 * part
            );
            let fix = format!("Raise {key}, or make it faster.");
            return Finding::new(Severity::Warning, says).line(line).fix(fix).into();
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

/// Seconds that an environment has for an answer or an opening, and the key that says so.
fn deadline(recipe: &Recipe, env: &str, answer: bool) -> (f64, &'static str) {
    let rollout = &recipe.rollout;
    let of_rollout = if answer || rollout.env_deadline_s >= rollout.user_deadline_s {
        (rollout.env_deadline_s, "rollout.env_deadline_s")
    } else {
        (rollout.user_deadline_s, "rollout.user_deadline_s")
    };
    let forms: Vec<Value> = recipe.env.iter().filter_map(|spec| serde_json::to_value(spec).ok()).collect();
    let form = forms.iter().find(|form| form["name"] == env).or_else(|| forms.first().filter(|_| forms.len() == 1));
    let seconds = |key: &str| form?.get(key)?.as_f64();
    let remote = [("open_deadline_s", "env.open_deadline_s"), ("create_deadline_s", "env.create_deadline_s")];
    let opening = remote.into_iter().find_map(|(key, shown)| Some((seconds(key)?, shown)));
    let own = || seconds("deadline_s").map(|own| (own, "env.deadline_s"));
    // Rollouts wait for a server at least as long as its own deadlines say; for a program, the shorter one counts.
    match (opening, own()) {
        (Some(_), Some(own)) if answer => own,
        (Some(opening), _) if !answer => opening,
        (_, Some(own)) if answer || seconds("workers").is_none_or(|workers| workers <= 1.0) => {
            if own.0 < of_rollout.0 {
                own
            } else {
                of_rollout
            }
        }
        // An opening may be the first answer of a fresh process.
        (_, Some(_)) => match seconds("start_deadline_s") {
            Some(start) if start < of_rollout.0 => (start, "env.start_deadline_s"),
            _ => of_rollout,
        },
        _ => of_rollout,
    }
}
