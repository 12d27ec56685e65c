//! Outcomes of an episode, and the boundary of a fault.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Outcome of an episode. Only the first three are the policy's doing and can be scored; a fault leaves its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The environment said it is done.
    Finished,
    /// A limit of the episode was reached.
    Truncated { limit: Limit },
    /// The reply could not be read, and the recipe ends the episode there.
    Malformed { failure: ParseFailure },
    /// Something outside the policy broke. Not a zero: the trace is excluded with this as its reason.
    Fault { fault: Fault },
}

impl Outcome {
    /// True when the episode says something about the policy.
    pub fn is_scorable(&self) -> bool {
        !matches!(self, Self::Fault { .. })
    }
}

/// The limit that cut an episode short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Agent turns.
    Turns,
    /// Tokens of the context window.
    Context,
    /// New tokens of one reply.
    ReplyTokens,
    /// Wall time of the episode.
    WallTime,
    /// Size of tool output over the whole episode.
    ToolOutput,
    /// The same calls break a fresh environment again: the policy's doing, so it is scored.
    CrashingCall,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "turns",
            Self::Context => "context",
            Self::ReplyTokens => "reply tokens",
            Self::WallTime => "wall time",
            Self::ToolOutput => "tool output",
            Self::CrashingCall => "crashing call",
        })
    }
}

/// Fault: a failure, and the boundary at which it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{boundary}: {what}")]
pub struct Fault {
    pub boundary: Boundary,
    /// Request and response, in one line for people.
    pub what: String,
    /// True when the same request may succeed if repeated (a timeout, a refused connection).
    #[serde(default)]
    pub transient: bool,
    /// True when an answer was not in the protocol. No action of the policy makes a correct program answer like that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protocol: bool,
    /// Kind of the fault; absent in older recordings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: FaultKind,
}

impl Fault {
    pub fn new(boundary: Boundary, what: impl Into<String>) -> Self {
        Self { boundary, what: what.into(), transient: false, protocol: false, kind: FaultKind::Other }
    }

    pub fn transient(boundary: Boundary, what: impl Into<String>) -> Self {
        Self { transient: true, ..Self::new(boundary, what) }
    }

    /// An answer that is not in the protocol.
    pub fn protocol(boundary: Boundary, what: impl Into<String>) -> Self {
        Self { protocol: true, ..Self::new(boundary, what) }
    }

    #[must_use]
    pub fn of_kind(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }
}

/// Kind of fault, as far as it decides what to do about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    #[default]
    Other,
    /// A program did not answer in time.
    ProgramLate,
    /// A program could not be started.
    NotStarted,
    /// A program ended before it answered.
    Ended,
    /// A program printed something other than answers to stdout.
    Garbled,
    /// A server did not answer in time.
    ServerLate,
    /// No server listens at the address.
    Unreachable,
    /// The address names no host.
    UnknownHost,
}

impl FaultKind {
    /// True when an answer did not come in time.
    pub fn is_late(self) -> bool {
        matches!(self, Self::ProgramLate | Self::ServerLate)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Boundary that broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    Policy,
    Sampler,
    Environment,
    UserSimulator,
    Verifier,
    Judge,
    /// Our own code.
    Hone,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "policy",
            Self::Sampler => "sampler",
            Self::Environment => "environment",
            Self::UserSimulator => "user simulator",
            Self::Verifier => "verifier",
            Self::Judge => "judge",
            Self::Hone => "hone",
        })
    }
}

/// Reason why a reply is neither a valid call nor a plain reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct ParseFailure {
    pub kind: ParseFailureKind,
    pub message: String,
    /// Byte offset in the reply.
    pub at: usize,
    /// The text to write instead.
    pub hint: String,
}

/// The kinds in order of precedence: where several apply, the first one names the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParseFailureKind {
    /// The text stops inside a call, or inside reasoning that was never closed.
    Truncated,
    MalformedJson,
    MalformedMarkup,
    MissingName,
    ArgumentsNotObject,
    UnknownTool,
    MissingRequired,
    UnexpectedArgument,
    /// Enum and range violations included.
    WrongType,
}

impl ParseFailureKind {
    pub const ALL: [Self; 9] = [
        Self::Truncated,
        Self::MalformedJson,
        Self::MalformedMarkup,
        Self::MissingName,
        Self::ArgumentsNotObject,
        Self::UnknownTool,
        Self::MissingRequired,
        Self::UnexpectedArgument,
        Self::WrongType,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::MalformedJson => "malformed_json",
            Self::MalformedMarkup => "malformed_markup",
            Self::MissingName => "missing_name",
            Self::ArgumentsNotObject => "arguments_not_object",
            Self::UnknownTool => "unknown_tool",
            Self::MissingRequired => "missing_required",
            Self::UnexpectedArgument => "unexpected_argument",
            Self::WrongType => "wrong_type",
        }
    }
}

impl fmt::Display for ParseFailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
