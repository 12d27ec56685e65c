//! Text to token ids and back: a thin wrapper around the `tokenizers` crate, whose ids are identical to Python's.
//!
//! Nothing is added, truncated or padded here: special tokens are what the text spells out.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokenizers::AddedToken;

use crate::files::{FileError, read_text};

/// A model's tokenizer. Cheap to clone.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    /// Added tokens by id; the value says whether the token is marked special.
    added: Arc<HashMap<u32, bool>>,
    /// Their texts, the longest first.
    added_texts: Arc<Vec<String>>,
    /// The same tokenizer without its added tokens, built on first use.
    plain: Arc<OnceLock<Result<tokenizers::Tokenizer, String>>>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

/// Reason why a tokenizer could not be read or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "this is not a tokenizer.json of the `tokenizers` library: {0}. Save it again with transformers' save_pretrained"
    )]
    Malformed(String),
    #[error(
        "tokenizer_config.json gives {token:?} the id {config}, tokenizer.json the id {tokenizer}; \
         the two files are of different models. Copy both from one model"
    )]
    IdConflict { token: String, config: u32, tokenizer: u32 },
    #[error("the text cannot be encoded: {0}")]
    Encode(String),
    #[error("ids cannot be decoded: {0}")]
    Decode(String),
}

/// One token of an encoding, with its byte range in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    pub span: Range<usize>,
}

impl Tokenizer {
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        Self::from_json(&read_text(path)?)
    }

    /// Reads the text of a tokenizer.json.
    pub fn from_json(json: &str) -> Result<Self, TokenizerError> {
        Self::with_added_tokens(json, Vec::new())
    }

    /// Reads a tokenizer.json and adds the tokens that only tokenizer_config.json knows, as `(id, token)`.
    pub(crate) fn with_added_tokens(json: &str, mut added: Vec<(u32, AddedToken)>) -> Result<Self, TokenizerError> {
        let mut inner: tokenizers::Tokenizer =
            json.parse().map_err(|error: tokenizers::Error| TokenizerError::Malformed(error.to_string()))?;
        // A file saved by a training script may carry both; a silently truncated prompt is exactly the fault to
        // prevent.
        inner.with_truncation(None).map_err(|error| TokenizerError::Malformed(error.to_string()))?;
        inner.with_padding(None);
        added.sort_by_key(|(id, _)| *id);
        for (id, token) in added {
            let known = inner.get_added_tokens_decoder();
            if known.get(&id).is_some_and(|known| known.content == token.content) {
                continue;
            }
            let content = token.content.clone();
            let result = if token.special { inner.add_special_tokens([token]) } else { inner.add_tokens([token]) };
            result.map_err(|error| TokenizerError::Malformed(error.to_string()))?;
            match inner.token_to_id(&content) {
                Some(found) if found != id => {
                    return Err(TokenizerError::IdConflict { token: content, config: id, tokenizer: found });
                }
                _ => {}
            }
        }
        let added = inner.get_added_tokens_decoder().iter().map(|(id, token)| (*id, token.special)).collect();
        let mut texts: Vec<String> =
            inner.get_added_tokens_decoder().into_values().map(|token| token.content.clone()).collect();
        texts.retain(|text| !text.trim().is_empty());
        texts.sort_by(|one, other| (other.len(), one).cmp(&(one.len(), other)));
        Ok(Self {
            inner: Arc::new(inner),
            added: Arc::new(added),
            added_texts: Arc::new(texts),
            plain: Arc::new(OnceLock::new()),
        })
    }

    /// The ids of the text. Tokens spelled out in it (`<|im_end|>`) become their id; nothing else is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of the text as text: an added token spelt out in it is encoded letter by letter like anything else.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let plain = self.plain.get_or_init(|| without_added_tokens(&self.inner).map_err(|error| error.to_string()));
        let plain = plain.as_ref().map_err(|error| TokenizerError::Encode(error.clone()))?;
        let encoding = plain.encode_fast(text, false).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The texts of the added tokens, the longest first.
    pub(crate) fn added_texts(&self) -> &[String] {
        &self.added_texts
    }

    /// The ids of the text with their byte ranges.
    pub(crate) fn encode_spans(&self, text: &str) -> Result<Vec<Token>, TokenizerError> {
        let encoding = self.inner.encode(text, false).map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let spans = encoding.get_offsets().iter();
        Ok(encoding.get_ids().iter().zip(spans).map(|(&id, &(from, to))| Token { id, span: from..to }).collect())
    }

    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> Result<usize, TokenizerError> {
        Ok(self.encode(text)?.len())
    }

    /// The text of the ids, special tokens included. Ids that end inside a character give U+FFFD there.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, false).map_err(|error| TokenizerError::Decode(error.to_string()))
    }

    /// Decodes a growing sequence token by token.
    pub fn stream(&self) -> StreamDecoder {
        StreamDecoder { tokenizer: self.clone(), ids: Vec::new(), prefix: 0, read: 0 }
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The number of ids, added tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// True for an added token: one that text is split at before anything is merged.
    pub fn is_added(&self, id: u32) -> bool {
        self.added.contains_key(&id)
    }

    /// The ids marked special, in order.
    pub fn special_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.added.iter().filter(|(_, special)| **special).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

/// The library cannot remove added tokens; it can read a file without them.
fn without_added_tokens(tokenizer: &tokenizers::Tokenizer) -> Result<tokenizers::Tokenizer, tokenizers::Error> {
    let mut file: serde_json::Value = serde_json::from_str(&tokenizer.to_string(false)?)?;
    file["added_tokens"] = serde_json::Value::Array(Vec::new());
    file.to_string().parse()
}

/// Decodes ids one at a time, holding back bytes until they make whole characters.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    ids: Vec<u32>,
    /// `ids[prefix..read]` is text already emitted, kept because decoders look at the token before (a leading space).
    prefix: usize,
    read: usize,
}

/// Maximum ids held back while waiting for a character to complete. UTF-8 needs four bytes; more is a model that emits
/// broken bytes, which are then emitted as U+FFFD instead of being held forever.
const MAX_HELD: usize = 8;

impl StreamDecoder {
    /// The text this id completes; empty while a character is incomplete.
    pub fn push(&mut self, id: u32) -> String {
        self.ids.push(id);
        let known = self.tokenizer.decode(&self.ids[self.prefix..self.read]).unwrap_or_default();
        let text = self.tokenizer.decode(&self.ids[self.prefix..]).unwrap_or_default();
        let incomplete = text.ends_with('\u{fffd}') && self.ids.len() - self.read < MAX_HELD;
        if incomplete || text.len() < known.len() {
            return String::new();
        }
        self.prefix = self.read;
        self.read = self.ids.len();
        text.get(known.len()..).unwrap_or_default().to_owned()
    }

    /// The text held back, with U+FFFD for the incomplete character.
    pub fn finish(&mut self) -> String {
        let known = self.tokenizer.decode(&self.ids[self.prefix..self.read]).unwrap_or_default();
        let text = self.tokenizer.decode(&self.ids[self.prefix..]).unwrap_or_default();
        self.prefix = self.ids.len();
        self.read = self.ids.len();
        text.get(known.len()..).unwrap_or_default().to_owned()
    }
}
