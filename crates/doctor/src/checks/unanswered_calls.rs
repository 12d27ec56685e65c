use hone_trace::Message;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::{Run, messages, text};

pub(super) const CHECK: Check = Check {
    name: "unanswered_calls",
    what: "Calls are run and nothing comes back: the policy acts and is not told the results.",
    measure: "Turns of probed episodes, except the last, with a call that ran and no tool message after it. Warning \
              from 10 %, error from 50 %. Error too where none of at least 8 answers has text.",
    fix: "Answer every call with a message of role \"tool\", even where there is nothing to say.",
    explains: &["no_signal", "repeated_calls", "truncated", "no_recovery"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (mut all, mut silent, mut blank) = (0usize, Vec::new(), Vec::new());
    for (number, trace) in run.probed()? {
        let Some(messages) = messages(&trace) else { continue };
        for (at, message) in messages.iter().enumerate() {
            let Message::Assistant { tool_calls, .. } = message else { continue };
            let last = !messages[at + 1..].iter().any(|later| matches!(later, Message::Assistant { .. }));
            if tool_calls.is_empty() || last {
                continue;
            }
            all += 1;
            match messages.get(at + 1) {
                Some(answer @ Message::Tool { .. }) if text(answer).trim().is_empty() => blank.push(number),
                Some(Message::Tool { .. }) => {}
                _ => silent.push(number),
            }
        }
    }
    if all == 0 {
        return Looked::skipped("recorded conversations with calls");
    }
    if blank.len() == all && all >= 8 {
        return Finding::new(Severity::Error, format!("all {all} answers of the tools are without a text"))
            .traces(blank)
            .into();
    }
    let rate = silent.len() as f64 / all as f64;
    if rate < 0.1 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.5 { Severity::Warning } else { Severity::Error };
    let says = format!("{} turns with a call got no answer from a tool", share(silent.len(), all));
    silent.dedup();
    Finding::new(severity, says).traces(silent).into()
}
