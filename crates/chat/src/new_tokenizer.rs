//! Tokenizer training: byte-level BPE on given texts, with the special tokens and the chat template that belong
//! together. Deterministic: the same texts give the same files.

use std::path::Path;

use serde_json::json;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, PreTokenizerWrapper};

/// Hone's own ChatML template.
pub const CHATML: &str = include_str!("chatml.jinja");

/// Tokens of the template. The first three frame turns and are special; the others are ordinary added tokens, which
/// stay visible in decoded text.
const FRAME: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const MARKUP: [&str; 6] = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"];

/// The text files of a new model directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// tokenizer.json
    pub tokenizer: String,
    /// tokenizer_config.json
    pub config: String,
    /// generation_config.json
    pub generation: String,
    /// chat_template.jinja
    pub template: String,
}

/// Reason why no tokenizer could be trained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainTokenizerError {
    #[error(
        "a byte-level vocabulary needs at least {least} entries (256 bytes and the special tokens), found {asked}; raise the vocabulary"
    )]
    TooSmall { asked: usize, least: usize },
    #[error("the tokenizer could not be trained: {0}")]
    Failed(String),
}

/// Trains a tokenizer on texts. `vocab_size` counts everything; `extra` are further tokens to keep whole. The result
/// may be smaller than asked for if the texts yield no more merges.
pub fn train_tokenizer(
    texts: impl IntoIterator<Item = String>,
    vocab_size: usize,
    extra: &[&str],
) -> Result<TokenizerFiles, TrainTokenizerError> {
    let special = FRAME.iter().map(|token| AddedToken::from(*token, true).normalized(false));
    let plain = MARKUP.iter().chain(extra).map(|token| AddedToken::from(*token, false).normalized(false));
    let tokens: Vec<AddedToken> = special.chain(plain).collect();
    let least = 256 + tokens.len();
    if vocab_size < least {
        return Err(TrainTokenizerError::TooSmall { asked: vocab_size, least });
    }
    let failed = |error: tokenizers::Error| TrainTokenizerError::Failed(error.to_string());
    let texts: Vec<String> = texts.into_iter().collect();

    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    // Digits one by one: numbers are read digit by digit whatever their length.
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![
        PreTokenizerWrapper::Digits(Digits::new(true)),
        PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, true)),
    ])));
    tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
    let trainer = BpeTrainer::builder()
        .vocab_size(vocab_size)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(tokens)
        .build();
    tokenizer.train(&mut TrainerWrapper::from(trainer), texts.iter()).map_err(failed)?;
    Ok(TokenizerFiles {
        tokenizer: tokenizer.to_string(true).map_err(failed)?,
        config: pretty(&json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 1_000_000,
            "clean_up_tokenization_spaces": false,
        })),
        generation: pretty(&json!({
            "eos_token_id": [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")],
            "pad_token_id": tokenizer.token_to_id("<|endoftext|>"),
        })),
        template: CHATML.to_owned(),
    })
}

fn pretty(json: &serde_json::Value) -> String {
    format!("{json:#}\n")
}

impl TokenizerFiles {
    /// Writes the four files into a model directory.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        for (name, text) in [
            ("tokenizer.json", &self.tokenizer),
            ("tokenizer_config.json", &self.config),
            ("generation_config.json", &self.generation),
            ("chat_template.jinja", &self.template),
        ] {
            std::fs::write(dir.join(name), text)?;
        }
        Ok(())
    }
}
