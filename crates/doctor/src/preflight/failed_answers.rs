use hone_trace::rundir::RunDirError;
use hone_trace::{Content, Message};
use serde_json::Value;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "failed_answers",
    what: "Tools answer the reference calls with errors.",
    measure: "Calls of the references that are answered with an error: counted as failed by the environment, or by their \
              text (it begins with \"error\", or is an object with `error`). Warning from 40 %, error from 75 %.",
    fix: "Play an episode by hand with `hone env play`: something the tools need (a database, a service, a file) is \
          missing.",
    explains: &["calls_not_run", "constant_component", "no_signal"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(scripts) = probe.world.known().and_then(|world| world.scripts.known()) else {
        return Looked::skipped("an environment that scripts can play: `hone check` plays some, `hone train` does not");
    };
    let answered: Vec<_> = scripts
        .references
        .iter()
        .flat_map(|script| script.answers().map(move |(call, said)| (script, call, said)))
        .collect();
    if answered.is_empty() {
        return Looked::skipped("calls of tasks with a `reference`");
    }
    let worded: Vec<_> = answered.iter().filter(|(_, _, said)| said.iter().any(speaks_of_failure)).collect();
    let flagged = scripts.references.iter().map(|script| script.failed as usize).sum::<usize>();
    let failed = worded.len().max(flagged);
    let rate = failed as f64 / answered.len() as f64;
    if rate < 0.4 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.75 { Severity::Warning } else { Severity::Error };
    let says = format!("{} calls of the references are answered with an error", share(failed, answered.len()));
    let mut finding = Finding::new(severity, says);
    if let Some((script, call, said)) = worded.first() {
        let text: String = said.iter().filter_map(Message::content).map(Content::text).collect();
        finding =
            finding.line(format!("task {}: {call}: {:?}", script.task, text.chars().take(120).collect::<String>()));
    }
    if 2 * flagged < worded.len() {
        finding = finding.line("the environment does not count them as failed: answer a step with \"failed\": 1");
    }
    finding.into()
}

/// An answer that says itself that it is an error.
fn speaks_of_failure(message: &Message) -> bool {
    let text = message.content().map(Content::text).unwrap_or_default();
    let text = text.trim();
    let begins = ["error", "exception", "traceback"]
        .iter()
        .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
    let object = serde_json::from_str::<Value>(text).ok();
    begins || object.is_some_and(|object| object.get("error").is_some_and(|error| !error.is_null() && error != false))
}
