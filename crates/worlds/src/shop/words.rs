//! The shop's words, built from syllables: names, products, cities and the code names of tools.
//!
//! There are 19,600 of them, so that a policy learns to copy a word rather than memorise words; and a word belongs
//! either to training tasks or to held-out tasks, never to both. Colours and the verbs of requests and descriptions are
//! common to both: a policy has to know those, and copy the rest.

use std::collections::HashSet;

use hone_trace::Rng;
use serde::{Deserialize, Serialize};

/// The two disjoint sets of words: one for training tasks, one for held-out tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vocabulary {
    Training,
    HeldOut,
}

pub(super) const COLOURS: [&str; 8] = ["red", "blue", "green", "black", "white", "gold", "grey", "pink"];

const CONSONANTS: [&str; 14] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const ENDINGS: [&str; 4] = ["", "n", "r", "s"];

/// One word in this many is held out.
const HELD_OUT_ONE_IN: u32 = 5;

/// Draws words that have not been drawn before.
pub(super) struct Words<'a> {
    vocabulary: Vocabulary,
    rng: &'a mut Rng,
    drawn: HashSet<String>,
}

impl<'a> Words<'a> {
    pub(super) fn new(vocabulary: Vocabulary, rng: &'a mut Rng) -> Self {
        Self { vocabulary, rng, drawn: HashSet::new() }
    }

    /// Two syllables: `velan`, `kitu`.
    pub(super) fn word(&mut self) -> String {
        loop {
            let mut syllable = || [one_of(self.rng, &CONSONANTS), one_of(self.rng, &VOWELS)].concat();
            let word = [syllable(), syllable(), one_of(self.rng, &ENDINGS).to_owned()].concat();
            if vocabulary_of(&word) == self.vocabulary && self.drawn.insert(word.clone()) {
                return word;
            }
        }
    }

    /// Code names, a letter and a digit: `k7`. No two start with the same letter.
    pub(super) fn codes(&mut self, count: usize) -> Vec<String> {
        let mut letters: Vec<char> = ('a'..='z').collect();
        self.rng.shuffle(&mut letters);
        let mut code = |letter: char| loop {
            let code = format!("{letter}{}", self.rng.below(10));
            if vocabulary_of(&code) == self.vocabulary {
                return code;
            }
        };
        letters.into_iter().filter(|letter| has_codes(*letter)).take(count).map(&mut code).collect()
    }

    /// Like [`Words::word`], capitalised.
    pub(super) fn name(&mut self) -> String {
        let word = self.word();
        word[..1].to_ascii_uppercase() + &word[1..]
    }
}

/// The vocabulary a word belongs to, whatever its case. Decided by its letters, so that no list has to be kept.
fn vocabulary_of(word: &str) -> Vocabulary {
    match crc32fast::hash(word.to_ascii_lowercase().as_bytes()) % HELD_OUT_ONE_IN {
        0 => Vocabulary::HeldOut,
        _ => Vocabulary::Training,
    }
}

/// True for a letter with code names in both vocabularies.
fn has_codes(letter: char) -> bool {
    let held_out = (0..10).filter(|digit| vocabulary_of(&format!("{letter}{digit}")) == Vocabulary::HeldOut).count();
    (1..10).contains(&held_out)
}

pub(super) fn one_of<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    rng.pick(items).copied().unwrap_or_default()
}
