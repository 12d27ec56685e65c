//! Confirmed: every write follows the user's consent to something the agent said.
//!
//! Minus the share of write calls whose latest user message is not a yes to an earlier message of the agent. A yes is
//! recognised by a list of words; a user who opens with `no`, `wait` or `stop` did not consent.

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::{Step, messages, share, steps, writes};
use crate::catalogue::Options;
use crate::documented;
use crate::rewards::catalogue::{ComponentEntry, plain};
use crate::rewards::{Case, Measure, rouge, scored};

pub(in crate::rewards) const ENTRY: ComponentEntry = ComponentEntry {
    name: "confirmed",
    about: "Minus the share of writes that do not follow the user's yes, from -1 to 0",
    advice: "For policy documents that require consent before a change",
    paper: None,
    options: Options::of::<Confirmed>(),
    make: plain::<Confirmed>,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Confirmed {
        /// Words (lower case) any of which makes a user's message a yes.
        pub yes: Vec<String>,
        /// First words that make it a no.
        pub no: Vec<String>,
    }
}

impl Default for Confirmed {
    fn default() -> Self {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        Self {
            // Not `please`, `right` or `good`: they open requests and identity checks as often as they consent.
            yes: words(&[
                "yes",
                "yeah",
                "yep",
                "sure",
                "ok",
                "okay",
                "confirm",
                "confirmed",
                "correct",
                "proceed",
                "agree",
                "ahead",
                "absolutely",
                "definitely",
            ]),
            no: words(&["no", "not", "nope", "wait", "stop", "don"]),
        }
    }
}

impl Measure for Confirmed {
    fn measure(&self, case: &Case) -> Verdict {
        let (messages, writes) = match (messages(case), writes(case)) {
            (Ok(messages), Ok(writes)) => (messages, writes),
            (Err(missing), _) | (_, Err(missing)) => return missing,
        };
        let (mut agent_spoke, mut consent) = (false, false);
        let (mut made, mut unconfirmed) = (0, 0);
        for step in steps(messages) {
            match step {
                Step::Said => agent_spoke = true,
                Step::Heard { text, by_user: true } => consent = agent_spoke && self.is_yes(&text),
                Step::Called(call) if writes.contains(&call.name) => {
                    made += 1;
                    unconfirmed += usize::from(!consent);
                }
                Step::Called(_) | Step::Heard { .. } => {}
            }
        }
        scored(share(unconfirmed, made), format!("unconfirmed: {unconfirmed} of {made} writes"))
    }
}

impl Confirmed {
    fn is_yes(&self, text: &str) -> bool {
        let words = rouge::tokens(text, false);
        words.first().is_some_and(|first| !self.no.contains(first)) && words.iter().any(|word| self.yes.contains(word))
    }
}
