//! The texts around an episode: policy, instructions, and the frame in which tau2 puts them.

use std::path::Path;

use hone_trace::{Task, ToolSpec};
use serde_json::{Value, json};

use super::{Domain, Kind, Profile};

/// The tool with which an agent in solo mode ends its episode.
pub const STOP: &str = "done";

/// The tool of [`STOP`], in our own words.
pub(super) fn done() -> ToolSpec {
    ToolSpec::new(STOP, "End the work on the ticket.", json!({"type": "object", "properties": {}}))
}

const INSTRUCTION: &str = "You are a service agent and help the user as the policy below says.
In each turn, write a message to the user or call a tool, not both.
Calls are valid JSON.";

const SOLO_INSTRUCTION: &str = "You are a service agent and solve the ticket below as the policy says.
Nobody reads messages: only call tools. When the ticket is solved, call `done`, alone.
Calls are valid JSON.";

/// The agent's policy, if no data set provides one.
pub fn policy(kind: Kind) -> &'static str {
    match kind {
        Kind::Retail => include_str!("retail/policy.md"),
        Kind::Airline => include_str!("airline/policy.md"),
        Kind::Telecom => include_str!("tau2/telecom/policy.md"),
    }
}

/// System prompt of an episode.
#[derive(Debug)]
pub(super) struct Texts {
    policy: String,
    instruction: String,
}

impl Texts {
    pub(super) fn own(domain: &Domain) -> Self {
        let instruction = if domain.solo { SOLO_INSTRUCTION } else { INSTRUCTION };
        Self { policy: policy(domain.kind).to_owned(), instruction: instruction.to_owned() }
    }

    /// Reads the texts that a data directory provides.
    pub(super) fn read(&mut self, domain: &Domain, directory: &Path) {
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
        let (main, instruction) = if domain.solo {
            ("main_policy_solo.md", "agent_instruction_solo.md")
        } else {
            ("main_policy.md", "agent_instruction.md")
        };
        // Telecom's policy has two parts.
        let parts = || {
            let (main, support) = (read(main)?, read("tech_support_manual.md")?);
            let main = format!("<main_policy>\n{main}\n</main_policy>");
            Some(format!("{main}\n<tech_support_policy>\n{support}\n</tech_support_policy>"))
        };
        if let Some(policy) = read("wiki.md").or_else(|| read("policy.md")).or_else(parts) {
            self.policy = policy;
        }
        if let Some(instruction) = read(instruction) {
            self.instruction = instruction;
        }
    }

    /// System prompt: tau-bench shows only the policy, tau2 frames it.
    pub(super) fn system(&self, domain: &Domain, task: &Task) -> String {
        let Self { policy, instruction } = self;
        if domain.profile != Profile::Tau2 {
            return policy.clone();
        }
        let framed = format!("<instructions>\n{instruction}\n</instructions>\n<policy>\n{policy}\n</policy>");
        if !domain.solo {
            return framed;
        }
        let ticket = task.extra.get("ticket").and_then(Value::as_str).unwrap_or_default();
        format!("{framed}\n<ticket>\n{ticket}\n</ticket>")
    }
}
