use std::collections::BTreeMap;

use hone_chat::parse::{Format, Toolbox, parse};
use hone_trace::Message;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::{Run, messages, text};

pub(super) const CHECK: Check = Check {
    name: "calls_as_text",
    what: "Calls in another format pass for plain replies: the user is told what a tool should have been.",
    measure: "Replies of probed episodes that read as plain text and are a valid call of an offered tool in another \
              format. Warning from 2 % of the replies, error from 15 %.",
    fix: "Set rollout.format to the named format.",
    explains: &["no_signal", "do_nothing", "nothing_trained", "truncated"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (mut all, mut lost, mut formats) = (0usize, Vec::new(), BTreeMap::new());
    for (number, trace) in run.probed()? {
        let (Some(messages), Ok(tools)) = (messages(&trace), Toolbox::new(trace.tools())) else { continue };
        for message in messages.iter().skip_while(|message| !matches!(message, Message::Assistant { .. })) {
            let Message::Assistant { tool_calls, .. } = message else { continue };
            all += 1;
            let said = text(message);
            // Reading a reply in every format takes long: only those that hold a tool's name.
            if !tool_calls.is_empty() || !trace.tools().iter().any(|tool| said.contains(&tool.name)) {
                continue;
            }
            let valid = |format: &Format| {
                let parsed = parse(&said, &tools, Some(*format));
                parsed.error.is_none() && !parsed.calls.is_empty()
            };
            if let Some(format) = Format::ALL.into_iter().find(valid) {
                *formats.entry(format.name()).or_insert(0usize) += 1;
                lost.push((number, said));
            }
        }
    }
    if all == 0 {
        return Looked::skipped("recorded conversations");
    }
    let rate = lost.len() as f64 / all as f64;
    let likeliest = formats.into_iter().max_by_key(|(_, count)| *count);
    let Some((format, _)) = likeliest.filter(|_| rate >= 0.02) else { return Ok(Looked::Healthy) };
    let severity = if rate < 0.15 { Severity::Warning } else { Severity::Error };
    let example: String = lost[0].1.chars().take(160).collect();
    Finding::new(severity, format!("{} replies are calls that went to the user as text", share(lost.len(), all)))
        .line(format!("in the format {format}, e.g. {example:?}"))
        .traces(lost.iter().map(|(number, _)| *number))
        .fix(format!("Set rollout.format = {format:?}."))
        .into()
}
