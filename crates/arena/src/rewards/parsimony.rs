//! Parsimony: the resolution is about as long as the reference.
//!
//! With L the reference's words: rising to 1 at aL, 1 up to L, falling to 0 at bL (a 0.4, b 2). Only the resolution is
//! measured, never the surrounding text, and the reference itself earns 1: a parsimony reward that pays for more words
//! than the reference has teaches padding. Use it as a factor of quality (a product in the rubric), since a short wrong
//! answer is parsimonious too.
//!
//! Laws: quasi-concave in the length (no interior dip), 1 at the reference's length, blind to text outside.

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::submission::{Source, on_text};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "parsimony",
    about: "Length relative to the reference: 1 if it is about as long, falling to 0 if it is much longer or shorter",
    advice: "As a factor of a quality component in a product; a short wrong answer is parsimonious too",
    paper: None,
    options: Options::of::<Parsimony>(),
    make: plain::<Parsimony>,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Parsimony {
        /// Length, as a share of the reference's, from which the value is 1.
        pub enough: f64 where real(0.0, 1.0),
        /// Length, as a multiple of the reference's, from which the value is 0.
        pub too_much: f64 where over(1.0, 1e6),
        /// The text to measure: the whole completion, or the `resolution` of the submission.
        pub on: Source,
    }
}

impl Default for Parsimony {
    fn default() -> Self {
        Self { enough: 0.4, too_much: 2.0, on: Source::Resolution }
    }
}

impl Measure for Parsimony {
    fn measure(&self, case: &Case) -> Verdict {
        let references = case.reference.as_ref().map_or(&[][..], |texts| &texts.0);
        let lengths: Vec<usize> = references.iter().chain(&case.question).map(|text| words(text)).collect();
        // The reference if there is one, otherwise the question's length as a substitute.
        let candidates = if references.is_empty() { &lengths[..] } else { &lengths[..references.len()] };
        if candidates.is_empty() {
            return not_applicable("neither a reference nor a question to measure the length against");
        }
        on_text(case, self.on, |text| {
            let length = words(text);
            let best = candidates.iter().map(|&reference| (self.value(length, reference), reference));
            let Some((value, reference)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return not_applicable("no reference");
            };
            scored(value, format!("length: {length} words, the reference has {reference}"))
        })
    }
}

impl Parsimony {
    /// The value of a text of `length` words against a reference of `reference` words.
    pub fn value(&self, length: usize, reference: usize) -> f64 {
        let (length, reference) = (length as f64, reference as f64);
        let (enough, too_much) = (self.enough * reference, self.too_much * reference);
        if length < enough {
            length / enough
        } else if length <= reference {
            1.0
        } else if length < too_much {
            (too_much - length) / (too_much - reference)
        } else {
            0.0
        }
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}
