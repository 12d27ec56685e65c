use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "tools_in_prompt",
    what: "The tools do not reach the prompt: the policy is asked to use what it was never shown.",
    measure: "The first prompt of a task of every environment, rendered with its tools, decoded and searched for \
              every tool and parameter. Error.",
    fix: "Use the chat template of the model's own instruct version; templates of base models often ignore `tools`.",
    explains: &[
        "opens",
        "call_format",
        "tool_results",
        "parse_failures",
        "calls_as_text",
        "no_calls",
        "no_signal",
        "identical_rollouts",
        "truncated",
    ],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let found = world.openings.iter().find_map(|opening| {
        opening
            .refusal
            .as_ref()
            .filter(|refusal| refusal.kind == RefusalKind::ToolsLost)
            .map(|refusal| (opening, refusal))
    });
    if let Some((opening, refusal)) = found {
        let says = format!("the tools of task {} are not in its prompt", opening.task);
        return Finding::new(Severity::Error, says).line(refusal.words.clone()).into();
    }
    if world.openings.iter().all(|opening| opening.rendered.known().is_none() && opening.refusal.is_none()) {
        return Looked::skipped("a rendered prompt");
    }
    Ok(Looked::Healthy)
}
