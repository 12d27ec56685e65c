use hone_trace::rundir::RunDirError;

use super::refused;
use crate::check::{Check, Looked};
use crate::probe::{Probe, RefusalKind};

pub(super) const CHECK: Check<Probe> = Check {
    name: "tools_in_prompt",
    what: "The tools do not reach the prompt: the policy is asked to use what it was never shown.",
    measure: "The first prompt of one task per environment, rendered with its tools, decoded and searched for \
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
    refused(probe, RefusalKind::ToolsLost, |task| format!("the tools of task {task} are not in its prompt"))
}
