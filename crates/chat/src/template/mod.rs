//! Chat templates: messages and tools to prompt text, identical to transformers' `apply_chat_template`.
//!
//! The engine is minijinja; `glue`, `methods`, `value` and `python` bridge where it differs from jinja2 on CPython, and
//! `rewrite` handles syntax only transformers knows. Templates come from untrusted directories: `meter` bounds what a
//! render builds and how long it takes, `watch` puts the meter between the engine's instructions. This module knows no
//! tokens.

mod clock;
mod glue;
mod meter;
mod methods;
mod python;
mod rewrite;
mod value;
mod watch;

use std::error::Error as _;
use std::sync::Arc;

use minijinja::machinery;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::{Map, Value as Json};

pub use clock::{BadDate, Clock};
pub use meter::Excess;

/// Instructions one render may execute, the meter's included. A thousand-message conversation takes a few hundred
/// thousand; a template that needs more than this loops for its own sake.
const FUEL: u64 = 8_000_000;

/// Stack of a render that may nest values in one another, and of the compiler. Dropping such a value recurses once per
/// level, and its fuel lets a template build half a million of them; a chain of operators or of `elif` recurses once per
/// link. Pages that are not touched cost nothing.
const NESTING_STACK: usize = 1 << 30;

/// Templates are files of a few kilobytes; a larger one is not a chat template.
const MAX_SOURCE: usize = 256 << 10;

/// Longest tag of a template, in bytes. The compiler's time grows with the square of a chain of operators.
const MAX_TAG: usize = 32 << 10;

/// A compiled chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: Arc<str>,
    env: Arc<Environment<'static>>,
    /// A namespace outlives loop iterations: a value can be nested in itself repeatedly.
    nests: bool,
}

/// Inputs of a template: the arguments of `apply_chat_template`.
#[derive(Debug, Clone)]
pub struct TemplateInput<'a> {
    pub messages: &'a [Json],
    /// `None` if no tools were given; templates distinguish that from an empty list.
    pub tools: Option<&'a [Json]>,
    pub documents: Option<&'a Json>,
    pub add_generation_prompt: bool,
    /// Special tokens and extra arguments such as `enable_thinking`.
    pub variables: &'a Map<String, Json>,
    pub clock: Clock,
}

/// Reason why a template could not be compiled or rendered. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template itself refused the conversation, through `raise_exception`.
    #[error("the chat template refuses this conversation{}: {message}", at_line(*line))]
    Refused { line: Option<usize>, message: String },
    #[error("the chat template does not compile{}: {message}. Fix the template", at_line(*line))]
    Syntax { line: Option<usize>, message: String },
    #[error(
        "the chat template uses {name}{}. Correct the name in the template, write it with a filter or method that \
         Jinja has",
        at_line(*line)
    )]
    Unknown { line: Option<usize>, name: String },
    #[error("the chat template ran over {FUEL} steps{}; it loops without end. Give another template", at_line(*line))]
    Endless { line: Option<usize> },
    #[error("the chat template {excess}{}. Give another template", at_line(*line))]
    Excessive { line: Option<usize>, excess: Excess },
    #[error("the chat template fails{}: {message}. Fix the template or give another", at_line(*line))]
    Failed { line: Option<usize>, message: String },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" at line {line}"))
}

impl TemplateError {
    fn new(error: &minijinja::Error) -> Self {
        let line = error.line();
        let detail = error.detail().unwrap_or_default();
        let message = if detail.is_empty() { error.kind().to_string() } else { format!("{detail} ({})", error.kind()) };
        let mut cause = error.source();
        while let Some(source) = cause {
            if let Some(raised) = source.downcast_ref::<glue::Raised>() {
                return Self::Refused { line, message: raised.0.clone() };
            }
            if let Some(excess) = source.downcast_ref::<Excess>() {
                return Self::Excessive { line, excess: *excess };
            }
            cause = source.source();
        }
        match error.kind() {
            ErrorKind::SyntaxError | ErrorKind::InvalidDelimiter => Self::Syntax { line, message },
            ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod => Self::Unknown { line, name: format!("an {}: {detail}", error.kind()) },
            ErrorKind::OutOfFuel => Self::Endless { line },
            _ => Self::Failed { line, message },
        }
    }
}

impl ChatTemplate {
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            let message = format!("{} bytes are too many for a chat template", source.len());
            return Err(TemplateError::Syntax { line: None, message });
        }
        if let Some(line) = rewrite::long_tag(source, MAX_TAG) {
            let message = format!("a tag of over {MAX_TAG} bytes");
            return Err(TemplateError::Syntax { line: Some(line), message });
        }
        let compiled = || compile(rewrite::rewrite(source)).map_err(|error| TemplateError::new(&error));
        let env = on_a_deep_stack(compiled)?;
        Ok(Self { source: source.into(), env: Arc::new(env), nests: source.contains("namespace") })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt text.
    pub fn render(&self, input: &TemplateInput<'_>) -> Result<String, TemplateError> {
        if !self.nests {
            return render(&self.env, input).map_err(|error| TemplateError::new(&error));
        }
        on_a_deep_stack(|| render(&self.env, input).map_err(|error| TemplateError::new(&error)))
    }

    /// The line of the template at which the renders of two conversations diverge, if it can be determined.
    pub(crate) fn line_of_difference(&self, a: &TemplateInput<'_>, b: &TemplateInput<'_>) -> Option<usize> {
        let compiled = || compile(rewrite::instrument(&self.source)).map_err(|error| TemplateError::new(&error));
        let env = on_a_deep_stack(compiled).ok()?;
        rewrite::line_of_difference(&render(&env, a).ok()?, &render(&env, b).ok()?)
    }
}

/// Runs deeply recursive work on a thread with a stack of [`NESTING_STACK`].
fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, TemplateError> + Send) -> Result<T, TemplateError> {
    let failed = |message: String| TemplateError::Failed { line: None, message };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(NESTING_STACK);
        let thread = builder.spawn_scoped(scope, work).map_err(|error| failed(error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("the template engine panicked".to_owned())))
    })
}

/// The name the template has inside its environment.
const NAME: &str = "chat_template";

fn compile(source: String) -> Result<Environment<'static>, minijinja::Error> {
    let mut env = Environment::new();
    env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    // The name decides on escaping in minijinja; prompts are never escaped.
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_fuel(Some(FUEL));
    env.set_debug(false);
    glue::install(&mut env);
    watch::install(&mut env);
    env.add_template_owned(NAME, source)?;
    Ok(env)
}

fn render(env: &Environment<'_>, input: &TemplateInput<'_>) -> Result<String, minijinja::Error> {
    let list = |items: &[Json]| value::from_json(&Json::Array(items.to_vec()));
    let messages: Vec<Json> = input.messages.iter().map(alias_reasoning).collect();
    let clock = input.clock;
    let now = Value::from_function(move |format: &str| clock.strftime(format));
    let mut context = vec![("strftime_now", now)];
    for (name, json) in input.variables {
        context.push((name.as_str(), value::from_json(json)?));
    }
    context.push(("messages", list(&messages)?));
    context.push(("tools", input.tools.map(list).transpose()?.unwrap_or_else(|| Value::from(()))));
    context.push(("documents", input.documents.map(value::from_json).transpose()?.unwrap_or_else(|| Value::from(()))));
    context.push(("add_generation_prompt", Value::from(input.add_generation_prompt)));
    let template = env.get_template(NAME)?;
    let watched = watch::Watched::new(machinery::get_compiled_template(&template));
    let mut text = String::new();
    let mut out = machinery::make_string_output(&mut text);
    let root = Value::from_pairs(context);
    meter::metered(|| machinery::eval(env, &watched.root, root, &watched.blocks, &mut out, AutoEscape::None))?;
    meter::check_string(text.len())?;
    Ok(text)
}

/// Reasoning has three names; transformers passes the first to templates under its own name and as `thinking`.
fn alias_reasoning(message: &Json) -> Json {
    let Json::Object(fields) = message else { return message.clone() };
    let named = ["reasoning_content", "thinking", "reasoning"].into_iter().filter_map(|name| fields.get(name));
    let Some(reasoning) = named.into_iter().find(|reasoning| !reasoning.is_null()) else { return message.clone() };
    let mut aliased = Map::new();
    aliased.insert("thinking".into(), reasoning.clone());
    for (name, value) in fields {
        aliased.insert(name.clone(), value.clone());
    }
    aliased.insert("reasoning_content".into(), reasoning.clone());
    Json::Object(aliased)
}
