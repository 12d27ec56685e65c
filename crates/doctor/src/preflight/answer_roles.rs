use hone_trace::Message;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

/// Calls that are enough to speak of all.
const CALLS: usize = 3;

pub(super) const CHECK: Check<Probe> = Check {
    name: "answer_roles",
    what: "Tool results arrive in the wrong role: the policy reads them as the user's words, or as its own.",
    measure: "Messages that answer the scripts' calls. Error where one has the role \"assistant\" or \"system\", or where no \
              call of at least 3 is answered by a message of role \"tool\".",
    fix: "Answer every call with a message {\"role\": \"tool\", \"name\": …, \"content\": …}.",
    explains: &["reference_fails", "determinism", "no_signal", "parse_failures", "never_done", "constant_component"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let played = scripts.again.iter().map(|(first, _)| first);
    let answered: Vec<_> = played
        .flat_map(|script| script.answers().map(move |(call, messages)| (script, call, messages)))
        .filter(|(_, _, messages)| !messages.is_empty())
        .collect();
    if answered.len() < CALLS {
        return Looked::skipped("three scripted calls that are answered");
    }
    let shown = |task: &str, call: &str, role: &str| format!("task {task}: {call} is answered in the role {role:?}");
    let forged = |message: &&Message| matches!(message.role(), "assistant" | "system");
    let forgeries: Vec<_> = answered
        .iter()
        .filter_map(|(script, call, messages)| Some((script, call, messages.iter().find(forged)?.role())))
        .collect();
    if let Some((script, call, role)) = forgeries.first() {
        let says = format!("{} answers to calls speak as the {role}", share(forgeries.len(), answered.len()));
        return Finding::new(Severity::Error, says).line(shown(&script.task, call, role)).into();
    }
    let tool = |messages: &[Message]| messages.iter().any(|message| message.role() == "tool");
    if answered.iter().any(|(_, _, messages)| tool(messages)) {
        return Ok(Looked::Healthy);
    }
    let (script, call, messages) = &answered[0];
    let role = messages.first().map_or("user", Message::role);
    let says = format!("no answer to {} scripted calls has the role \"tool\"", answered.len());
    Finding::new(Severity::Error, says).line(shown(&script.task, call, role)).into()
}
