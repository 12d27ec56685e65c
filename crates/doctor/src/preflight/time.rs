use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "time",
    what: "The run takes impractically long.",
    measure: "Seconds of the probe's episodes, scaled to a step and the run, learning not counted. Warning over a \
              week.",
    fix: "Train fewer or smaller steps, raise rollout.concurrency, or use a faster engine.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let episodes = played.episodes().count();
    if episodes == 0 {
        return Looked::skipped("episodes of the start policy");
    }
    let train = &probe.recipe.train;
    let step = played.seconds / episodes as f64 * train.groups as f64 * f64::from(train.group_size);
    let days = step * train.steps as f64 / 86_400.0;
    if days <= 7.0 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("sampling alone takes about {days:.0} days for {} steps", train.steps))
        .line(format!(
            "{episodes} episodes took {:.1} s; a step has {}",
            played.seconds,
            train.groups * train.group_size as usize
        ))
        .likely()
        .into()
}
