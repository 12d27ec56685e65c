use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "temperature",
    what: "The training temperature is so low that episodes hardly differ, or so high that they are noise.",
    measure: "sampling.temperature. Warning under 0.3 and over 1.5, error under 0.05 and from 2.5.",
    fix: "Train at temperature 1; evaluation has its own eval.temperature.",
    explains: &["identical_rollouts", "parse_failures", "truncated", "no_calls", "no_signal", "constant_component"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let temperature = probe.recipe.sampling.temperature;
    if (0.3..=1.5).contains(&temperature) {
        return Ok(Looked::Healthy);
    }
    let what = if temperature < 0.3 { "hardly explores" } else { "is mostly noise" };
    let severity = if (0.05..2.5).contains(&temperature) { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("a policy sampled at temperature {temperature} {what}")).likely().into()
}
