//! Messages to token ids, once: the first prompt is encoded whole, every later turn only adds to it.
//!
//! The law: the ids of turn n+1 extend the ids of turn n exactly. What the policy sampled is never decoded and encoded
//! again, and earlier turns stay as the policy saw them, even if the template would rewrite them. An observation
//! becomes the suffix the template writes for it after a stand-in reply ([`Conversation::extend`]).

mod conversation;
mod foreign;

use std::sync::Arc;

use hone_trace::{Message, ToolSet, ToolSpec};
use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

pub use conversation::{Conversation, Rewrite, Suffix};
pub use foreign::SpecialTokens;

use crate::messages::{Arguments, with_arguments};
use crate::model_dir::{ModelDir, ModelDirError};
use crate::template::{BadDate, ChatTemplate, Clock, TemplateError, TemplateInput};
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::tools::{self, missing_names};
use crate::vars;

/// Choices of the recipe about rendering.
#[derive(Debug, Clone, Default)]
pub struct RenderSettings {
    /// Extra variables for the template, such as `enable_thinking`.
    pub variables: Map<String, Json>,
    /// Put the tool schemas into the system prompt, for templates that ignore `tools`.
    pub tools_in_system: bool,
    /// "Today" if the task names no date. Without either, the host's date.
    pub date: Option<Clock>,
    /// Special tokens spelt out in the messages of users and tools.
    pub special_tokens: SpecialTokens,
}

/// Opening of an episode.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    pub system: Option<&'a str>,
    /// The task and whatever precedes it; never cut.
    pub messages: &'a [Message],
    pub tools: &'a ToolSet,
    /// Task variables, such as `CURRENT_DATE`.
    pub variables: &'a IndexMap<String, String>,
    /// Further sections of the system prompt: worked examples, format guidance.
    pub sections: &'a [String],
}

/// Reason why a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error(transparent)]
    Date(#[from] BadDate),
    #[error(
        "the tools do not reach the prompt: {missing} not found in it, because the chat template {why}. \
         Use a template that renders them{}",
        if *in_system { "" } else { ", or set tools_in_system = true to have them put into the system prompt" }
    )]
    ToolsLost { missing: String, why: &'static str, in_system: bool },
    #[error(
        "the chat template{} {why}; turns cannot be appended to such a prompt. \
         Change that line so that a turn, once written, stays as it is, or give another template",
        line.map_or_else(String::new, |line| format!(" (line {line})"))
    )]
    NotAppendOnly { line: Option<usize>, why: String },
    #[error(
        "the chat template does not show messages of role {role:?} ({why}). Give a template that does{}",
        if *role == "tool" { ", or set tools_in_system = true to have results shown as user messages" } else { "" }
    )]
    ObservationLost { role: &'static str, why: String },
    #[error(
        "a turn of this chat template ends with {found:?}, which is not one token of the tokenizer, so ids cannot be \
         joined there. Use the tokenizer the template was made for"
    )]
    NoBoundary { found: String },
}

/// Renders conversations of one model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Renderer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    plain: ChatTemplate,
    with_tools: ChatTemplate,
    tokenizer: Tokenizer,
    special_tokens: Map<String, Json>,
    stop_ids: Vec<u32>,
    settings: RenderSettings,
}

/// The arguments of the template that stay the same through a conversation.
#[derive(Debug, Clone)]
struct Scene {
    tools: Option<Vec<Json>>,
    variables: Map<String, Json>,
    clock: Clock,
}

impl Renderer {
    pub fn new(model: &ModelDir, settings: RenderSettings) -> Result<Self, RenderError> {
        let (plain, with_tools) = (model.template(false)?, model.template(true)?);
        Ok(Self::assemble(plain, with_tools, model, settings)?)
    }

    /// With a template other than the model's own.
    pub fn with_template(
        template: &ChatTemplate,
        model: &ModelDir,
        settings: RenderSettings,
    ) -> Result<Self, RenderError> {
        Ok(Self::assemble(template.clone(), template.clone(), model, settings)?)
    }

    fn assemble(
        plain: ChatTemplate,
        with_tools: ChatTemplate,
        model: &ModelDir,
        settings: RenderSettings,
    ) -> Result<Self, ModelDirError> {
        let inner = Inner {
            plain,
            with_tools,
            tokenizer: model.tokenizer()?.clone(),
            special_tokens: model.special_tokens().clone(),
            stop_ids: model.stop_ids().to_vec(),
            settings,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.tokenizer
    }

    /// The template a conversation with or without tools is rendered with.
    pub fn template(&self, with_tools: bool) -> &ChatTemplate {
        if with_tools { &self.inner.with_tools } else { &self.inner.plain }
    }

    /// Renders the first prompt and proves that the conversation can be continued: that every tool reached it, that a
    /// later turn can be appended, and that observations are shown. Refuses otherwise, before anything is sampled.
    pub fn open(&self, prompt: &Prompt<'_>) -> Result<Conversation, RenderError> {
        let (scene, in_tools) = self.scene(prompt)?;
        let mut base = self.base(prompt, &scene);
        let defused = in_tools + self.defuse(&mut base);
        let text = self.render(&scene, &base, true)?;
        let ids = self.encode(&text)?;
        self.check_tools(prompt, &scene, &ids)?;
        let mut conversation = Conversation::open(self.clone(), scene, base, ids, !prompt.tools.is_empty())?;
        conversation.count_defused(defused);
        Ok(conversation)
    }

    /// Turns special tokens in foreign messages into text, if the settings say so; returns their number.
    fn defuse(&self, messages: &mut [Json]) -> usize {
        match self.inner.settings.special_tokens {
            SpecialTokens::Keep => 0,
            SpecialTokens::Defuse => {
                messages.iter_mut().map(|message| foreign::defuse(&self.inner.tokenizer, message)).sum()
            }
        }
    }

    /// The same for the tools.
    fn defuse_tools(&self, tools: &mut [Json]) -> usize {
        match self.inner.settings.special_tokens {
            SpecialTokens::Keep => 0,
            SpecialTokens::Defuse => foreign::defuse_tools(&self.inner.tokenizer, tools),
        }
    }

    /// The ids of a rendered text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self.inner.settings.special_tokens {
            SpecialTokens::Keep => self.inner.tokenizer.encode(text),
            SpecialTokens::Defuse => foreign::encode(&self.inner.tokenizer, text),
        }
    }

    /// The scene, and the number of special tokens in its tools that became text.
    fn scene(&self, prompt: &Prompt<'_>) -> Result<(Scene, usize), RenderError> {
        let settings = &self.inner.settings;
        let mut variables = self.inner.special_tokens.clone();
        variables.extend(settings.variables.clone());
        let offered = !prompt.tools.is_empty() && !settings.tools_in_system;
        let mut tools = offered.then(|| tools::template_tools(prompt.tools));
        let defused = tools.as_mut().map_or(0, |tools| self.defuse_tools(tools));
        let clock = vars::clock(prompt.variables)?.or(settings.date).unwrap_or_else(Clock::host);
        Ok((Scene { tools, variables, clock }, defused))
    }

    /// The messages of the first prompt. Earlier calls in it are given as objects, or as text for templates that can
    /// only concatenate strings.
    fn base(&self, prompt: &Prompt<'_>, scene: &Scene) -> Vec<Json> {
        let system = self.system_text(prompt);
        let messages = |arguments| {
            let system = system.iter().map(|text| json!({ "role": "system", "content": text }));
            system.chain(prompt.messages.iter().map(|message| with_arguments(message, arguments))).collect::<Vec<_>>()
        };
        let objects = messages(Arguments::Object);
        let calls = prompt
            .messages
            .iter()
            .any(|message| matches!(message, Message::Assistant { tool_calls, .. } if !tool_calls.is_empty()));
        if calls && self.render(scene, &objects, true).is_err() {
            let texts = messages(Arguments::Text);
            if self.render(scene, &texts, true).is_ok() {
                return texts;
            }
        }
        objects
    }

    fn system_text(&self, prompt: &Prompt<'_>) -> Option<String> {
        let mut text = vars::with_variables(prompt.system.unwrap_or_default(), prompt.variables);
        let mut append = |section: &str| {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(section);
        };
        if self.inner.settings.tools_in_system && !prompt.tools.is_empty() {
            let mut tools = tools::template_tools(prompt.tools);
            self.defuse_tools(&mut tools);
            append(&tools::section_of(&tools));
        }
        prompt.sections.iter().for_each(|section| append(section));
        (!text.is_empty() || prompt.system.is_some()).then_some(text)
    }

    fn render(&self, scene: &Scene, messages: &[Json], generation: bool) -> Result<String, TemplateError> {
        self.template(scene.tools.is_some()).render(&input(scene, messages, generation))
    }

    /// Every tool and parameter name must be in the decoded prompt, and the template must show tools it was never
    /// shown before: a prompt that mentions the names by chance proves nothing.
    fn check_tools(&self, prompt: &Prompt<'_>, scene: &Scene, ids: &[u32]) -> Result<(), RenderError> {
        let seen = self.inner.tokenizer.decode(ids)?;
        let missing = missing_names(&seen, prompt.tools);
        let lost = |missing: Vec<tools::Missing>, why| {
            let names: Vec<String> = missing.iter().take(8).map(ToString::to_string).collect();
            let more = if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
            let in_system = self.inner.settings.tools_in_system;
            RenderError::ToolsLost { missing: format!("{}{more}", names.join(", ")), why, in_system }
        };
        if !missing.is_empty() {
            let ignores = missing.iter().any(|missing| missing.parameter.is_none());
            let why = match (scene.tools.is_some(), ignores) {
                (false, _) => "does not show the system prompt they were put into",
                (true, true) => "ignores `tools`",
                (true, false) => "leaves out parts of the schemas",
            };
            return Err(lost(missing, why));
        }
        if scene.tools.is_some() {
            let probe = tools::probe_tools(prompt.tools);
            let scene = Scene { tools: Some(tools::template_tools(&probe)), ..scene.clone() };
            let base = self.base(prompt, &scene);
            let missing = missing_names(&self.render(&scene, &base, true)?, &probe);
            let unseen = |missing: &tools::Missing| missing.parameter.as_deref().is_none_or(|name| !name.contains('.'));
            if missing.iter().any(unseen) {
                let named = real_names(&missing, prompt.tools);
                return Err(lost(named, "does not render them (the prompt mentions their names elsewhere)"));
            }
        }
        Ok(())
    }
}

/// The real tools behind the probe's names that were not shown.
fn real_names(missing: &[tools::Missing], tools: &ToolSet) -> Vec<tools::Missing> {
    let specs: &[ToolSpec] = tools;
    let real = |missing: &tools::Missing| {
        let index: usize = missing.tool.strip_prefix("hone_tool_")?.parse().ok()?;
        let parameter = missing.parameter.as_deref().and_then(|name| {
            let at: usize = name.rsplit('_').next()?.parse().ok()?;
            specs.get(index)?.parameter_names().nth(at).map(str::to_owned)
        });
        Some(tools::Missing { tool: specs.get(index)?.name.clone(), parameter })
    };
    missing.iter().filter_map(real).collect()
}

fn input<'a>(scene: &'a Scene, messages: &'a [Json], generation: bool) -> TemplateInput<'a> {
    TemplateInput {
        messages,
        tools: scene.tools.as_deref(),
        documents: None,
        add_generation_prompt: generation,
        variables: &scene.variables,
        clock: scene.clock,
    }
}
