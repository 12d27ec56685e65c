//! Incremental rendering: a conversation's ids so far, and their extension by the next observation.
//!
//! The suffix of an observation is read off a render of the first messages, a stand-in reply and the observation: the
//! text after the end of the stand-in's turn is what the template adds. Earlier turns are not rendered again, so a
//! template that rewrites them (strips reasoning, moves the tools) cannot change what the policy has already seen;
//! [`Conversation::rewrites`] reports that it would.

use std::sync::Arc;

use hone_trace::Message;
use serde_json::{Value as Json, json};

use super::{RenderError, Renderer, Scene, foreign, input};
use crate::budget::PromptCost;
use crate::messages::to_template;
use crate::template::TemplateError;
use crate::tools::result_as_user;

/// A reply and an observation to try a template with; letters only, so that no template escapes them.
const STAND_IN: &str = "HoneStandInReply";
const PROBE: &str = "HoneProbeText";

/// A stand-in for the reply that none of these messages contains: `stand_in`, or a longer one.
fn unused(stand_in: &str, messages: &[Json]) -> String {
    let mut name = stand_in.to_owned();
    let texts: Vec<String> = messages.iter().map(Json::to_string).collect();
    while texts.iter().any(|text| text.contains(&name)) {
        name.push('x');
    }
    name
}

/// Ids that one turn adds after the sampled ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffix {
    /// The end of the turn, if the policy did not write it (`Origin::Forced`).
    pub forced: Vec<u32>,
    /// The observation and the opening of the next turn (`Origin::Observation`).
    pub observation: Vec<u32>,
}

/// Change the template makes to earlier turns, which rendering by suffix omits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// Reasoning of earlier replies is removed.
    Reasoning { line: Option<usize> },
    /// The text before a reply changes once the reply or a later message is there.
    Prompt { line: Option<usize> },
}

impl std::fmt::Display for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, line) = match self {
            Self::Reasoning { line } => ("takes the reasoning out of earlier replies", line),
            Self::Prompt { line } => ("rewrites the text before a reply", line),
        };
        write!(f, "the chat template {what}")?;
        if let Some(line) = line {
            write!(f, " (line {line})")?;
        }
        f.write_str("; in training every turn stays as the policy saw it")
    }
}

/// A conversation: the ids the model has seen, growing.
#[derive(Debug, Clone)]
pub struct Conversation {
    renderer: Renderer,
    // Shared: the episodes of a group start from clones of one conversation.
    scene: Arc<Scene>,
    base: Arc<[Json]>,
    ids: Vec<u32>,
    prompt_len: usize,
    /// Ids that end a turn, with their text.
    ends: Vec<(u32, String)>,
    results_as_user: bool,
    rewrites: Vec<Rewrite>,
    /// The text that stands in for a reply, which the first messages do not contain.
    stand_in: String,
    defused: usize,
}

/// The template's text after a reply: the token that ends it, and the text from there on.
struct Continuation {
    end: u32,
    end_text: String,
    rest: String,
}

impl Conversation {
    pub(super) fn open(
        renderer: Renderer,
        scene: Scene,
        base: Vec<Json>,
        ids: Vec<u32>,
        with_tools: bool,
    ) -> Result<Self, RenderError> {
        let ends = renderer.inner.stop_ids.iter().filter_map(|&id| {
            let tokenizer = &renderer.inner.tokenizer;
            tokenizer.is_added(id).then(|| Some((id, tokenizer.id_to_token(id)?))).flatten()
        });
        let ends = ends.collect();
        let prompt_len = ids.len();
        let stand_in = unused(STAND_IN, &base);
        let (scene, base) = (Arc::new(scene), Arc::from(base));
        let mut conversation = Self {
            renderer,
            scene,
            base,
            ids,
            prompt_len,
            ends,
            results_as_user: false,
            rewrites: Vec::new(),
            stand_in,
            defused: 0,
        };
        conversation.find_end_of_turn()?;
        conversation.probe("user")?;
        if with_tools {
            conversation.probe_results()?;
        }
        conversation.find_rewrites();
        Ok(conversation)
    }

    /// The ids so far: prompt, replies and observations.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The ids of the first prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.ids[..self.prompt_len]
    }

    /// The ids that end a reply: the model's stop ids and the template's own end of turn.
    pub fn stop_ids(&self) -> Vec<u32> {
        let mut ids = self.renderer.inner.stop_ids.clone();
        ids.extend(self.ends.iter().map(|(id, _)| *id).filter(|id| !self.renderer.inner.stop_ids.contains(id)));
        ids
    }

    /// Changes the template would make to earlier turns, which are not applied.
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }

    /// Special tokens spelt out in messages of users and tools, and encoded as text.
    pub fn defused(&self) -> usize {
        self.defused
    }

    pub(super) fn count_defused(&mut self, defused: usize) {
        self.defused += defused;
    }

    /// Token budget of the first prompt.
    pub fn cost(&self) -> Result<PromptCost, RenderError> {
        let tokenizer = self.renderer.tokenizer();
        let without_tools = Scene { tools: None, ..Scene::clone(&self.scene) };
        let bare = match self.renderer.render(&without_tools, &self.base, true) {
            Ok(text) => self.renderer.encode(&text)?.len(),
            // A template that requires tools cannot be measured without them.
            Err(_) => self.prompt_len,
        };
        let text = |message: &Json| match message.get("content") {
            Some(Json::String(text)) => foreign::restore(tokenizer, text),
            Some(Json::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let (system, task): (Vec<&Json>, Vec<&Json>) =
            self.base.iter().partition(|message| message.get("role") == Some(&json!("system")));
        let system: String = system.into_iter().map(text).collect();
        let task: Vec<String> = task.into_iter().map(text).collect();
        Ok(PromptCost::measure(tokenizer, self.prompt_len, bare, &system, &task)?)
    }

    /// Appends a sampled reply and the observation that answers it. The reply's ids are taken as they are; the suffix
    /// ends with the opening of the next reply.
    pub fn extend(&mut self, sampled: &[u32], observation: &[Message]) -> Result<Suffix, RenderError> {
        let mut observation: Vec<Json> = observation.iter().map(to_template).collect();
        let defused = self.renderer.defuse(&mut observation);
        let observation: Vec<Json> = observation.into_iter().map(|message| self.shown(message)).collect();
        let next = self.continuation(&observation)?;
        let ids = self.encode_after(&next)?;
        let forced = if sampled.last() == Some(&next.end) { Vec::new() } else { vec![next.end] };
        self.ids.extend_from_slice(sampled);
        self.ids.extend_from_slice(&forced);
        self.ids.extend_from_slice(&ids);
        self.defused += defused;
        Ok(Suffix { forced, observation: ids })
    }

    fn shown(&self, message: Json) -> Json {
        let result = message.get("role") == Some(&json!("tool"));
        if result && self.results_as_user { result_as_user(&message) } else { message }
    }

    /// Ids of the text after the end of a turn. It is encoded after that token, which is then removed, so that
    /// whitespace absorbed by the token, and spaces a tokenizer adds at the start of a text, come out as in a whole
    /// prompt.
    fn encode_after(&self, next: &Continuation) -> Result<Vec<u32>, RenderError> {
        let mut ids = self.renderer.encode(&format!("{}{}", next.end_text, next.rest))?;
        match ids.iter().position(|&id| id == next.end) {
            // A tokenizer may open every text with an extra token (a lone space mark) before the end token.
            Some(at) if at <= 1 => Ok(ids.split_off(at + 1)),
            _ => Err(RenderError::NoBoundary { found: next.end_text.clone() }),
        }
    }

    /// Renders stand-in replies until one shows where its turn ends.
    fn continuation(&self, observation: &[Json]) -> Result<Continuation, RenderError> {
        let mut failure = None;
        let name = unused(&self.stand_in, observation);
        for stand_in in stand_ins(&name, observation) {
            let mut messages = self.base.to_vec();
            messages.push(stand_in);
            messages.extend_from_slice(observation);
            match self.renderer.render(&self.scene, &messages, true) {
                Ok(text) => {
                    if let Some(found) = self.after_stand_in(&name, &text) {
                        return Ok(found);
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error.into()),
            None => Err(self.reply_lost(observation)),
        }
    }

    fn after_stand_in(&self, name: &str, text: &str) -> Option<Continuation> {
        let after = &text[text.rfind(name)? + name.len()..];
        let ends = self.ends.iter().filter_map(|(id, end)| Some((after.find(end.as_str())?, *id, end)));
        let (at, end, end_text) = ends.min_by_key(|(at, _, _)| *at)?;
        Some(Continuation { end, end_text: end_text.clone(), rest: after[at + end_text.len()..].to_owned() })
    }

    /// The template dropped or moved the reply once an observation followed it.
    fn reply_lost(&self, observation: &[Json]) -> RenderError {
        let mut reply = self.base.to_vec();
        reply.push(json!({ "role": "assistant", "content": self.stand_in }));
        let mut answered = reply.clone();
        answered.extend_from_slice(observation);
        let template = self.renderer.template(self.scene.tools.is_some());
        let line =
            template.line_of_difference(&input(&self.scene, &reply, false), &input(&self.scene, &answered, true));
        let kept = self.renderer.render(&self.scene, &answered, true).is_ok_and(|text| text.contains(&self.stand_in));
        let why =
            if kept { "does not end a reply with a special token" } else { "drops the reply before a new message" };
        RenderError::NotAppendOnly { line, why: why.to_owned() }
    }

    /// Adds the token that ends a reply in the template to the stop ids: generation configs of base models often lack
    /// it.
    fn find_end_of_turn(&mut self) -> Result<(), RenderError> {
        let mut messages = self.base.to_vec();
        messages.push(json!({ "role": "assistant", "content": self.stand_in }));
        messages.push(json!({ "role": "user", "content": PROBE }));
        let text = self.renderer.render(&self.scene, &messages, true)?;
        let Some(at) = text.rfind(&self.stand_in) else {
            return Err(self.reply_lost(&messages[messages.len() - 1..]));
        };
        let after = &text[at + self.stand_in.len()..];
        let turn = &after[..after.find(PROBE).unwrap_or(after.len())];
        if self.ends.iter().any(|(_, end)| turn.contains(end.as_str())) {
            return Ok(());
        }
        let tokenizer = self.renderer.tokenizer();
        let special = tokenizer.special_ids();
        let found = tokenizer.encode(turn)?.into_iter().find(|id| special.contains(id));
        match found.and_then(|id| Some((id, tokenizer.id_to_token(id)?))) {
            Some(end) => {
                self.ends.push(end);
                Ok(())
            }
            None => Err(RenderError::NoBoundary { found: turn.chars().take(40).collect() }),
        }
    }

    /// An observation of this role must be found in its own suffix.
    fn probe(&self, role: &'static str) -> Result<(), RenderError> {
        let message = self.shown(json!({ "role": role, "name": "tool", "content": PROBE }));
        let lost = |why: String| RenderError::ObservationLost { role, why };
        match self.continuation(&[message]) {
            Ok(next) if next.rest.contains(PROBE) => self.encode_after(&next).map(drop),
            Ok(_) => Err(lost("its text does not appear".into())),
            Err(RenderError::Template(error @ TemplateError::Refused { .. })) if role != "user" => {
                Err(lost(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn probe_results(&mut self) -> Result<(), RenderError> {
        match self.probe("tool") {
            Err(RenderError::ObservationLost { .. } | RenderError::NotAppendOnly { .. })
                if self.renderer.inner.settings.tools_in_system =>
            {
                self.results_as_user = true;
                self.probe("tool")
            }
            outcome => outcome,
        }
    }

    /// Compares the prompt with what becomes of it once a reply with reasoning and a new user message follow.
    fn find_rewrites(&mut self) {
        const THOUGHT: &str = "HoneStandInThought";
        let reply = json!({ "role": "assistant", "content": self.stand_in, "reasoning_content": THOUGHT });
        let mut replied = self.base.to_vec();
        replied.push(reply);
        let mut answered = replied.clone();
        answered.push(json!({ "role": "user", "content": PROBE }));
        let render = |messages: &[Json], generation| self.renderer.render(&self.scene, messages, generation).ok();
        let line = |a: (&[Json], bool), b: (&[Json], bool)| {
            let template = self.renderer.template(self.scene.tools.is_some());
            template.line_of_difference(&input(&self.scene, a.0, a.1), &input(&self.scene, b.0, b.1))
        };
        let mut found = Vec::new();
        if let (Some(open), Some(reply), Some(after)) =
            (render(&self.base, true), render(&replied, false), render(&answered, true))
        {
            if reply.contains(THOUGHT) && !after.contains(THOUGHT) {
                found.push(Rewrite::Reasoning { line: line((&replied, false), (&answered, true)) });
            }
            let before = after.find(&self.stand_in).map_or(0, |at| after[..at].rfind(THOUGHT).unwrap_or(at));
            if !after[..before].starts_with(open.trim_end_matches(|c: char| c.is_whitespace())) {
                found.push(Rewrite::Prompt { line: line((&self.base, true), (&answered, true)) });
            }
        }
        self.rewrites = found;
    }
}

/// Stand-ins for the sampled reply, the likeliest first. Before tool results that is a reply with calls, because
/// templates take the tools' names and ids from it; arguments are an object, or text for templates that concatenate
/// strings.
fn stand_ins(name: &str, observation: &[Json]) -> Vec<Json> {
    let plain = json!({ "role": "assistant", "content": name });
    let results: Vec<&Json> =
        observation.iter().filter(|message| message.get("role") == Some(&json!("tool"))).collect();
    if results.is_empty() {
        return vec![plain];
    }
    let with_calls = |arguments: Json| {
        let calls = results.iter().enumerate().map(|(index, result)| {
            let text = |key: &str| result.get(key).and_then(Json::as_str);
            let id = text("tool_call_id").map_or_else(|| format!("callno{index:03}"), str::to_owned);
            let function = json!({ "name": text("name").unwrap_or("tool"), "arguments": arguments });
            json!({ "type": "function", "id": id, "function": function })
        });
        json!({ "role": "assistant", "content": "", "tool_calls": calls.collect::<Vec<_>>() })
    };
    let arguments = json!({ "standin": name });
    vec![with_calls(arguments.clone()), with_calls(arguments.to_string().into()), plain]
}
