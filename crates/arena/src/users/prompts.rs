//! Prompts for an LLM that plays a user.
//!
//! The keys are those of tau-bench's prompt file, so that its texts can be loaded instead: `{instruction_display}` is
//! the task's instruction, `{transcript}` and `{response}` the conversation and the message under review.

use serde::Deserialize;

/// The prompts of the four strategies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Prompts {
    pub llm_system: String,
    pub react_system: String,
    pub verify_user_prompt: String,
    pub reflect_user_prompt: String,
}

const ROLE: &str = "You are the customer in a conversation with a service agent.{instruction_display}
How to play the customer:
- Write one short message at a time, as the customer would say it, in your own words.
- Tell the agent what it asks for and what the current step needs, not everything at once.
- Know nothing beyond the instruction. If the agent asks for something that is not there, say that you do not know it.
- Confirming a change does not finish it. Wait until the agent says that the change has been made.
- When everything in the instruction is settled, write ###STOP### and nothing else.";

const REACT: &str = "
Write your reply in this form; the agent sees only what follows User Response:

Thought:
<what you make of the situation>

User Response:
<the message to the agent>";

const VERIFY: &str =
    "A simulated customer talks to a service agent. Read the conversation and the customer's next message. \
Is the message what this customer would say: in role, consistent with the conversation, inventing nothing?
Answer with one word, true or false.

# Conversation
{transcript}

# Next message
{response}

Answer:";

const REFLECT: &str = "A simulated customer talks to a service agent. The customer's next message was rejected: it is out \
of role, contradicts the conversation or invents something. Say in one sentence what is wrong, then write a better message.

# Conversation
{transcript}

# Rejected message
{response}

Answer in this form:

Reflection:
<what is wrong>

Response:
<the better message>";

impl Default for Prompts {
    fn default() -> Self {
        Self {
            llm_system: ROLE.into(),
            react_system: format!("{ROLE}{REACT}"),
            verify_user_prompt: VERIFY.into(),
            reflect_user_prompt: REFLECT.into(),
        }
    }
}

impl Prompts {
    /// Guidelines of tau2's user simulator, which come with the data set. The persona is part of the task.
    pub fn tau2(guidelines: &str) -> Self {
        let guidelines = guidelines.replace("<PERSONA_GUIDELINES>", "");
        Self { llm_system: format!("{guidelines}\n\n<scenario>\n{{scenario}}\n</scenario>"), ..Self::default() }
    }

    pub(super) fn system(&self, react: bool, instruction: &str) -> String {
        let template = if react { &self.react_system } else { &self.llm_system };
        let display = if instruction.is_empty() { String::new() } else { format!("\n\nInstruction: {instruction}\n") };
        match template.split_once("{scenario}") {
            Some((before, after)) => format!("{before}{instruction}{after}"),
            None => template.replace("{instruction_display}", &display),
        }
    }

    pub(super) fn verify(&self, transcript: &str, response: &str) -> String {
        fill(&self.verify_user_prompt, transcript, response)
    }

    pub(super) fn reflect(&self, transcript: &str, response: &str) -> String {
        fill(&self.reflect_user_prompt, transcript, response)
    }
}

/// Fills a template in one pass: text written by an agent is not a template.
fn fill(template: &str, transcript: &str, response: &str) -> String {
    let mut filled = String::new();
    for (at, part) in template.split("{transcript}").enumerate() {
        if at > 0 {
            filled.push_str(transcript);
        }
        filled.push_str(&part.replace("{response}", response));
    }
    filled
}
