//! Reward components and the rubric that weighs them. One component is one file; a new one is that and one line of
//! [`COMPONENTS`].
//!
//! A component looks at a [`Case`], the text view of an episode, and returns a [`Verdict`]: a value with the reason for
//! it, or no value with the reason. It knows nothing about groups, advantages or training. Two rules hold everywhere:
//!
//! - **The policy can never cause an unscored component.** Unscored means that the task lacks something (no reference,
//!   no gold ids) or that something around the policy broke (a judge that does not answer). Bad behaviour of the
//!   policy, including unreadable output, is a low value. Otherwise breaking the output would be a way to avoid a
//!   component.
//! - **Penalties are at most 0.** Repetition, cost and broken rules are counted below zero rather than their absence
//!   above it: an episode that does nothing breaks no rule and must not earn anything for it.
//!
//! A reason starts with a stable code and a colon (`unparseable: …`), so that reasons can be counted.

mod case;
pub mod catalogue;
pub mod endpoint;
mod lenient;
mod porter;
mod rubric;
pub mod ruler;
pub mod spec;
mod submission;

use async_trait::async_trait;
pub use case::{Case, Changes, Context, States, Texts};
pub use env_reward::Given;
use hone_trace::{Verdict, entries};
pub use rubric::{OTHERWISE, Product, Rubric, RubricError, Scorecard, TOTAL, Term};
pub use submission::{Source, Submission};

use self::catalogue::ComponentEntry;

entries! {
    /// The reward components: every `kind` a rubric can name.
    pub static COMPONENTS: [&ComponentEntry];
    pub mod correct: ENTRY;
    pub mod env_reward: ENTRY;
    pub mod tau: ENTRY, STATE_ENTRY, OUTPUTS_ENTRY;
    pub mod state_diff: ENTRY;
    pub mod format: ENTRY;
    pub mod parse_penalty: ENTRY;
    pub mod rouge: ENTRY;
    pub mod grounding: ENTRY;
    pub mod support: ENTRY;
    pub mod calibration: ENTRY;
    pub mod parsimony: ENTRY;
    pub mod repetition: ENTRY, CITATION_ENTRY;
    pub mod process: FOUND, CONFIRMED, INVENTED, REPEATED;
    pub mod cost: TURN_ENTRY, LENGTH_ENTRY;
    pub mod overlong: ENTRY;
    pub mod cosine: ENTRY;
    pub mod judge: ENTRY;
    pub mod assertions: ENTRY;
    pub mod command: ENTRY;
    mod stdio: ENTRY;
}

/// Component that computes its verdict from the case alone.
pub trait Measure: Send + Sync {
    fn measure(&self, case: &Case) -> Verdict;
}

/// Any component, including those that ask an external service. Every [`Measure`] is one.
#[async_trait]
pub trait Component: Send + Sync {
    async fn verdict(&self, case: &Case) -> Verdict;
}

#[async_trait]
impl<M: Measure> Component for M {
    async fn verdict(&self, case: &Case) -> Verdict {
        self.measure(case)
    }
}

/// A component under a name, as the rollout driver takes it.
pub struct Named {
    pub name: String,
    pub component: Box<dyn Component>,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named").field("name", &self.name).finish_non_exhaustive()
    }
}

fn scored(value: f64, why: impl Into<String>) -> Verdict {
    Verdict::scored(value, why)
}

fn unscored(why: impl Into<String>) -> Verdict {
    Verdict::unscored(why)
}

/// The task or the episode lacks something this component needs.
fn not_applicable(what: &str) -> Verdict {
    Verdict::NotApplicable { why: format!("not_applicable: {what}") }
}

/// The start of a text for a reason, on one line.
fn excerpt(text: &str, limit: usize) -> String {
    let mut short: String = text.chars().take(limit).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(limit).is_some() {
        short.push('…');
    }
    short
}
