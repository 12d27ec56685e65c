//! Submission of a triage episode, `submit_resolution`: the input of the content components.
//!
//! Malformed JSON does not zero every content component. An unambiguous reply is read, and its score is multiplied by
//! [`LENIENT_FACTOR`]: a group of almost-right replies then still has a gradient.

use hone_trace::Verdict;
use serde_json::{Map, Value};

use super::lenient::{self, Reading};
use super::{Case, not_applicable, scored};

/// Factor on a content component if the reply had to be repaired.
const LENIENT_FACTOR: f64 = 0.8;

/// The tool whose arguments are the submission.
const TOOL: &str = "submit_resolution";

/// One answer to a ticket.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Submission {
    pub resolution: String,
    pub citations: Vec<String>,
    /// Confidence as stated: absent, or any number. The calibration component decides whether it is a valid confidence.
    pub confidence: Option<f64>,
    pub escalate: bool,
}

/// Reading of the submission.
#[derive(Debug, Clone, PartialEq)]
enum Read {
    Strict(Submission),
    Mended(Submission),
    Unparseable(String),
    /// The case has no text.
    Absent,
}

/// Scores the submission of a case with `measure`, whose value must be in [0, 1].
pub(super) fn on_submission(case: &Case, measure: impl FnOnce(&Submission) -> Verdict) -> Verdict {
    match read(case) {
        Read::Strict(submission) => measure(&submission),
        Read::Mended(submission) => match measure(&submission) {
            Verdict::Scored { value, why, .. } => {
                scored(value * LENIENT_FACTOR, format!("{why}; x {LENIENT_FACTOR}: the JSON needed repair"))
            }
            other => other,
        },
        // The policy's doing, so it is scored: it must not be a way to avoid a score.
        Read::Unparseable(why) => scored(0.0, format!("unparseable: {why}")),
        Read::Absent => not_applicable("the case has neither turns nor a completion to read a submission from"),
    }
}

/// The answer's text: the submission's resolution if the case has one, else the whole completion.
pub(super) fn on_text(case: &Case, from: Source, measure: impl FnOnce(&str) -> Verdict) -> Verdict {
    match from {
        Source::Resolution => on_submission(case, |submission| measure(&submission.resolution)),
        Source::Completion => match &case.completion {
            Some(text) => measure(text),
            None => not_applicable("the case has no completion text"),
        },
    }
}

/// Text that a component measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The whole completion, unchanged.
    #[default]
    Completion,
    /// The `resolution` of the submission.
    Resolution,
}

fn read(case: &Case) -> Read {
    let turns = case.turns.as_deref().unwrap_or_default();
    for turn in turns.iter().rev() {
        if let Some(call) = turn.calls.iter().rev().find(|call| call.name == TOOL) {
            return fields(&call.arguments, turn.repairs.is_empty());
        }
    }
    if let Some(failure) = turns.last().and_then(|turn| turn.failure.as_ref()) {
        return Read::Unparseable(failure.to_string());
    }
    match &case.completion {
        // The text of an episode's last reply is not a submission: it was never accepted.
        _ if case.turns.is_some() => Read::Unparseable(format!("no call of {TOOL} was made")),
        Some(text) => read_text(text),
        None => Read::Absent,
    }
}

fn read_text(text: &str) -> Read {
    let span = match spans(text).as_slice() {
        [] => text.trim(),
        [span] => span.body,
        several => return Read::Unparseable(format!("{} calls where one is expected", several.len())),
    };
    let (value, strict) = match lenient::read(span) {
        Reading::Strict(value) => (value, true),
        Reading::Lenient(value) => (value, false),
        Reading::Unreadable(why) => return Read::Unparseable(why),
    };
    match value.get("arguments").unwrap_or(&value) {
        Value::Object(arguments) => fields(arguments, strict),
        _ => Read::Unparseable("the arguments are not an object".into()),
    }
}

fn fields(arguments: &Map<String, Value>, strict: bool) -> Read {
    let Some(Value::String(resolution)) = arguments.get("resolution") else {
        return Read::Unparseable("the submission has no `resolution` text".into());
    };
    let citations = match arguments.get("citations") {
        Some(Value::Array(ids)) if ids.iter().all(Value::is_string) => {
            ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Read::Unparseable("`citations` must be a list of ids".into()),
    };
    let submission = Submission {
        resolution: resolution.clone(),
        citations,
        confidence: arguments.get("confidence").and_then(Value::as_f64),
        escalate: arguments.get("escalate").and_then(Value::as_bool).unwrap_or(false),
    };
    if strict { Read::Strict(submission) } else { Read::Mended(submission) }
}

/// A call span in a reply: `<tool_call>` to `</tool_call>`, or to the end if it is not closed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span<'a> {
    pub(super) body: &'a str,
    pub(super) closed: bool,
}

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// The call spans of a reply, excluding reasoning.
pub(super) fn spans(text: &str) -> Vec<Span<'_>> {
    let mut found = Vec::new();
    let mut rest = without_reasoning(text);
    while let Some(at) = rest.find(OPEN) {
        rest = &rest[at + OPEN.len()..];
        let (body, after, closed) = match rest.find(CLOSE) {
            Some(end) => (&rest[..end], &rest[end + CLOSE.len()..], true),
            None => (rest, "", false),
        };
        found.push(Span { body: body.trim(), closed });
        rest = after;
    }
    found
}

/// True when a reply has text outside its call spans and its reasoning.
pub(super) fn has_text_outside(text: &str) -> bool {
    let mut rest = without_reasoning(text);
    while let Some(at) = rest.find(OPEN) {
        if !rest[..at].trim().is_empty() {
            return true;
        }
        rest = rest[at..].find(CLOSE).map_or("", |end| &rest[at + end + CLOSE.len()..]);
    }
    !rest.trim().is_empty()
}

/// The reply after a leading `<think>…</think>`. Reasoning that never closes swallows the reply.
fn without_reasoning(text: &str) -> &str {
    match text.trim_start().strip_prefix("<think>") {
        None => text,
        Some(reasoning) => reasoning.find("</think>").map_or("", |end| &reasoning[end + "</think>".len()..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(completion: &str) -> Case {
        Case { completion: Some(completion.into()), ..Case::default() }
    }

    #[test]
    fn reads_strict_mended_and_bare_submissions() {
        let strict = r#"<think>a <tool_call> in thought</think>
<tool_call>{"name": "submit_resolution", "arguments": {"resolution": "x", "citations": ["KB-1"], "confidence": 0.5}}</tool_call>"#;
        let expected = Submission {
            resolution: "x".into(),
            citations: vec!["KB-1".into()],
            confidence: Some(0.5),
            escalate: false,
        };
        assert_eq!(read(&case(strict)), Read::Strict(expected));
        assert!(matches!(read(&case("{\"resolution\": \"a\nb\",}")), Read::Mended(s) if s.resolution == "a\nb"));
        assert!(matches!(read(&case("no idea")), Read::Unparseable(_)));
        assert!(matches!(read(&case("<think>{\"resolution\": \"x\"}")), Read::Unparseable(_)));
        assert_eq!(read(&Case::default()), Read::Absent);
    }

    #[test]
    fn mended_replies_earn_less_but_not_nothing() {
        let verdict = on_submission(&case("{\"resolution\": \"a\nb\"}"), |_| scored(1.0, "fine"));
        assert!(matches!(verdict, Verdict::Scored { value, .. } if value == LENIENT_FACTOR));
        let verdict = on_submission(&case("hm"), |_| scored(1.0, "fine"));
        assert!(matches!(verdict, Verdict::Scored { value: 0.0, why, .. } if why.starts_with("unparseable: ")));
    }
}
