//! Full trace: its conversation and its tokens.

use std::ops::{ControlFlow, Range};

use hone_trace::{Advantage, Fate};
use serde::Serialize;
use serde_json::Value;

use super::brief::{Brief, no_signal};
use super::lines::parse;
use super::{Part, Run, ViewError};

/// A trace with its complete record.
#[derive(Debug, Clone, Serialize)]
pub struct Full {
    #[serde(flatten)]
    pub brief: Brief,
    /// The step or evaluation it belongs to.
    pub part: Option<String>,
    pub messages: Vec<Message>,
    pub turn_records: Vec<TurnView>,
    pub nodes: Vec<Node>,
    /// The line as it was recorded.
    #[serde(skip)]
    pub record: Value,
    #[serde(skip)]
    advantages: Option<Vec<f64>>,
    #[serde(skip)]
    no_signal: Option<String>,
}

/// A message of the conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    pub role: String,
    pub content: String,
    pub reasoning: Option<String>,
    pub calls: Vec<Call>,
    /// The tool that answered.
    pub name: Option<String>,
    /// The turn of an assistant's message.
    pub turn: Option<usize>,
}

/// A tool call.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    pub name: String,
    pub arguments: Value,
}

/// The readable side of one agent turn.
#[derive(Debug, Clone, Serialize)]
pub struct TurnView {
    pub calls: Vec<Call>,
    pub executed: u64,
    pub failed: u64,
    /// The parse failure in words.
    pub failure: Option<String>,
    pub repairs: Vec<String>,
    /// Seconds waited for each party.
    pub timings: Vec<(String, f64)>,
}

/// Tokens of one hand-over.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    pub origin: String,
    pub tokens: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sampling_logprobs: Vec<f64>,
    /// The policy steps that sampled it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_steps: Vec<u64>,
}

/// One token of the token view.
#[derive(Debug, Clone, Serialize)]
pub struct Token {
    pub position: usize,
    pub node: usize,
    pub origin: String,
    pub id: u32,
    pub text: String,
    /// Added to the vocabulary: markup rather than text.
    pub special: bool,
    pub trained: bool,
    /// Reason why it is trained or not.
    pub because: String,
    pub logprob: Option<f64>,
    /// The learner's, when it first saw the token.
    pub learner_logprob: Option<f64>,
    /// Learner minus sampler.
    pub gap: Option<f64>,
    pub advantage: Option<f64>,
    pub entropy: Option<f64>,
    pub clipped: Option<bool>,
}

impl Run {
    /// A trace by its number.
    pub fn trace(&self, number: u64) -> Result<Full, ViewError> {
        let traces = self.traces()?;
        if number >= traces.len() {
            return Err(ViewError::Missing(format!(
                "the run has no trace {number}; it has {}",
                match traces.len() {
                    0 => "none that can be read".to_owned(),
                    count => format!("0 to {}", count - 1),
                }
            )));
        }
        let mut found = Err("it is not there".to_owned());
        traces.lines(number..number + 1, |_, line| {
            found =
                line.map_err(|error| error.to_string()).and_then(|line| Ok((Brief::read(number, line)?, parse(line)?)));
            ControlFlow::Break(())
        });
        let (brief, record) =
            found.map_err(|why| ViewError::Missing(format!("trace {number} could not be read: {why}")))?;
        let part = self.part_of(brief.trace).map(|part: Part| part.to_string());
        Ok(self.full(brief, record, part))
    }

    /// Every trace of some numbers that can be read, one at a time, until `with` says to stop.
    pub fn fulls(&self, numbers: Range<u64>, mut with: impl FnMut(Full) -> ControlFlow<()>) -> Result<(), ViewError> {
        let mut now: Option<(Range<u64>, String)> = None;
        self.traces()?.lines(numbers, |number, line| {
            let Ok(line) = line else { return ControlFlow::Continue(()) };
            let (Ok(brief), Ok(record)) = (Brief::read(number, line), parse(line)) else {
                return ControlFlow::Continue(());
            };
            if now.as_ref().is_none_or(|(range, _)| !range.contains(&number)) {
                let part = self.part_of(number);
                now = part.and_then(|part| Some((self.range(&part).ok()?, part.to_string())));
            }
            with(self.full(brief, record, now.as_ref().map(|(_, part)| part.clone())))
        });
        Ok(())
    }

    fn full(&self, brief: Brief, record: Value, part: Option<String>) -> Full {
        let nodes: Vec<Node> = list(&record, "nodes").map(node).collect();
        let turn_records: Vec<TurnView> = list(&record, "turns").map(turn).collect();
        let mut messages: Vec<Message> =
            record.get("facts").into_iter().flat_map(|facts| list(facts, "messages")).map(message).collect();
        if messages.is_empty() {
            messages = nodes.iter().map(|node| self.as_message(node)).collect();
        }
        let agent = messages.iter_mut().filter(|message| message.role == "assistant");
        agent
            .enumerate()
            .for_each(|(turn, message)| message.turn = Some(turn).filter(|turn| *turn < turn_records.len()));
        let advantage = record
            .get("lesson")
            .and_then(|lesson| serde_json::from_value::<Advantage>(lesson.get("advantage")?.clone()).ok());
        let lengths = nodes.iter().filter(|node| node.origin == "sampled").map(|node| node.tokens.len());
        let advantages = advantage.as_ref().and_then(|advantage| advantage.per_token(lengths));
        let no_signal = match advantage {
            Some(Advantage::None { why }) => Some(no_signal(why).to_owned()),
            _ => None,
        };
        Full { brief, part, messages, turn_records, nodes, record, advantages, no_signal }
    }

    /// A node as a message, if the environment recorded no conversation.
    fn as_message(&self, node: &Node) -> Message {
        let role = match node.origin.as_str() {
            "sampled" => "assistant",
            "prompt" => "system",
            "observation" => "tool",
            other => other,
        };
        let content = self.tokenizer().and_then(|tokenizer| tokenizer.decode(&node.tokens).ok());
        let content = content
            .unwrap_or_else(|| format!("{} tokens; the run has no tokenizer to read them with", node.tokens.len()));
        Message { role: role.to_owned(), content, reasoning: None, calls: Vec::new(), name: None, turn: None }
    }

    /// Every token of a trace, with why it was trained or not.
    pub fn tokens(&self, full: &Full) -> Vec<Token> {
        let lesson = full.record.get("lesson");
        let learner = lesson.map(|lesson| floats(lesson, "logprobs")).unwrap_or_default();
        let entropies = lesson.map(|lesson| floats(lesson, "entropies")).unwrap_or_default();
        let fates: Vec<char> =
            lesson.and_then(|lesson| lesson.get("fates")?.as_str()).unwrap_or_default().chars().collect();
        let untold = full.untrained();
        let texts = self.texts(full.nodes.iter().flat_map(|node| &node.tokens).copied());
        let (mut tokens, mut sampled) = (Vec::new(), 0);
        for (number, node) in full.nodes.iter().enumerate() {
            for (offset, id) in node.tokens.iter().enumerate() {
                let (text, special) = texts.get(tokens.len()).cloned().unwrap_or_default();
                let mut token = Token {
                    position: tokens.len(),
                    node: number,
                    origin: node.origin.clone(),
                    id: *id,
                    text,
                    special,
                    trained: false,
                    because: not_sampled(&node.origin).to_owned(),
                    logprob: node.logprobs.get(offset).copied(),
                    learner_logprob: None,
                    gap: None,
                    advantage: None,
                    entropy: None,
                    clipped: None,
                };
                if node.origin == "sampled" {
                    let fate = fates.get(sampled).and_then(|letter| Fate::from_letter(*letter));
                    token.learner_logprob = learner.get(sampled).copied();
                    token.gap = token.learner_logprob.zip(token.logprob).map(|(learner, sampler)| learner - sampler);
                    token.entropy = entropies.get(sampled).copied();
                    token.advantage = full.advantages.as_ref().and_then(|all| all.get(sampled)).copied();
                    token.trained = fate == Some(Fate::Trained);
                    token.clipped = fate.map(|fate| fate == Fate::Clipped);
                    token.because = fate.map_or_else(|| untold.clone(), |fate| words(fate).to_owned());
                    sampled += 1;
                }
                tokens.push(token);
            }
        }
        tokens
    }

    /// The text each id adds, and whether it is markup. A character made of several tokens is at the last of them.
    fn texts(&self, ids: impl Iterator<Item = u32>) -> Vec<(String, bool)> {
        let Some(tokenizer) = self.tokenizer() else { return ids.map(|id| (format!("#{id}"), false)).collect() };
        let mut stream = tokenizer.stream();
        ids.map(|id| {
            if tokenizer.is_added(id) {
                let _ = stream.push(id);
                return (tokenizer.id_to_token(id).unwrap_or_default(), true);
            }
            (stream.push(id), false)
        })
        .collect()
    }
}

impl Message {
    /// True if its text, reasoning or calls contain these words, in any case. A system prompt is not searched.
    pub fn has(&self, words: &str) -> bool {
        if self.role == "system" {
            return false;
        }
        let words = words.to_lowercase();
        let calls = self.calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
        let texts = [Some(self.content.clone()), self.reasoning.clone(), self.name.clone()];
        texts.into_iter().flatten().chain(calls).any(|text| text.to_lowercase().contains(&words))
    }
}

impl Full {
    /// Fates of the sampled tokens: how many were trained or not, and why, in order of first occurrence.
    pub fn fates(&self) -> Vec<(usize, bool, String)> {
        let letters = self.record.get("lesson").and_then(|lesson| lesson.get("fates")?.as_str()).unwrap_or_default();
        let mut letters = letters.chars();
        let mut told: Vec<(usize, bool, String)> = Vec::new();
        for _ in 0..self.brief.sampled {
            let fate = letters.next().and_then(Fate::from_letter);
            let why = fate.map_or_else(|| self.untrained(), |fate| words(fate).to_owned());
            match told.iter_mut().find(|(_, _, other)| *other == why) {
                Some((count, _, _)) => *count += 1,
                None => told.push((1, fate == Some(Fate::Trained), why)),
            }
        }
        told
    }

    /// Reason why tokens without a recorded fate were not trained.
    pub fn untrained(&self) -> String {
        let played = self.part.as_ref().is_some_and(|part| !part.starts_with("step-"));
        match &self.no_signal {
            Some(why) => format!("no signal: {why}"),
            None if self.brief.outcome == "fault" => format!("the episode broke: {}", self.brief.why),
            None if played => "an evaluation or a control is never trained on".to_owned(),
            None => "its training outcome is not recorded".to_owned(),
        }
    }
}

fn not_sampled(origin: &str) -> &'static str {
    match origin {
        "prompt" => "prompt: only what the policy sampled is trained",
        "observation" => "the environment's or the user's words",
        "forced" => "appended by Hone, not chosen by the policy",
        _ => "an origin this version does not know",
    }
}

fn words(fate: Fate) -> &'static str {
    match fate {
        Fate::Zero => "its advantage is 0",
        Fate::Trained => "its advantage reached the gradient",
        Fate::Masked => "an off-policy correction or a mask took it out",
        Fate::Clipped => "the clip set its gradient to zero",
        Fate::Skipped => "the optimizer step was not taken, or was taken back",
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn floats(value: &Value, key: &str) -> Vec<f64> {
    list(value, key).map(|number| number.as_f64().unwrap_or(f64::NAN)).collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn node(value: &Value) -> Node {
    let ids = list(value, "tokens").filter_map(|id| u32::try_from(id.as_u64()?).ok());
    Node {
        origin: text(value, "origin").unwrap_or_else(|| "unknown".to_owned()),
        tokens: ids.collect(),
        logprobs: floats(value, "logprobs"),
        sampling_logprobs: floats(value, "sampling_logprobs"),
        policy_steps: list(value, "versions").filter_map(|span| span.get(0)?.get("step")?.as_u64()).collect(),
    }
}

fn turn(value: &Value) -> TurnView {
    let failure = value.get("failure").filter(|failure| failure.is_object()).map(|failure| {
        let part = |key| text(failure, key).unwrap_or_default();
        let hint = Some(part("hint")).filter(|hint| !hint.is_empty()).map(|hint| format!(" ({hint})"));
        format!("{}: {}{}", part("kind"), part("message"), hint.unwrap_or_default())
    });
    let timings = value.get("timings").and_then(Value::as_object).into_iter().flatten();
    TurnView {
        calls: list(value, "calls").map(call).collect(),
        executed: value.get("executed").and_then(Value::as_u64).unwrap_or(0),
        failed: value.get("failed").and_then(Value::as_u64).unwrap_or(0),
        failure,
        repairs: list(value, "repairs").filter_map(|repair| repair.as_str().map(str::to_owned)).collect(),
        timings: timings.filter_map(|(who, seconds)| Some((who.clone(), seconds.as_f64()?))).collect(),
    }
}

fn call(value: &Value) -> Call {
    let function = value.get("function").unwrap_or(value);
    let arguments = function.get("arguments").cloned().unwrap_or_default();
    Call { name: text(function, "name").unwrap_or_default(), arguments }
}

fn message(value: &Value) -> Message {
    let content = match value.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let said = parts.iter().map(|part| text(part, "text").unwrap_or_else(|| "[image]".to_owned()));
            said.collect()
        }
        Some(other) => other.to_string(),
    };
    Message {
        role: text(value, "role").unwrap_or_else(|| "unknown".to_owned()),
        content,
        reasoning: text(value, "reasoning_content"),
        calls: list(value, "tool_calls").map(call).collect(),
        name: text(value, "name"),
        turn: None,
    }
}

impl Full {
    /// One key per turn: the calls it makes, or that it makes none. Turns of equal keys do the same thing.
    pub fn turn_keys(&self) -> Vec<String> {
        let key = |turn: &TurnView| {
            let names: Vec<&str> = turn.calls.iter().map(|call| call.name.as_str()).collect();
            match (&turn.failure, names.is_empty()) {
                (Some(_), _) => "\u{0}failure".to_owned(),
                (None, true) => "\u{0}reply".to_owned(),
                (None, false) => names.join("\u{0}"),
            }
        };
        self.turn_records.iter().map(key).collect()
    }

    /// The tools' names.
    pub fn tools(&self) -> Vec<&str> {
        list(&self.record, "tools")
            .filter_map(|tool| tool.get("function").unwrap_or(tool).get("name")?.as_str())
            .collect()
    }

    /// The messages of a turn: the agent's, and what answered it.
    pub fn turn_messages(&self, turn: usize) -> &[Message] {
        let Some(start) = self.messages.iter().position(|message| message.turn == Some(turn)) else { return &[] };
        let rest = &self.messages[start + 1..];
        let length = rest.iter().position(|message| message.role == "assistant").unwrap_or(rest.len());
        &self.messages[start..=start + length]
    }

    /// A turn in lines: calls with their arguments, the parse failure, words, answers.
    pub fn turn_lines(&self, turn: usize) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(record) = self.turn_records.get(turn) {
            lines.extend(record.calls.iter().map(|call| format!("→ {} {}", call.name, call.arguments)));
            lines.extend(record.failure.iter().map(|failure| format!("✗ {failure}")));
        }
        for message in self.turn_messages(turn) {
            let mark = if message.role == "assistant" { "" } else { "← " };
            if !message.content.is_empty() {
                lines.push(format!("{mark}{}", message.content));
            }
        }
        lines
    }
}
