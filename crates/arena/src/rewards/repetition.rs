//! Repetition, in two forms: of n-grams in the sampled text, and of ids among the citations.
//!
//! N-grams: -(1 - distinct / all), in [-1, 0], 0 below n tokens. Over token ids if the case has them, else over words.
//! Citations: distinct / all, in [0, 1].

use std::collections::HashSet;
use std::hash::Hash;

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::submission::on_submission;
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "repetition",
    about: "Minus the share of repeated n-grams in the sampled text, from -1 to 0",
    advice: "For policies that start to loop; 0 for texts that do not",
    paper: Some("Yeo et al. 2025, Demystifying Long Chain-of-Thought Reasoning, arXiv:2502.03373"),
    options: Options::of::<Repetition>(),
    make: plain::<Repetition>,
};

pub(super) const CITATION_ENTRY: ComponentEntry = ComponentEntry {
    name: "citation_repetition",
    about: "Share of citations that are not repeats of one another, from 0 to 1",
    advice: "A factor beside grounding, to prevent padding a list with one id",
    paper: None,
    options: Options::NONE,
    make: plain::<CitationRepetition>,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub(crate) struct Repetition {
        /// The length of the n-grams, in tokens.
        pub n: usize where whole(1, 1_000),
    }
}

impl Default for Repetition {
    fn default() -> Self {
        Self { n: 3 }
    }
}

impl Measure for Repetition {
    fn measure(&self, case: &Case) -> Verdict {
        let (rate, unit) = match (&case.tokens, &case.completion) {
            (Some(tokens), _) => (repetition(tokens, self.n), "tokens"),
            (None, Some(text)) => (repetition(&text.split_whitespace().collect::<Vec<_>>(), self.n), "words"),
            (None, None) => return not_applicable("the case has neither tokens nor a completion"),
        };
        scored(-rate, format!("repeated: {:.1} % of the {}-grams of {unit}", 100.0 * rate, self.n))
    }
}

/// The share of n-grams that repeat an earlier one.
pub fn repetition<T: Hash + Eq>(items: &[T], n: usize) -> f64 {
    if n == 0 || items.len() < n {
        return 0.0;
    }
    let all = items.len() - n + 1;
    let distinct = items.windows(n).collect::<HashSet<_>>().len();
    1.0 - distinct as f64 / all as f64
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CitationRepetition {}

impl Measure for CitationRepetition {
    fn measure(&self, case: &Case) -> Verdict {
        on_submission(case, |submission| citation_repetition(&submission.citations))
    }
}

/// The share of citations that are not repeats; 1 if nothing is cited.
pub fn citation_repetition(citations: &[String]) -> Verdict {
    let distinct = citations.iter().collect::<HashSet<_>>().len();
    let value = if citations.is_empty() { 1.0 } else { distinct as f64 / citations.len() as f64 };
    scored(value, format!("distinct: {distinct} of {} citations", citations.len()))
}
