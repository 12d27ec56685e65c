//! Words of a record, typed: those this version knows, and those of newer versions as they were written.
//!
//! The kinds are those of the types that write the record: a variant that `train` or `trace` adds does not compile here
//! until it has a name.

use std::fmt;
use std::marker::PhantomData;

use hone_trace::{self as trace, Outcome};
use hone_train::evaluate::Kind;
use hone_train::events::{ControlPart, Event};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A word of a record: one that this version knows, or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lenient<W> {
    Known(W),
    /// As it was written.
    Unknown(String),
}

/// Words with which records name a kind.
pub trait Word: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    /// The word as records have it.
    fn name(self) -> &'static str;
}

impl<W: Word> Lenient<W> {
    pub(super) fn of(text: &str) -> Self {
        let known = W::ALL.iter().find(|word| word.name() == text);
        known.map_or_else(|| Self::Unknown(text.to_owned()), |word| Self::Known(*word))
    }

    /// The word of a field. `None` if there is no text.
    pub(super) fn read(field: Option<&Value>) -> Option<Self> {
        field?.as_str().map(Self::of)
    }

    /// A missing word.
    pub(super) fn missing() -> Self {
        Self::Unknown("unknown".to_owned())
    }

    pub fn known(&self) -> Option<W> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Unknown(_) => None,
        }
    }

    pub fn is(&self, word: W) -> bool {
        self.known() == Some(word)
    }

    /// The word as it was written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.name(),
            Self::Unknown(text) => text,
        }
    }
}

impl<W: Word> From<&str> for Lenient<W> {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl<W: Word> fmt::Display for Lenient<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<W: Word> Serialize for Lenient<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, W: Word> Deserialize<'de> for Lenient<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<W>(PhantomData<W>);
        impl<W: Word> Visitor<'_> for Text<W> {
            type Value = Lenient<W>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E>(self, text: &str) -> Result<Lenient<W>, E> {
                Ok(Lenient::of(text))
            }
        }
        deserializer.deserialize_str(Text(PhantomData))
    }
}

/// Kinds of a record's type: one word per variant.
macro_rules! kinds {
    ($(#[doc = $doc:literal])+ $vis:vis $kind:ident of $record:ty { $($word:ident = $name:literal: $variant:pat,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $kind {
            $($word,)+
        }

        impl Word for $kind {
            const ALL: &'static [Self] = &[$(Self::$word),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $name,)+
                }
            }
        }

        impl From<&$record> for $kind {
            fn from(record: &$record) -> Self {
                match record {
                    $($variant => Self::$word,)+
                }
            }
        }
    };
}

kinds! {
    /// Kind of an event.
    pub(super) EventKind of Event {
        Overlap = "overlap": Event::Overlap { .. },
        Baseline = "baseline": Event::Baseline { .. },
        Eval = "eval": Event::Eval { .. },
        Control = "control": Event::Control(_),
        Step = "step": Event::Step { .. },
        OptimizerStep = "optimizer_step": Event::OptimizerStep(_),
        Faults = "faults": Event::Faults { .. },
        Checkpoint = "checkpoint": Event::Checkpoint { .. },
        Guard = "guard": Event::Guard(_),
        Extended = "extended": Event::Extended { .. },
        Notice = "notice": Event::Notice { .. },
        Resumed = "resumed": Event::Resumed { .. },
    }
}

kinds! {
    /// Kind of an outcome.
    pub Ending of Outcome {
        Finished = "finished": Outcome::Finished,
        Truncated = "truncated": Outcome::Truncated { .. },
        Malformed = "malformed": Outcome::Malformed { .. },
        Fault = "fault": Outcome::Fault { .. },
    }
}

kinds! {
    /// Origin of a node's tokens.
    pub Origin of trace::Origin {
        Prompt = "prompt": trace::Origin::Prompt { .. },
        Observation = "observation": trace::Origin::Observation,
        Sampled = "sampled": trace::Origin::Sampled(_),
        Forced = "forced": trace::Origin::Forced,
    }
}

kinds! {
    /// Speaker of a message.
    pub Role of trace::Message {
        System = "system": trace::Message::System { .. },
        User = "user": trace::Message::User { .. },
        Assistant = "assistant": trace::Message::Assistant { .. },
        Tool = "tool": trace::Message::Tool { .. },
    }
}

impl Word for Kind {
    const ALL: &'static [Self] = &[Self::Greedy, Self::Sampled];

    fn name(self) -> &'static str {
        self.name()
    }
}

impl Word for ControlPart {
    const ALL: &'static [Self] =
        &[Self::Again, Self::Probe, Self::Sharpened, Self::OrderReversed, Self::NamesExchanged];

    fn name(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::Probe => "probe",
            Self::Sharpened => "sharpened",
            Self::OrderReversed => "order_reversed",
            Self::NamesExchanged => "names_exchanged",
        }
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::{
        Boundary, Digest, Fault, Limit, Message, Node, ParseFailure, ParseFailureKind, PolicyVersion, Sampled,
    };
    use serde_json::json;

    use super::*;

    /// Reading what a type wrote gives its kind.
    fn written<T: Serialize, W: Word + fmt::Debug>(key: &str, record: &T, kind: W) {
        assert_eq!(Lenient::read(json!(record).get(key)), Some(Lenient::Known(kind)));
    }

    #[test]
    fn kinds_are_read_as_their_types_write_them() {
        let failure =
            ParseFailure { kind: ParseFailureKind::Truncated, message: String::new(), at: 0, hint: String::new() };
        let outcomes = [
            Outcome::Finished,
            Outcome::Truncated { limit: Limit::Turns },
            Outcome::Malformed { failure },
            Outcome::Fault { fault: Fault::new(Boundary::Judge, "gone") },
        ];
        outcomes.iter().for_each(|outcome| written("kind", outcome, Ending::from(outcome)));
        let version = PolicyVersion { run: "run".into(), step: 1, weights: Digest::of(b"w") };
        let nodes = [
            Node::prompt(vec![1], Digest::of(b"tools")),
            Node::observation(vec![1]),
            Node::sampled(vec![1], Sampled::by(version, vec![-0.5])).unwrap(),
            Node::forced(vec![1]),
        ];
        nodes.iter().for_each(|node| written("origin", node, Origin::from(node.origin())));
        let messages = [Message::system("a"), Message::user("b"), Message::assistant("c"), Message::tool("d", "e")];
        messages.iter().for_each(|message| written("role", message, Role::from(message)));
        let kinds = [Kind::Greedy, Kind::Sampled];
        kinds.iter().for_each(|kind| written("kind", &json!({ "kind": kind }), *kind));
        ControlPart::ALL.iter().for_each(|part| written("kind", &json!({ "kind": part }), *part));
    }

    #[test]
    fn events_are_read_as_they_are_written() {
        let lines = [
            json!({"event": "overlap", "result": {"held_out": 8, "prompts": 0.0, "calls": 0.0, "tasks": 0.0}}),
            json!({"event": "baseline", "played": {"name": "nothing", "values": {}, "faults": 0}}),
            json!({"event": "eval", "step": 1, "traces": [0, 1]}),
            json!({"event": "control", "step": 1, "kind": "again"}),
            json!({"event": "step", "step": 1, "traces": [0, 1]}),
            json!({"event": "optimizer_step", "step": 1, "batch": 0, "sequences": 4, "policy_step": 7}),
            json!({"event": "faults", "step": 1, "episodes": 0, "faults": {}, "unscored": {},
                "skipped_optimizer_steps": []}),
            json!({"event": "checkpoint", "step": 1}),
            json!({"event": "guard", "step": 1, "before": 0.5, "after": 0.1, "steps": 2, "why": "", "advice": "",
                "rate_factor": 1.0}),
            json!({"event": "extended", "step": 1, "changed": {}}),
            json!({"event": "notice", "step": 1, "check": "x", "severity": "note", "says": "y"}),
            json!({"event": "resumed", "superseded": {"metrics_bytes": 0, "events_bytes": 0, "traces": 0}}),
        ];
        assert_eq!(lines.len(), EventKind::ALL.len());
        for line in lines {
            let event = Event::read(&line).unwrap_or_else(|| panic!("no event: {line}"));
            written("event", &event, EventKind::from(&event));
        }
    }

    #[test]
    fn a_word_of_a_newer_version_is_kept() {
        let word: Lenient<Ending> = serde_json::from_value(json!("of_tomorrow")).unwrap();
        assert_eq!((word.known(), word.as_str()), (None, "of_tomorrow"));
        assert_eq!(json!(word), json!("of_tomorrow"));
    }
}
