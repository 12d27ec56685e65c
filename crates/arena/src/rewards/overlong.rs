//! Soft overlong punishment (DAPO): nothing up to `max - cache` tokens, then linearly down to -1 at `max`, -1 beyond.

use hone_trace::Verdict;
use serde::Deserialize;

use super::{Case, Measure, not_applicable, scored};

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Form")]
pub struct SoftOverlong {
    max: usize,
    cache: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    max: usize,
    cache: usize,
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
    /// `max`: the tokens from which on the whole punishment applies. `cache`: the soft interval below it, which must be
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
