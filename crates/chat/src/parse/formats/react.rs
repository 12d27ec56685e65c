//! ReAct: `Thought:`, `Action:`, `Action Input:` lines, or `Final Answer:`.
//!
//! Thoughts are reasoning. Text after `Observation:` comes from the environment; a model that writes it has made it up,
//! so it is neither call nor reply. The action may also be a JSON object (LangChain's structured chat, smolagents) or a
//! function call.

use hone_trace::{ParseFailureKind, ToolCall};
use serde_json::Value;

use super::{
    FormatEntry, Holds, Reply, Tag, Values, arguments_json, embedded, fenced_json, payload, pythonic, unmarked,
};
use crate::parse::{
    draft::{Draft, Fault, Reading},
    json::Json,
    python::Python,
    reply::MAX_CALLS,
    toolbox::Tool,
};

pub(in crate::parse) const ACTION: &str = "Action:";
pub(in crate::parse) const INPUT: &str = "Action Input:";
pub(in crate::parse) const FINAL: &str = "Final Answer:";
pub(in crate::parse) const THOUGHT: &str = "Thought:";
const OBSERVATION: &str = "Observation:";
const LABELS: [&str; 4] = ["\nAction:", "\nFinal Answer:", "\nThought:", "\nObservation:"];

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "react",
    models: "any, by prompt",
    summary: "Lines `Thought:`, `Action:`, `Action Input:`, `Final Answer:`.",
    markers: &[],
    claims: unmarked,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    reply.skip_reasoning();
    let mut next = first_label(reply);
    while let Some((label, at)) = next.take().or_else(|| next_label(reply)) {
        let start = at + LABELS[label].len() - 1;
        match label {
            0 => return actions(reply, at, start),
            1 => {
                reply.pos = start;
                reply.content = Some(reply.rest().trim().to_owned());
                reply.pos = reply.text.len();
                return;
            }
            2 => {
                reply.pos = start;
                next = next_label(reply);
                if let Some(thought) = reply.take_last_prose() {
                    reply.add_reasoning(thought);
                }
                if next.is_none() {
                    return;
                }
            }
            _ => {
                reply.ignored = Some(at..reply.text.len());
                reply.pos = reply.text.len();
                return;
            }
        }
    }
}

/// A label at the start of the text, without a line break before it.
fn first_label(reply: &Reply<'_>) -> Option<(usize, usize)> {
    let rest = reply.rest().trim_start();
    let label = LABELS.iter().position(|label| rest.starts_with(&label[1..]))?;
    Some((label, reply.text.len() - rest.len()))
}

/// The next label at the start of a line: which one, and where.
fn next_label(reply: &mut Reply<'_>) -> Option<(usize, usize)> {
    reply.seek(&LABELS).map(|(label, line_break)| (label, line_break + 1))
}

/// Consecutive actions; the first may start anywhere, the others follow directly.
fn actions(reply: &mut Reply<'_>, at: usize, start: usize) {
    let whole = reply.text;
    if let Some(found) = memchr::memmem::find(&whole.as_bytes()[start..], b"\nObservation:") {
        let observation = start + found;
        if !whole[observation + 1 + OBSERVATION.len()..].trim().is_empty() {
            reply.ignored = Some(observation + 1..whole.len());
        }
        reply.text = &whole[..observation];
        reply.ended = true;
    }
    let (mut at, mut start) = (at, start);
    loop {
        action(reply, at, start);
        let rest = reply.rest().trim_start();
        if !rest.starts_with(ACTION) || reply.drafts.len() > MAX_CALLS {
            break;
        }
        at = reply.text.len() - rest.len();
        start = at + ACTION.len();
    }
    let rest = reply.rest().trim_start();
    if !rest.is_empty() {
        reply.ignored = Some(reply.text.len() - rest.len()..whole.len());
    }
    reply.text = whole;
    reply.pos = whole.len();
}

fn action(reply: &mut Reply<'_>, at: usize, start: usize) {
    let text = reply.text;
    let body = text[start..].trim_start();
    let start = text.len() - body.len();
    if body.starts_with(fenced_json::FENCE) {
        let (_, inner) = fenced_json::head(text, start);
        if !final_answer(reply, inner) {
            payload::read(reply, at, inner, Holds::Call, &mut Tag::new(fenced_json::FENCE, &[]));
        }
    } else if body.starts_with(['{', '[']) {
        if !final_answer(reply, start) {
            embedded::marked(reply, at, start);
        }
    } else {
        named(reply, at, start);
    }
}

/// `{"action": "Final Answer", "action_input": "…"}` is a reply.
fn final_answer(reply: &mut Reply<'_>, start: usize) -> bool {
    let mut json = Json::new(reply.text, start);
    let Ok(fields) = json.fields() else { return false };
    let get = |key: &str| fields.iter().find(|field| field.key == key).map(|field| &field.value);
    if get("action").and_then(Value::as_str).map(str::trim) != Some(FINAL.trim_end_matches(':')) {
        return false;
    }
    reply.content = Some(match get("action_input") {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
        None => String::new(),
    });
    reply.pos = reply.text.len();
    true
}

/// `Action: name`, and its input on the next line.
fn named(reply: &mut Reply<'_>, at: usize, start: usize) {
    let text = reply.text;
    let line = text[start..].split('\n').next().unwrap_or_default();
    let name = line.trim();
    if name.contains('(') {
        return call_syntax(reply, at, start);
    }
    let after = start + line.len();
    let rest = text[after..].trim_start();
    if let Some(input) = rest.strip_prefix(INPUT) {
        return read_input(reply, at, name, text.len() - input.len());
    }
    reply.pos = after;
    // No input: a call if the tool takes none; otherwise truncated, unless something shows that it was meant.
    let needs_nothing = reply.tools.get(name).is_some_and(Tool::needs_nothing);
    if INPUT.starts_with(rest) && !reply.ended && !(needs_nothing && rest.is_empty()) {
        let fault = Fault::new(ParseFailureKind::Truncated, text.len(), "the text stops inside an action");
        reply.pos = text.len();
        reply.drafts.push(Draft::faulty(at..text.len(), fault));
    } else {
        reply.drafts.push(Draft::of_arguments(at..after, name, None, Value::Null, Vec::new()));
    }
}

fn call_syntax(reply: &mut Reply<'_>, at: usize, start: usize) {
    let mut python = Python::new(reply.text, start);
    match python.call() {
        Ok(mut call) => {
            call.start = at;
            reply.pos = call.end;
            reply.drafts.push(Draft::from_python(call));
        }
        Err(error) => pythonic::broken(reply, at, error),
    }
}

fn read_input(reply: &mut Reply<'_>, at: usize, name: &str, start: usize) {
    let text = reply.text;
    let body = text[start..].trim_start();
    let start = text.len() - body.len();
    let holds = Holds::Arguments { name, id: None };
    if body.starts_with(fenced_json::FENCE) {
        let (_, inner) = fenced_json::head(text, start);
        payload::read(reply, at, inner, holds, &mut Tag::new(fenced_json::FENCE, &[]));
    } else if body.is_empty() && !reply.ended {
        let fault = Fault::new(ParseFailureKind::Truncated, text.len(), "the text stops before the action's input");
        reply.pos = text.len();
        reply.drafts.push(Draft::faulty(at..text.len(), fault));
    } else if body.is_empty() || LABELS.iter().any(|label| body.starts_with(&label[1..])) {
        let reading = Reading { id: None, name: name.to_owned(), arguments: serde_json::Map::new(), wide: Vec::new() };
        reply.pos = start;
        reply.drafts.push(Draft::read(at..start, reading));
    } else {
        embedded::arguments(reply, at, start, name, None);
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> =
        calls.iter().map(|call| format!("{ACTION} {}\n{INPUT} {}", call.name, arguments_json(call))).collect();
    calls.join("\n")
}

fn guidance() -> String {
    format!(
        "To call a tool write a line \"{ACTION} NAME\" and a line \"{INPUT} \" with its arguments as a JSON object, then \
         stop. When no tool is needed write \"{FINAL} \" and the answer. Thoughts go into lines \"{THOUGHT} …\" before."
    )
}
