use hone_trace::Trace;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "call_format",
    what: "Calls are parsed in a different format from the one the model writes, or do not read back as they were \
           written.",
    measure: "A call rendered by the chat template itself, and calls of the offered tools (references and valid \
              random ones) written in the format of the run and parsed again. Error.",
    fix: "Set rollout.format to the format that the template writes, or leave it out.",
    explains: &["opens", "parse_failures", "calls_as_text", "no_calls", "identical_rollouts", "no_signal", "truncated"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(texts) = probe.texts.known() else { return probe.texts.skipped("a model directory") };
    let named = probe.recipe.rollout.format;
    if texts.template_format.is_none() && named.is_none() {
        let says = format!("the chat template of {} writes no call that can be read back", texts.model.display());
        return Finding::new(Severity::Error, says)
            .fix(
                "Give the model directory a chat template with tools, as instruct models have one, or name the format \
                 it writes: rollout.format.",
            )
            .into();
    }
    let differs = named.zip(texts.template_format).filter(|(read, written)| read != written);
    if let Some((read, written)) = differs {
        // The format the starting policy actually writes decides, if it was seen.
        let played = probe.played.known();
        let calls = played.map(|played| played.episodes().map(|(_, trace)| calls(trace)).sum::<u32>());
        if calls.is_none_or(|calls| calls == 0) {
            let says = format!("replies are read as {}, and the chat template writes {}", read.name(), written.name());
            return Finding::new(Severity::Error, says)
                .fix(format!("Set rollout.format = {:?}, or leave it out.", written.name()))
                .into();
        }
    }
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let unread: Vec<_> = world.openings.iter().filter_map(|o| o.rendered.known()).flat_map(|r| &r.unread).collect();
    let Some((call, why)) = unread.first() else { return Ok(Looked::Healthy) };
    Finding::new(Severity::Error, format!("{} calls of the offered tools do not read back", unread.len()))
        .line(format!("{call:?}: {why}"))
        .fix("Rename what the format cannot carry (a tool, a parameter, a value), or use another format.")
        .into()
}

fn calls(trace: &Trace) -> u32 {
    trace.turns.iter().map(|turn| turn.executed).sum()
}
