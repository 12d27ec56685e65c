//! Decoding step as a device sees it: rows of many sequences, their pages, and the draws that follow.

use std::ops::Range;

use hone_trace::{Rng, SamplingParams};

/// Page size of the KV cache, in tokens.
pub const PAGE: usize = 32;

/// Index of a page.
pub type PageId = usize;

/// Rows of one step, run after run.
///
/// Created only by the scheduler, which guarantees that no page written by one run is in the path of another: devices
/// write them in parallel.
#[derive(Debug, Default)]
pub struct Step {
    tokens: Vec<u32>,
    runs: Vec<Run>,
    paths: Vec<PageId>,
}

/// New rows of one sequence.
#[derive(Debug, Clone)]
pub struct Run {
    /// First row, and its position in the sequence.
    pub row: usize,
    pub start: usize,
    pub len: usize,
    /// The sequence's pages, in [`Step::paths`]: those from `start / PAGE` on are written.
    pub path: Range<usize>,
    /// True if a token is drawn after the last row.
    pub samples: bool,
}

impl Step {
    /// Token of each row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Pages of all sequences, one after the other.
    pub fn paths(&self) -> &[PageId] {
        &self.paths
    }

    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.runs.clear();
        self.paths.clear();
    }

    /// Adds the tokens at positions `start..` of a sequence whose pages are `path`.
    pub(super) fn push(&mut self, tokens: &[u32], start: usize, path: &[PageId], samples: bool) {
        let (row, first) = (self.tokens.len(), self.paths.len());
        self.tokens.extend_from_slice(tokens);
        self.paths.extend_from_slice(path);
        self.runs.push(Run { row, start, len: tokens.len(), path: first..self.paths.len(), samples });
    }

    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Length of the longest sequence after the step.
    pub fn longest(&self) -> usize {
        self.runs.iter().map(|run| run.start + run.len).max().unwrap_or(0)
    }
}

/// Draw of one token: a device asks how to choose it, and reports its choice. Draws of one step are independent and may
/// be made on several threads.
pub trait Draw: Send {
    /// Parameters, mask and random stream of the draw from a vocabulary of this size.
    fn request(&mut self, vocab: usize) -> DrawRequest<'_>;

    fn take(&mut self, drawn: Result<Choice, Refusal>);
}

/// Parameters of a draw.
#[derive(Debug)]
pub struct DrawRequest<'a> {
    pub params: &'a SamplingParams,
    /// One flag per token if a mask is on.
    pub allowed: Option<&'a [bool]>,
    /// Random stream of the request, of which a draw takes one number (none at temperature 0).
    pub rng: &'a mut Rng,
}

/// A chosen token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub token: u32,
    /// Logprob under softmax(logits / temperature).
    pub logprob: f32,
    /// Logprob after mask and truncation. 0 if only one token was left, and at temperature 0.
    pub sampling_logprob: f32,
}

/// Reason why no token could be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The logits hold a non-finite number.
    NotFinite,
    /// The mask forbids every token.
    NothingAllowed,
}
