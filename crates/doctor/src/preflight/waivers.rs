use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "waivers",
    what: "A waiver excuses nothing: it names no check, or gives no reason.",
    measure: "The keys of `[doctor] waive`. Error.",
    fix: "Write the name as `hone check` and docs/doctor.md do, with the reason as its value.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let waivers = &probe.recipe.doctor.waive;
    let names: Vec<&str> = crate::names().collect();
    for (name, reason) in waivers {
        if !names.contains(&name.as_str()) {
            let nearest = hone_trace::nearest(name, names.iter().copied());
            let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest:?}?"));
            let says = format!("doctor.waive names {name:?}, which is no check{nearest}");
            return Finding::new(Severity::Error, says).into();
        }
        if reason.trim().is_empty() {
            let says = format!("doctor.waive.{name} has no reason; a later reader will want one");
            return Finding::new(Severity::Error, says).into();
        }
    }
    Ok(Looked::Healthy)
}
