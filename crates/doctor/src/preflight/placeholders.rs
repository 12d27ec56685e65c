use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "placeholders",
    what: "Variables are missing: the prompt contains a placeholder instead of a value.",
    measure: "`{{NAME}}`, `${NAME}` and `{NAME}` with a name in capitals, in the texts an episode opens with. Warning.",
    fix: "Give the tasks the variable under `variables`, or remove the placeholder from the system prompt.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let found = world.openings.iter().find_map(|opening| {
        let stated = opening.stated_date.is_some();
        placeholder(&opening.said).filter(|name| !(stated && name.contains("CURRENT_DATE"))).map(|name| (opening, name))
    });
    match found {
        Some((opening, name)) => {
            Finding::new(Severity::Warning, format!("the prompt of task {} has an open place: {name}", opening.task))
                .into()
        }
        None if world.openings.iter().all(|o| o.fault.is_some()) => Looked::skipped("an episode that opens"),
        None => Ok(Looked::Healthy),
    }
}

/// The first placeholder of a text.
fn placeholder(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let inner = rest[at..].trim_start_matches('{');
        let name: String =
            inner.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect();
        if name.len() > 2 && inner[name.len()..].starts_with('}') {
            return Some(format!("{{{name}}}"));
        }
        rest = &rest[at + 1..];
    }
    None
}
