//! ROUGE-L, number for number as in rouge-score 0.1.2: its tokenizer, NLTK's Porter stemmer, LCS, F with beta 1.
//!
//! The longest common subsequence is computed bit-parallel (64 cells of the table per machine word, after Hyyrö), in
//! memory linear in the shorter text. Non-ASCII letters are separators, as in rouge-score: a text in a script without
//! ASCII letters has no tokens and scores 0.

use std::collections::HashMap;

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::submission::{Source, on_text};
use super::{Case, Measure, not_applicable, porter, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "rouge_l",
    about: "ROUGE-L: F-score of the longest common subsequence of words with the nearest reference, from 0 to 1",
    advice: "For answers with a reference text; it rewards wording, so pair it with a component that tests correctness",
    paper: Some("Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries"),
    options: Options::of::<RougeL>(),
    make: plain::<RougeL>,
};

documented! {
    /// F against the best of the references.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RougeL {
        /// Compare the stems of words (Porter).
        pub stem: bool,
        /// The text to measure: the whole completion, or the `resolution` of the submission.
        pub on: Source,
    }
}

impl Default for RougeL {
    fn default() -> Self {
        Self { stem: true, on: Source::Completion }
    }
}

impl Measure for RougeL {
    fn measure(&self, case: &Case) -> Verdict {
        let references = case.reference.as_ref().map_or(&[][..], |texts| &texts.0);
        if references.is_empty() {
            return not_applicable("the case has no `reference` text");
        }
        on_text(case, self.on, |text| score(references, text, self.stem))
    }
}

/// Precision, recall and their harmonic mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rouge {
    pub precision: f64,
    pub recall: f64,
    pub f: f64,
}

/// ROUGE-L of `prediction` against `reference`; either without tokens gives zeros.
pub fn rouge_l(reference: &str, prediction: &str, stem: bool) -> Rouge {
    let (target, prediction) = (Tokens::of(reference, stem), Tokens::of(prediction, stem));
    if target.len() == 0 || prediction.len() == 0 {
        return Rouge::default();
    }
    let common = lcs(&target, &prediction) as f64;
    let (precision, recall) = (common / prediction.len() as f64, common / target.len() as f64);
    let f = if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
    Rouge { precision, recall, f }
}

/// ROUGE-L F against the best of several references (the first on ties).
pub fn score(references: &[String], prediction: &str, stem: bool) -> Verdict {
    let mut best: Option<(usize, Rouge)> = None;
    for (i, reference) in references.iter().enumerate() {
        let rouge = rouge_l(reference, prediction, stem);
        if best.is_none_or(|(_, other)| rouge.f > other.f) {
            best = Some((i, rouge));
        }
    }
    match best {
        None => not_applicable("no reference text to compare with"),
        Some((i, rouge)) => scored(
            rouge.f,
            format!("rouge_l: precision {:.3}, recall {:.3} against reference {i}", rouge.precision, rouge.recall),
        ),
    }
}

/// The tokens of a text as rouge-score sees them.
pub fn tokens(text: &str, stem: bool) -> Vec<String> {
    let tokens = Tokens::of(text, stem);
    tokens.iter().map(|token| String::from_utf8_lossy(token).into_owned()).collect()
}

/// Tokens in one buffer: `ends[i]` is where token i ends.
struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Tokens {
    /// Lower-cases, splits at everything outside [a-z0-9], stems tokens of more than three letters.
    fn of(text: &str, stem: bool) -> Self {
        let mut tokens = Self { bytes: Vec::with_capacity(text.len()), ends: Vec::with_capacity(text.len() / 5) };
        let mut word = Vec::new();
        for c in text.chars() {
            match c {
                'a'..='z' | '0'..='9' => word.push(c as u8),
                'A'..='Z' => word.push(c.to_ascii_lowercase() as u8),
                // The only two characters outside ASCII whose lower case has an ASCII letter. The second lower-cases
                // to i and a combining dot, which separates.
                '\u{212a}' => word.push(b'k'),
                '\u{130}' => {
                    word.push(b'i');
                    tokens.push(&mut word, stem);
                }
                _ => tokens.push(&mut word, stem),
            }
        }
        tokens.push(&mut word, stem);
        tokens
    }

    fn push(&mut self, word: &mut Vec<u8>, stem: bool) {
        if word.is_empty() {
            return;
        }
        if stem && word.len() > 3 {
            porter::stem(word);
        }
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
        word.clear();
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let token = &self.bytes[start..end];
            start = end;
            token
        })
    }
}

/// Length of the longest common subsequence.
fn lcs(a: &Tokens, b: &Tokens) -> usize {
    let (pattern, text) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    // Positions of each distinct token in the pattern, as (word, bits) pairs: sparse, so that memory stays linear.
    let mut positions: HashMap<&[u8], Vec<(usize, u64)>> = HashMap::with_capacity(pattern.len());
    for (i, token) in pattern.iter().enumerate() {
        let (word, bit) = (i / 64, 1 << (i % 64));
        let bits = positions.entry(token).or_default();
        match bits.last_mut() {
            Some((last, mask)) if *last == word => *mask |= bit,
            _ => bits.push((word, bit)),
        }
    }
    // A zero bit at i: the LCS of the text so far with the pattern's first i+1 tokens is one longer than with its
    // first i. Only the zeros below the pattern's length count, and those above stay ones.
    let mut row = vec![u64::MAX; pattern.len().div_ceil(64)];
    for token in text.iter() {
        let Some(bits) = positions.get(token) else { continue };
        let mut bits = bits.iter().peekable();
        let mut carry = false;
        // No bit below the token's first occurrence can change.
        let first = bits.peek().map_or(row.len(), |(word, _)| *word);
        for (at, word) in row.iter_mut().enumerate().skip(first) {
            let matches = bits.next_if(|(word, _)| *word == at).map_or(0, |(_, mask)| *mask);
            let hit = *word & matches;
            let (sum, over) = word.overflowing_add(hit);
            let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
            carry = over || over_carry;
            *word = sum | (*word & !matches);
        }
    }
    let zeros: u32 = row.iter().map(|word| word.count_zeros()).sum();
    zeros as usize
}
