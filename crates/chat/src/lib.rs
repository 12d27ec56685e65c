//! Messages to token ids to actions: tokenizers, chat templates, incremental rendering, the tool-call parser.

pub mod budget;
mod call_format;
mod examples;
pub mod files;
mod gate;
mod messages;
mod model_dir;
mod new_tokenizer;
pub mod parse;
pub mod render;
pub mod template;
mod tokenizer;
pub mod tools;
mod vars;

pub use call_format::call_format;
pub use examples::{Examples, ExamplesError, examples};
pub use gate::{StopHit, StopStrings};
pub use messages::to_template;
pub use model_dir::{ModelDir, ModelDirError};
pub use new_tokenizer::{CHATML, TokenizerFiles, TrainTokenizerError, train_tokenizer};
pub use render::{Conversation, Prompt, RenderError, RenderSettings, Renderer, SpecialTokens, Suffix};
pub use tokenizer::{StreamDecoder, Token, Tokenizer, TokenizerError};
