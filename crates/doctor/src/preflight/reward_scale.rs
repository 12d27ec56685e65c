use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Played, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "reward_scale",
    what: "Rewards are so large that one episode can swamp all others.",
    measure: "The largest absolute value of a component or total over scripts and episodes. Warning over 100.",
    fix: "Scale the component in the environment or the scorer to about 1.",
    explains: &["logprob_mismatch"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let mut most: Option<(String, f64, Option<u64>)> = None;
    let mut see = |name: &str, value: f64, number: Option<u64>| {
        if most.as_ref().is_none_or(|(_, other, _)| value.abs() > other.abs()) {
            most = Some((name.to_owned(), value, number));
        }
    };
    for (number, trace) in probe.played.known().into_iter().flat_map(Played::episodes) {
        trace.rewards.iter().for_each(|r| {
            if let Some(value) = r.value() {
                see(&r.component, value, Some(number));
            }
        });
    }
    let scripts = probe.world.known().and_then(|world| world.scripts.known());
    for script in scripts.into_iter().flat_map(|scripts| scripts.references.iter().chain(&scripts.idle)) {
        script.rewards.iter().for_each(|(name, value)| see(name, *value, None));
    }
    match most {
        None => Looked::skipped("a scored episode: `hone check` plays some, `hone train` does not"),
        Some((name, value, number)) if value.abs() > 100.0 => {
            Finding::new(Severity::Warning, format!("`{name}` reached {value}")).traces(number).into()
        }
        Some(_) => Ok(Looked::Healthy),
    }
}
