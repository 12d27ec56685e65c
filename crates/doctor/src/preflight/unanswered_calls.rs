use hone_trace::Message;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "unanswered_calls",
    what: "Calls are run and nothing comes back: the policy is not told the result of its actions.",
    measure: "Scripted calls that get no answer while the episode continues: warning, error from half of them. Error \
              too where none of at least 8 calls is answered with text.",
    fix: "Answer every call with a message of role \"tool\" with the result, even if it is only \"done\".",
    explains: &[
        "no_signal",
        "truncated",
        "calls_not_run",
        "parse_failures",
        "constant_component",
        "identical_rollouts",
    ],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let turns = scripts.again.iter().flat_map(|(first, _)| first.turns.iter().map(move |turn| (first, turn)));
    let calls: Vec<_> = turns.filter(|(_, (action, _))| !action.starts_with('"')).collect();
    if calls.is_empty() {
        return Looked::skipped("a scripted call");
    }
    let silent: Vec<_> = calls.iter().filter(|(_, (_, answer))| answer == "[]").collect();
    let blank: Vec<_> = calls.iter().filter(|(_, (_, answer))| is_blank(answer)).collect();
    if silent.is_empty() && blank.len() == calls.len() && calls.len() >= 8 {
        let (script, (action, answer)) = &blank[0];
        return Finding::new(
            Severity::Error,
            format!("all {} scripted calls are answered without a text", calls.len()),
        )
        .line(format!("task {}: {action} was answered {answer}", script.task))
        .into();
    }
    let Some((script, (action, _))) = silent.first() else { return Ok(Looked::Healthy) };
    let severity = if 2 * silent.len() >= calls.len() { Severity::Error } else { Severity::Warning };
    Finding::new(severity, format!("{} scripted calls are answered with nothing", share(silent.len(), calls.len())))
        .line(format!("task {}: {action}", script.task))
        .into()
}

/// Messages that all have a content, and nothing in it.
fn is_blank(answer: &str) -> bool {
    let Ok(messages) = serde_json::from_str::<Vec<Message>>(answer) else { return false };
    let blank = |message: &Message| message.content().is_none_or(|content| content.text().trim().is_empty());
    !messages.is_empty() && messages.iter().all(blank)
}
