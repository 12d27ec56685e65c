//! Soft overlong punishment (DAPO): nothing up to `max - cache` tokens, then linearly down to -1 at `max`, -1 beyond.

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "soft_overlong",
    about: "Soft overlong punishment: 0 up to `max - cache` tokens, linearly down to -1 at `max`, -1 beyond",
    advice: "Set `max` to the sampling limit, where episodes are truncated",
    paper: Some("Yu et al. 2025, DAPO, arXiv:2503.14476"),
    options: Options::with::<Form>(r#"{"max": 2048, "cache": 512}"#),
    make: plain::<SoftOverlong>,
};

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Form")]
pub struct SoftOverlong {
    max: usize,
    cache: usize,
}

documented! {
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        /// Tokens at which the value is -1.
        max: usize where whole(1, 100_000_000),
        /// Tokens before `max` over which it falls.
        cache: usize where whole(1, 100_000_000),
    }
}

impl TryFrom<Form> for SoftOverlong {
    type Error = String;

    fn try_from(Form { max, cache }: Form) -> Result<Self, String> {
        Self::new(max, cache).ok_or_else(|| format!("`cache` must be between 1 and `max` ({max}), found {cache}"))
    }
}

impl Measure for SoftOverlong {
    fn measure(&self, case: &Case) -> Verdict {
        match case.length() {
            Some(length) => scored(self.value(length), format!("length: {length} tokens of {}", self.max)),
            None => not_applicable("the case has no `tokens`"),
        }
    }
}

impl SoftOverlong {
    /// `max`: the length from which the full penalty applies. `cache`: the soft interval below it, which must be
    /// between 1 and `max`.
    pub fn new(max: usize, cache: usize) -> Option<Self> {
        (1..=max).contains(&cache).then_some(Self { max, cache })
    }

    pub fn value(&self, length: usize) -> f64 {
        let start = self.max - self.cache;
        if length <= start {
            0.0
        } else if length <= self.max {
            -((length - start) as f64) / self.cache as f64
        } else {
            -1.0
        }
    }
}
