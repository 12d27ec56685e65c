//! Scripted policies of the triage environment: they take the first document, or escalate.

use std::sync::Arc;

use hone_trace::{Action, Content, Message, ToolCall, ToolSet};
use serde_json::{Map, Value, json};

use super::tools::SUBMIT;
use hone_arena::baseline::{Baseline, Script};

/// Baselines of both modes.
pub fn baselines() -> Vec<Arc<dyn Baseline>> {
    let scripts = [
        Script { name: "escalates every ticket", act: |_, said, _| submit(&escalation(&heard(said)), &[], 0.2, true) },
        Script { name: "takes the first article", act: |tools, said, _| first_article(tools, said) },
    ];
    scripts.into_iter().map(|script| Arc::new(script) as Arc<dyn Baseline>).collect()
}

/// Searches once for the ticket's own words if it can, reads the first hit, and submits its fix.
fn first_article(tools: &ToolSet, said: &[Message]) -> Action {
    let answers: Vec<String> = said
        .iter()
        .filter(|message| matches!(message, Message::Tool { .. }))
        .filter_map(Message::content)
        .map(Content::text)
        .collect();
    let ticket = heard(said);
    let searches = tools.get("search_kb").is_some();
    let last = answers.last().unwrap_or(&ticket);
    let id = answers.iter().chain([&ticket]).find_map(|text| article_id(text));
    match (searches, answers.len(), id) {
        (true, 0, _) => call("search_kb", json!({"query": ticket})),
        (true, 1, Some(id)) => call("get_article", json!({"article_id": id})),
        (_, _, Some(id)) => submit(&fix(last), &[id], 0.5, false),
        (_, _, None) => submit(&escalation(&ticket), &[], 0.5, true),
    }
}

/// The first user message.
fn heard(said: &[Message]) -> String {
    let first = said.iter().find(|message| matches!(message, Message::User { .. }));
    first.and_then(Message::content).map(Content::text).unwrap_or_default()
}

/// The first `KB-123` of a text.
fn article_id(text: &str) -> Option<String> {
    let at = text.find("KB-")?;
    let digits = text[at + 3..].bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| text[at..at + 3 + digits].to_owned())
}

/// The line that says what to do, or the whole text.
fn fix(text: &str) -> String {
    let after = ["Fix: ", "Resolution\n"].iter().find_map(|mark| text.split(mark).nth(1)).unwrap_or(text);
    after.lines().next().unwrap_or(after).trim_matches('"').to_owned()
}

/// The reply to a ticket without an answer.
fn escalation(ticket: &str) -> String {
    let area = ticket.split("Area:").nth(1).or_else(|| ticket.split('[').nth(1)).unwrap_or(ticket);
    let area = area.trim_start().split([',', '\n', ']']).next().unwrap_or_default();
    format!("No document covers this. Escalate to the {area} team.")
}

fn submit(resolution: &str, citations: &[String], confidence: f64, escalate: bool) -> Action {
    let answer = json!({
        "resolution": resolution, "citations": citations, "confidence": confidence, "escalate": escalate
    });
    call(SUBMIT, answer)
}

fn call(name: &str, arguments: Value) -> Action {
    let arguments = if let Value::Object(arguments) = arguments { arguments } else { Map::new() };
    Action::Calls(vec![ToolCall::new(name, arguments)])
}
