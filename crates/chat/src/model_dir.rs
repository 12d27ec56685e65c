//! Model directories in Hugging Face's layout, as they are found in the wild.
//!
//! Read here: the files that turn messages into ids and say when a reply ends. The engine reads weights and
//! architecture.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use tokenizers::AddedToken;

use crate::files::{FileError, read_json_if_there, read_text};
use crate::template::{ChatTemplate, TemplateError};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// The tokens a template may name, in the order transformers lists them.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Text settings of a model directory.
#[derive(Debug, Clone)]
pub struct ModelDir {
    path: PathBuf,
    tokenizer: Option<Tokenizer>,
    templates: Vec<NamedTemplate>,
    special_tokens: Map<String, Json>,
    stop_ids: Vec<u32>,
    context_window: Option<usize>,
}

#[derive(Debug, Clone)]
struct NamedTemplate {
    name: String,
    source: String,
}

/// Reason why a model directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelDirError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {error}")]
    Tokenizer { path: PathBuf, error: TokenizerError },
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("{0} is not a directory; --model takes a directory with tokenizer.json and a chat template")]
    NotADirectory(PathBuf),
    #[error(
        "{0} has no tokenizer.json, so no token ids can be made. Save the model's fast tokenizer there: \
         AutoTokenizer.from_pretrained(…).save_pretrained(DIR)"
    )]
    NoTokenizer(PathBuf),
    #[error(
        "{0} has no chat template: neither chat_template.jinja, nor \"chat_template\" in tokenizer_config.json, nor \
         chat_template.json. Base models come without one: save one there as chat_template.jinja"
    )]
    NoTemplate(PathBuf),
    #[error(
        "{path} names several chat templates ({names}), none of them \"default\". Save the right one there as chat_template.jinja"
    )]
    NoDefaultTemplate { path: PathBuf, names: String },
}

impl ModelDir {
    pub fn open(path: &Path) -> Result<Self, ModelDirError> {
        if !path.is_dir() {
            return Err(ModelDirError::NotADirectory(path.to_owned()));
        }
        let json = |name: &str| read_json_if_there::<Map<String, Json>>(&path.join(name));
        let tokenizer_config = json("tokenizer_config.json")?.unwrap_or_default();
        let legacy_tokens = json("special_tokens_map.json")?.unwrap_or_default();
        let generation = json("generation_config.json")?.unwrap_or_default();
        let config = json("config.json")?.unwrap_or_default();

        let tokenizer = open_tokenizer(path, &tokenizer_config)?;
        let special_tokens = named_tokens(&tokenizer_config, &legacy_tokens);
        let stop_ids = stop_ids(&generation, &config, tokenizer.as_ref(), &special_tokens);
        Ok(Self {
            templates: find_templates(path, &tokenizer_config)?,
            context_window: context_window(&config),
            path: path.to_owned(),
            tokenizer,
            special_tokens,
            stop_ids,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer, ModelDirError> {
        self.tokenizer.as_ref().ok_or_else(|| ModelDirError::NoTokenizer(self.path.clone()))
    }

    /// The chat template, chosen as transformers does: with tools the one named `tool_use` if there is one, else the
    /// default.
    pub fn template(&self, with_tools: bool) -> Result<ChatTemplate, ModelDirError> {
        let named = |name: &str| self.templates.iter().find(|template| template.name == name);
        let tool_use = if with_tools { named("tool_use") } else { None };
        match tool_use.or_else(|| named("default")) {
            Some(template) => Ok(ChatTemplate::new(&template.source)?),
            None if self.templates.is_empty() => Err(ModelDirError::NoTemplate(self.path.clone())),
            None => Err(ModelDirError::NoDefaultTemplate {
                path: self.path.clone(),
                names: self.templates.iter().map(|template| template.name.as_str()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// `bos_token`, `eos_token`, … as templates see them.
    pub fn special_tokens(&self) -> &Map<String, Json> {
        &self.special_tokens
    }

    /// The ids a reply ends with. Empty if the directory names none.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// Context window of the model, if config.json names one.
    pub fn context_window(&self) -> Option<usize> {
        self.context_window
    }
}

fn open_tokenizer(path: &Path, config: &Map<String, Json>) -> Result<Option<Tokenizer>, ModelDirError> {
    let file = path.join("tokenizer.json");
    if !file.is_file() {
        return Ok(None);
    }
    let added = config.get("added_tokens_decoder").and_then(Json::as_object);
    let added = added.into_iter().flatten().filter_map(|(id, token)| added_token(id, token)).collect();
    Tokenizer::with_added_tokens(&read_text(&file)?, added)
        .map(Some)
        .map_err(|error| ModelDirError::Tokenizer { path: file, error })
}

fn added_token(id: &str, token: &Json) -> Option<(u32, AddedToken)> {
    let content = token.get("content")?.as_str()?;
    let flag = |name: &str| token.get(name).and_then(Json::as_bool).unwrap_or(false);
    let special = flag("special");
    let token = AddedToken::from(content, special)
        .single_word(flag("single_word"))
        .lstrip(flag("lstrip"))
        .rstrip(flag("rstrip"))
        .normalized(token.get("normalized").and_then(Json::as_bool).unwrap_or(!special));
    Some((id.parse().ok()?, token))
}

/// A token is written as a string or as an object with its `content`.
fn token_text(value: &Json) -> Option<&str> {
    value.as_str().or_else(|| value.get("content").and_then(Json::as_str))
}

fn named_tokens(config: &Map<String, Json>, legacy: &Map<String, Json>) -> Map<String, Json> {
    let find = |name: &str| config.get(name).and_then(token_text).or_else(|| legacy.get(name).and_then(token_text));
    NAMED_TOKENS.iter().filter_map(|&name| Some((name.to_owned(), find(name)?.into()))).collect()
}

/// Union of generation_config.json and the tokenizer's end token, as servers do; config.json if neither names one.
fn stop_ids(
    generation: &Map<String, Json>,
    config: &Map<String, Json>,
    tokenizer: Option<&Tokenizer>,
    tokens: &Map<String, Json>,
) -> Vec<u32> {
    let mut ids = ids_of(generation.get("eos_token_id"));
    let eos = tokens.get("eos_token").and_then(Json::as_str);
    ids.extend(tokenizer.zip(eos).and_then(|(tokenizer, eos)| tokenizer.token_to_id(eos)));
    if ids.is_empty() {
        ids = ids_of(config.get("eos_token_id"));
    }
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

fn ids_of(value: Option<&Json>) -> Vec<u32> {
    let id = |value: &Json| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Json::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

fn context_window(config: &Map<String, Json>) -> Option<usize> {
    let inner = config.get("text_config").and_then(Json::as_object);
    let window = config.get("max_position_embeddings").or_else(|| inner?.get("max_position_embeddings"))?;
    usize::try_from(window.as_u64()?).ok()
}

/// The file chat_template.jinja takes precedence, then tokenizer_config.json, then the chat_template.json of
/// processors. Further named templates may be in additional_chat_templates/.
fn find_templates(path: &Path, config: &Map<String, Json>) -> Result<Vec<NamedTemplate>, ModelDirError> {
    let mut templates = Vec::new();
    let file = path.join("chat_template.jinja");
    let processor = read_json_if_there::<Map<String, Json>>(&path.join("chat_template.json"))?.unwrap_or_default();
    if file.is_file() {
        templates.push(NamedTemplate { name: "default".into(), source: read_text(&file)? });
    } else if let Some(written) = config.get("chat_template").or_else(|| processor.get("chat_template")) {
        templates = written_templates(written);
    }
    let more = path.join("additional_chat_templates");
    if more.is_dir() {
        let entries = std::fs::read_dir(&more).map_err(|error| FileError::Io { path: more.clone(), error })?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "jinja")) {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            templates.push(NamedTemplate { name, source: read_text(file)? });
        }
    }
    Ok(templates)
}

/// A template as a string, or a list (older files: a map) of named ones.
fn written_templates(written: &Json) -> Vec<NamedTemplate> {
    let named = |name: &str, source: &str| NamedTemplate { name: name.to_owned(), source: source.to_owned() };
    match written {
        Json::String(source) => vec![named("default", source)],
        Json::Array(list) => list
            .iter()
            .filter_map(|entry| Some(named(entry.get("name")?.as_str()?, entry.get("template")?.as_str()?)))
            .collect(),
        Json::Object(map) => map.iter().filter_map(|(name, source)| Some(named(name, source.as_str()?))).collect(),
        _ => Vec::new(),
    }
}
