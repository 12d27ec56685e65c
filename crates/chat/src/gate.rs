//! Stop strings as a token gate: the engine knows no text, so `chat` watches the text for it.

use std::sync::Arc;

use hone_trace::{Flow, TokenGate};

use crate::tokenizer::{StreamDecoder, Tokenizer};

/// Strings that end a reply, for one tokenizer. Cheap to clone; each request takes its own [`StopStrings::gate`].
#[derive(Debug, Clone)]
pub struct StopStrings {
    tokenizer: Tokenizer,
    strings: Arc<[String]>,
}

/// Place of a stop string in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopHit {
    pub string: String,
    /// Tokens that end at or before the start of the stop string. The token it starts in is not among them, even if its
    /// first bytes belong to the text before.
    pub tokens_before: usize,
    /// Tokens up to and including the one that completes the stop string.
    pub tokens_through: usize,
    /// The text before the stop string.
    pub text_before: String,
}

impl StopStrings {
    /// Empty strings are dropped: they would stop every reply immediately.
    pub fn new(tokenizer: &Tokenizer, strings: impl IntoIterator<Item = String>) -> Self {
        let strings: Vec<String> = strings.into_iter().filter(|string| !string.is_empty()).collect();
        Self { tokenizer: tokenizer.clone(), strings: strings.into() }
    }

    /// A gate for one request.
    pub fn gate(&self) -> Box<dyn TokenGate> {
        Box::new(Gate(Scan::new(self)))
    }

    /// The first stop string of a reply, in token order.
    pub fn find(&self, tokens: &[u32]) -> Option<StopHit> {
        let mut scan = Scan::new(self);
        let (string, start) = tokens.iter().find_map(|&token| scan.push(token)).or_else(|| scan.finish())?;
        Some(StopHit {
            tokens_before: scan.ends.iter().take_while(|&&end| end <= start).count(),
            tokens_through: scan.ends.len(),
            text_before: scan.text[..start].to_owned(),
            string,
        })
    }
}

/// Ends a reply with the token that completes a stop string.
#[derive(Debug)]
struct Gate(Scan);

impl TokenGate for Gate {
    fn push(&mut self, token: u32) -> Flow {
        if self.0.push(token).is_some() { Flow::Stop } else { Flow::Continue }
    }
}

/// A reply decoded so far.
#[derive(Debug)]
struct Scan {
    decoder: StreamDecoder,
    strings: Arc<[String]>,
    longest: usize,
    text: String,
    /// The length of the text after each token.
    ends: Vec<usize>,
}

impl Scan {
    fn new(stops: &StopStrings) -> Self {
        Self {
            decoder: stops.tokenizer.stream(),
            longest: stops.strings.iter().map(String::len).max().unwrap_or(0),
            strings: Arc::clone(&stops.strings),
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// The stop string this token completes, and where it starts.
    fn push(&mut self, token: u32) -> Option<(String, usize)> {
        let piece = self.decoder.push(token);
        let hit = self.append(&piece);
        self.ends.push(self.text.len());
        hit
    }

    fn finish(&mut self) -> Option<(String, usize)> {
        let piece = self.decoder.finish();
        self.append(&piece)
    }

    fn append(&mut self, piece: &str) -> Option<(String, usize)> {
        // A stop string completed now starts at most its own length before the new text.
        let from = self.text.floor_char_boundary(self.text.len().saturating_sub(self.longest));
        self.text.push_str(piece);
        let window = &self.text[from..];
        let first = self.strings.iter().filter_map(|stop| Some((window.find(stop.as_str())?, stop)));
        first.min_by_key(|(at, stop)| (*at, std::cmp::Reverse(stop.len()))).map(|(at, stop)| (stop.clone(), from + at))
    }
}
