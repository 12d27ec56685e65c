//! Sets of episodes that a report compares.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Set of episodes: an evaluation on held-out tasks, or a window of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EpisodeSet {
    HeldOut { step: u64 },
    Training(Window),
}

/// Early training, or late training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    First,
    Last,
}

impl EpisodeSet {
    /// True for two evaluations, and for two windows of training: these are comparable.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl fmt::Display for EpisodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldOut { step } => write!(f, "held-out at step {step}"),
            Self::Training(Window::First) => f.write_str("training, first window"),
            Self::Training(Window::Last) => f.write_str("training, last window"),
        }
    }
}

impl FromStr for EpisodeSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let windows = [Self::Training(Window::First), Self::Training(Window::Last)];
        let step = text.strip_prefix("held-out at step ").and_then(|step| step.parse().ok());
        step.map(|step| Self::HeldOut { step })
            .or_else(|| windows.into_iter().find(|window| window.to_string() == text))
            .ok_or_else(|| format!("{text:?} is not a set of episodes of a report"))
    }
}

impl TryFrom<String> for EpisodeSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EpisodeSet> for String {
    fn from(set: EpisodeSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_back_as_it_was_written() {
        for set in
            [EpisodeSet::HeldOut { step: 40 }, EpisodeSet::Training(Window::First), EpisodeSet::Training(Window::Last)]
        {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert!("held-out at step x".parse::<EpisodeSet>().is_err());
        assert!(EpisodeSet::HeldOut { step: 9 } < EpisodeSet::HeldOut { step: 10 }, "by step, not by letters");
    }
}
