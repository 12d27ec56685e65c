//! The probe: everything the doctor knows of a recipe before its first step, gathered once. Checks over it are pure.

mod closed;
mod gather;
mod given;
mod identity;
mod opening;
mod play;
mod script;
mod world;

use std::collections::BTreeSet;
use std::path::PathBuf;

use hone_chat::budget::PromptCost;
use hone_chat::parse::Format;
use hone_chat::render::Rewrite;
use hone_trace::rundir::RunDirError;
use hone_trace::{Held, ParseFailure, Trace};
use hone_train::budget::Budget;
use hone_train::recipe::Recipe;

pub use given::given;
pub use script::Transcript;

use crate::check::Looked;

/// A recipe, its model directory, its environment and its start policy, as far as they were looked at.
#[derive(Debug, Default)]
pub struct Probe {
    pub recipe: Recipe,
    /// Reason why the recipe cannot be read; it then has its defaults here.
    pub unreadable: Option<String>,
    /// Keys that the recipe's author wrote, with dots: `train.warmup`.
    pub given: BTreeSet<String>,
    /// Reason why the recipe cannot be opened, in the opener's words.
    pub refused: Option<String>,
    pub texts: Part<Texts>,
    pub budget: Option<Budget>,
    pub world: Part<World>,
    pub played: Part<Played>,
    pub identity: Part<Identity>,
}

/// A part of the probe.
#[derive(Debug, Default)]
pub enum Part<T> {
    /// Not looked at: too dear for this occasion.
    #[default]
    Left,
    /// Unavailable, with the reason.
    Broken(String),
    Known(T),
}

impl<T> Part<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Left | Self::Broken(_) => None,
        }
    }

    /// The answer of a check that needs this part.
    pub fn skipped(&self, needs: &str) -> Result<Looked, RunDirError> {
        match self {
            Self::Broken(why) => Looked::skipped(format!("{needs} ({why})")),
            Self::Left => Looked::skipped(format!("{needs}: `hone check` plays some, `hone train` does not")),
            Self::Known(_) => Looked::skipped(needs),
        }
    }
}

/// The model directory, without its weights.
#[derive(Debug, Default)]
pub struct Texts {
    pub model: PathBuf,
    /// The call format that the chat template writes. `None`: it writes none that can be read back.
    pub template_format: Option<Format>,
    /// Longest sequence the model was made for, where its config says.
    pub context_window: Option<usize>,
    /// Largest id of the tokenizer.
    pub largest_id: u32,
    /// Token ids the weights know. `None` where they could not be opened.
    pub vocabulary: Option<usize>,
    /// True when the tokenizer of `policy.reference` is the policy's own; `None` where none is named.
    pub reference_agrees: Option<bool>,
}

/// The environment: what it opens with, and how it answers scripts.
#[derive(Debug, Default)]
pub struct World {
    pub tasks: usize,
    pub held_out: usize,
    /// Share of the held-out tasks that equal a training task in everything but their key. `None` if tasks have no
    /// content.
    pub shared_content: Option<f64>,
    /// Keys of training tasks that repeat another's content.
    pub repeated: Vec<String>,
    /// Training tasks with a reference, and those of them whose reference does nothing.
    pub references: usize,
    pub no_op: Vec<String>,
    pub openings: Vec<Opening>,
    pub scripts: Part<Scripts>,
    /// Scripted episodes until one held: where no scripts are played.
    pub first: Vec<Transcript>,
}

/// Opening of an episode.
#[derive(Debug, Default, Clone)]
pub struct Opening {
    pub task: String,
    pub env: String,
    /// Reason why it did not open, in the environment's words.
    pub fault: Option<String>,
    pub tools: Vec<String>,
    /// Reason why the tools' schemas cannot be used.
    pub bad_schema: Option<String>,
    /// System prompt and first messages, as one text.
    pub said: String,
    /// Roles of the first messages.
    pub roles: Vec<&'static str>,
    /// `CURRENT_DATE` of the task.
    pub stated_date: Option<String>,
    pub rendered: Part<Rendered>,
    pub refusal: Option<Refusal>,
    pub seconds: f64,
}

/// A first prompt as the policy reads it.
#[derive(Debug, Default, Clone)]
pub struct Rendered {
    pub tokens: usize,
    pub cost: Option<PromptCost>,
    pub rewrites: Vec<Rewrite>,
    /// Another host date gives another prompt.
    pub dated: bool,
    /// A text that the tokenizer does not give back as it was, and what it gives.
    pub lossy: Option<(String, String)>,
    /// Calls that do not read back as they were written, with what came of them.
    pub unread: Vec<(String, String)>,
    /// Calls that the tools' own schemas refuse, and why: of references, or valid as far as they can be.
    pub misfits: Vec<(String, String)>,
}

impl<T: Clone> Clone for Part<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Left => Self::Left,
            Self::Broken(why) => Self::Broken(why.clone()),
            Self::Known(value) => Self::Known(value.clone()),
        }
    }
}

/// Reason why the chat template cannot be trained with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    ToolsLost,
    NotAppendOnly,
    ObservationLost,
    Other,
}

/// Episodes without a model: references, nothing at all, and the same again.
#[derive(Debug, Default)]
pub struct Scripts {
    /// Name of the component whose value of 1 is success.
    pub success: String,
    /// Replays of the tasks' references.
    pub references: Vec<Transcript>,
    /// Episodes that do nothing, and the same again.
    pub idle: Vec<Transcript>,
    pub idle_again: Vec<Transcript>,
    /// The same actions with the same seed: the first time, and again.
    pub again: Vec<(Transcript, Transcript)>,
    /// The same actions with the same seed: alone, and beside other episodes.
    pub beside: Vec<(Transcript, Transcript)>,
    /// Tasks that doing nothing solved only after another episode had solved them.
    pub kept_state: Vec<String>,
    /// Tasks whose reference earned success before the start policy played, and not after it.
    pub spoiled: Vec<String>,
    pub after_done: Option<AfterDone>,
    pub closed: Closed,
    /// Reason why no further episode opens, in the environment's words: it was lost on the way.
    pub gone: Option<String>,
}

/// Closed episodes: resources that the environment holds after them, and its answers for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closed {
    /// Resources after a number of episodes that were opened and closed, one after the other.
    pub held: Vec<(usize, Vec<Held>)>,
    /// Closed episodes that were stepped once more.
    pub asked: usize,
    /// Those of them that were answered, while one that was never opened was not.
    pub answered: usize,
}

/// An environment that is stepped after it said `done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterDone {
    /// It refuses, or says `done` again.
    Holds,
    /// The episode continues as if nothing had happened.
    GoesOn,
    /// No new episode opens afterwards, in the environment's words.
    Breaks(String),
}

/// Episodes of the start policy.
#[derive(Debug, Default)]
pub struct Played {
    /// One group a task, episodes as they would be in training; those that broke included.
    pub groups: Vec<Vec<Trace>>,
    /// Replies without a call, read again in every format.
    pub replies: Vec<Reply>,
    /// Replies of all kinds.
    pub turns: usize,
    pub seconds: f64,
    /// Entropy per sampled token.
    pub entropy: Option<f64>,
}

impl Played {
    /// Every episode with its number.
    pub fn episodes(&self) -> impl Iterator<Item = (u64, &Trace)> {
        (0u64..).zip(self.groups.iter().flatten())
    }
}

/// A reply that made no call.
#[derive(Debug, Clone)]
pub struct Reply {
    pub trace: u64,
    pub text: String,
    pub failure: Option<ParseFailure>,
    /// Formats in which it is a valid call of an offered tool.
    pub formats: Vec<Format>,
}

/// The learner's logprobs beside the sampler's on the same tokens.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    pub tokens: usize,
    pub mean: f64,
    pub max: f64,
    pub correlation: Option<f64>,
    /// The first token on which they part by more than a rounding error: episode, position, sampler's and learner's.
    pub parts_at: Option<(u64, usize, f32, f32)>,
    pub update: Part<Update>,
}

/// A small optimizer step on the policy, which was then taken back.
#[derive(Debug, Clone, Default)]
pub struct Update {
    /// Mean change of the learner's logprobs on the same tokens.
    pub moved: f64,
    /// Mean difference between sampler and learner on tokens sampled after the step.
    pub after: f64,
    /// Digests of the weights: the learner's after the step, and those that the sampler says it used.
    pub trained: String,
    pub served: String,
    /// Mean change of the learner's logprobs once the step was taken back.
    pub restored: f64,
}

/// Depth of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Files, and one episode of every environment opened: a second or two.
    Opened,
    /// Scripts and the start policy played.
    Played,
}
