//! Repairs: what was done to read a reply, recorded so that a reward can see it.

use serde::{Deserialize, Serialize};

/// Repair made in order to read a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// `{"a": 1,}`
    TrailingComma,
    /// A line break inside a string, not written `\n`.
    RawNewline,
    /// Another control character inside a string.
    RawControl,
    /// Missing closing brackets, closing quotes of a call's markup, or closing tags.
    MissingCloser,
    /// Superfluous closing brackets.
    ExtraCloser,
    /// Missing opening tag.
    MissingOpener,
    /// `{'a': 'b'}`
    SingleQuotes,
    /// Typographic quotes as delimiters.
    SmartQuotes,
    /// `True`, `False`, `None`.
    PythonLiteral,
    /// `// …`, `/* … */` or `# …`.
    Comment,
    /// `{a: 1}`
    UnquotedKey,
    /// A backslash before a character that needs none; it is kept.
    InvalidEscape,
    /// A code fence around the JSON inside a tag.
    CodeFence,
    /// Several calls where the format has one.
    SeveralCalls,
    /// A tag opened again where it should be closed.
    ReopenedTag,
    /// Words or markers in a message header that do not belong there.
    HeaderJunk,
    /// A value written in another type than the schema's, without loss: `"3"` for 3.
    Coercion,
    /// Text after the end of the turn, which is ignored.
    TextAfterEnd,
    /// All arguments as one object in a single parameter.
    WrappedArguments,
}

impl Repair {
    pub const ALL: [Self; 19] = [
        Self::TrailingComma,
        Self::RawNewline,
        Self::RawControl,
        Self::MissingCloser,
        Self::ExtraCloser,
        Self::MissingOpener,
        Self::SingleQuotes,
        Self::SmartQuotes,
        Self::PythonLiteral,
        Self::Comment,
        Self::UnquotedKey,
        Self::InvalidEscape,
        Self::CodeFence,
        Self::SeveralCalls,
        Self::ReopenedTag,
        Self::HeaderJunk,
        Self::Coercion,
        Self::TextAfterEnd,
        Self::WrappedArguments,
    ];
}

/// A set of repairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repairs(u32);

impl Repairs {
    pub(super) fn of(repair: Repair) -> Self {
        Self(1 << repair as u32)
    }

    pub(super) fn add(&mut self, repair: Repair) {
        self.0 |= Self::of(repair).0;
    }

    pub(super) fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn contains(self, repair: Repair) -> bool {
        self.0 & Self::of(repair).0 != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Repair> {
        Repair::ALL.into_iter().filter(move |repair| self.contains(*repair))
    }
}
