use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Opening, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "tool_schemas",
    what: "The tools on offer cannot be used: there are none, a schema is not valid JSON Schema or rejects the tasks' \
           own solutions, or two tools share a name.",
    measure: "The tools of an opened episode, and its reference's calls against their schemas. Error. A prompt without \
              a user message is a note.",
    fix: "Answer `open` with at least one tool whose `parameters` are a JSON Schema of an object.",
    explains: &[
        "opens",
        "call_format",
        "parse_failures",
        "no_calls",
        "no_signal",
        "constant_component",
        "identical_rollouts",
    ],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let opened: Vec<_> = world.openings.iter().filter(|opening| opening.fault.is_none()).collect();
    if opened.is_empty() {
        return Looked::skipped("an episode that opens");
    }
    if let Some((opening, why)) = opened.iter().find_map(|o| Some((o, o.bad_schema.as_ref()?))) {
        return Finding::new(Severity::Error, format!("{}: {why}", opening.env)).into();
    }
    if let Some(opening) = opened.iter().find(|opening| opening.tools.is_empty()) {
        let says = format!("{}: it offers no tools; answer `open` with at least one under \"tools\"", opening.env);
        return Finding::new(Severity::Error, says).into();
    }
    let misfit = |opening: &&&Opening| opening.rendered.known().is_some_and(|rendered| !rendered.misfits.is_empty());
    let unfit: Vec<_> = opened.iter().filter(misfit).collect();
    if let Some((opening, (call, why))) =
        unfit.first().and_then(|opening| Some((opening, opening.rendered.known()?.misfits.first()?)))
    {
        let says = format!("the tools that {} offers do not take the calls of its solutions: {why}", opening.env);
        return Finding::new(Severity::Error, says)
            .line(format!("task {}, a call of {call}; {} of {} opened tasks", opening.task, unfit.len(), opened.len()))
            .fix("Let names, properties and `required` of the schemas be those that the environment reads, and offer every tool.")
            .into();
    }
    if let Some(opening) = opened.iter().find(|opening| !opening.roles.contains(&"user")) {
        let says = format!("{} opens without a message of the user: nothing asks the policy to act", opening.env);
        return Finding::new(Severity::Note, says)
            .fix("Answer `open` with a message of role `user` under `messages`: what the policy is asked.")
            .into();
    }
    Ok(Looked::Healthy)
}
