use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

use super::parse_failures::likeliest;

pub(super) const CHECK: Check<Probe> = Check {
    name: "calls_as_text",
    what: "Calls in another format pass for plain replies: the user is told what a tool should have been.",
    measure: "Replies that read as plain text and are a valid call of an offered tool in another format. Warning \
              from 2 % of all replies, error from 15 %.",
    fix: "Set rollout.format to the named format.",
    explains: &["no_calls", "no_signal", "never_done", "parse_failures", "identical_rollouts"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    if played.turns == 0 {
        return Looked::skipped("a reply of the start policy");
    }
    let lost: Vec<_> = played.replies.iter().filter(|r| r.failure.is_none() && !r.formats.is_empty()).collect();
    let rate = lost.len() as f64 / played.turns as f64;
    let own = probe.texts.known().and_then(|texts| texts.template_format);
    let Some((format, _)) = likeliest(lost.iter().copied(), own).filter(|_| rate >= 0.02) else {
        return Ok(Looked::Healthy);
    };
    let severity = if rate < 0.15 { Severity::Warning } else { Severity::Error };
    let text: String = lost[0].text.chars().take(160).collect();
    Finding::new(
        severity,
        format!("{} replies are calls that went to the user as text", share(lost.len(), played.turns)),
    )
    .line(format!("in the format {}, e.g. {text:?}", format.name()))
    .traces(lost.iter().map(|reply| reply.trace))
    .fix(format!("Set rollout.format = {:?}.", format.name()))
    .into()
}
