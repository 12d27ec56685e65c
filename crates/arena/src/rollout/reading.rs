//! From sampled ids to an action: decode, parse, and decide which calls run.

use std::collections::BTreeMap;

use hone_chat::Tokenizer;
use hone_chat::parse::{Parsed, ParsedCall, Place, Repair, Toolbox, parse, places};
use hone_trace::{Action, Content, Message, ParseFailure, ParseFailureKind, ToolCall};

use super::settings::{CallMode, OnRepair, RolloutSettings};

/// Reading of a reply, and the consequence.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) action: Action,
    /// Every call the reply makes, those that will not run included.
    pub(super) calls: Vec<ToolCall>,
    /// The tokens of their arguments, see [`hone_trace::TurnRecord`].
    pub(super) arguments: Vec<BTreeMap<String, (usize, usize)>>,
    pub(super) failure: Option<ParseFailure>,
    pub(super) repairs: Vec<String>,
    /// Number of sampled ids that stay in the record.
    pub(super) keep: usize,
    /// The reply as text, for scorers and viewers.
    pub(super) message: Message,
}

pub(super) fn read(ids: &[u32], tokenizer: &Tokenizer, tools: &Toolbox, settings: &RolloutSettings) -> Reading {
    let (text, ends) = decode(ids, tokenizer);
    let Parsed { calls, content, reasoning, error, repaired_calls, repairs, .. } = parse(&text, tools, settings.format);
    let repaired = match &error {
        // A truncated call is never run, even if only a closing tag is missing.
        Some(failure) if failure.kind == ParseFailureKind::Truncated => None,
        Some(_) if settings.repair == OnRepair::Run => repaired_calls,
        _ => None,
    };
    let repairs = if repaired.is_some() { repairs.iter().copied().filter_map(name).collect() } else { Vec::new() };
    let runnable = if error.is_none() { calls } else { repaired.unwrap_or_default() };
    let calls: Vec<ToolCall> = runnable.iter().map(|parsed| parsed.call.clone()).collect();
    let keep = kept(&runnable, &ends, settings.calls);
    let arguments = arguments(places(&text, &runnable, tools), &ends[..keep]);
    let action = match (&error, calls.is_empty()) {
        (_, false) if settings.calls == CallMode::First => Action::Calls(calls[..1].to_vec()),
        (_, false) => Action::Calls(calls.clone()),
        (Some(failure), true) => Action::Malformed(failure.clone()),
        (None, true) => Action::Reply(content.clone()),
    };
    let message = Message::Assistant {
        content: Some(Content::Text(if error.is_some() { text } else { content })),
        reasoning,
        tool_calls: if let Action::Calls(calls) = &action { calls.clone() } else { Vec::new() },
    };
    Reading { action, calls, arguments, failure: error, repairs, keep, message }
}

/// Name of a repair, as recorded.
fn name(repair: Repair) -> Option<String> {
    serde_json::to_value(repair).ok()?.as_str().map(str::to_owned)
}

/// The text of the ids, and its length after each of them.
fn decode(ids: &[u32], tokenizer: &Tokenizer) -> (String, Vec<usize>) {
    let mut decoder = tokenizer.stream();
    let mut text = String::new();
    let mut ends = Vec::with_capacity(ids.len());
    for &id in ids {
        text.push_str(&decoder.push(id));
        ends.push(text.len());
    }
    text.push_str(&decoder.finish());
    if let Some(last) = ends.last_mut() {
        *last = text.len();
    }
    (text, ends)
}

/// Number of ids to keep: up to the end of the first of several calls with first-call-only, otherwise all.
fn kept(calls: &[ParsedCall], ends: &[usize], mode: CallMode) -> usize {
    match calls {
        [first, _, ..] if mode == CallMode::First => {
            ends.iter().position(|&end| end >= first.span.end).map_or(ends.len(), |last| last + 1)
        }
        _ => ends.len(),
    }
}

/// Tokens of every argument within the ids that are kept; empty if none are known.
fn arguments(calls: Vec<Vec<Place>>, ends: &[usize]) -> Vec<BTreeMap<String, (usize, usize)>> {
    let of_call = |places: Vec<Place>| {
        places.into_iter().filter_map(|place| Some((place.argument.clone(), tokens(&place, ends)?))).collect()
    };
    let calls: Vec<BTreeMap<_, _>> = calls.into_iter().map(of_call).collect();
    if calls.iter().all(BTreeMap::is_empty) { Vec::new() } else { calls }
}

/// Tokens that overlap a value or contain what ends it.
fn tokens(place: &Place, ends: &[usize]) -> Option<(usize, usize)> {
    let mut start = ends.partition_point(|&end| end <= place.value.start);
    let last = ends.partition_point(|&end| end < place.end);
    // The first tokens of a multi-token character decode to nothing; the decoder emits it with the last.
    while start > 0 && ends[start - 1] == start.checked_sub(2).map_or(0, |before| ends[before]) {
        start -= 1;
    }
    (start <= last && last < ends.len()).then_some((start, last + 1))
}

#[cfg(test)]
mod tests {
    use hone_chat::parse::Format;
    use hone_chat::train_tokenizer;
    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::{Value, json};

    use super::*;

    fn tools() -> Toolbox {
        let properties = json!({"resolution": {"type": "string"}, "confidence": {"type": "number"}, "escalate": {"type": "boolean"}});
        let submit = ToolSpec::new("submit", "", json!({"type": "object", "properties": properties}));
        Toolbox::new(&ToolSet::new(vec![submit]).unwrap()).unwrap()
    }

    fn tokenizer() -> Tokenizer {
        let text = "{\"name\": \"submit\", \"arguments\": {\"resolution\": \"Restart it.\", \"confidence\": 0.95, \"escalate\": false}}";
        let directory = tempfile::tempdir().unwrap();
        train_tokenizer([text.repeat(20)], 400, &[]).unwrap().write(directory.path()).unwrap();
        Tokenizer::from_file(&directory.path().join("tokenizer.json")).unwrap()
    }

    /// Ids of a reply that submits this confidence, and their reading.
    fn submitted(format: Format, confidence: &Value, tokenizer: &Tokenizer) -> (Vec<u32>, Reading) {
        let arguments = json!({"resolution": "confidence: 0.5, ö", "confidence": confidence, "escalate": false});
        let call = ToolCall::new("submit", arguments.as_object().cloned().unwrap());
        let text = format.render_calls(&[call], &tools()).unwrap();
        let ids = tokenizer.encode(&text).unwrap();
        let settings = RolloutSettings { format: Some(format), ..RolloutSettings::default() };
        let reading = read(&ids, tokenizer, &tools(), &settings);
        (ids, reading)
    }

    /// Choice between two confidences falls inside the tokens of both, in every format: `0` by the token that ends it.
    #[test]
    fn the_token_that_decides_a_value_is_among_its_tokens() {
        let tokenizer = tokenizer();
        let values = [json!(0), json!(0.9), json!(0.95), json!(1), json!(1.0), json!(0.05)];
        for format in Format::ALL {
            for (one, other) in values.iter().flat_map(|one| values.iter().map(move |other| (one, other))) {
                let ((ids, reading), (others, other_reading)) =
                    (submitted(format, one, &tokenizer), submitted(format, other, &tokenizer));
                let Some(decides) = ids.iter().zip(&others).position(|(a, b)| a != b) else { continue };
                for reading in [&reading, &other_reading] {
                    let (start, end) = reading.arguments[0]["confidence"];
                    assert!(
                        (start..end).contains(&decides),
                        "{format}: {one} and {other} part at {decides}, not in {start}..{end}"
                    );
                }
            }
        }
    }

    #[test]
    fn tokens_of_a_value_are_its_own_and_what_ends_it() {
        let tokenizer = tokenizer();
        for format in Format::ALL {
            let (ids, reading) = submitted(format, &json!(0.25), &tokenizer);
            let text = |(start, end): (usize, usize)| tokenizer.decode(&ids[start..end]).unwrap();
            assert_eq!(reading.arguments.len(), 1, "{format}");
            let said = text(reading.arguments[0]["confidence"]);
            assert!(said.contains("0.25") && said.len() <= 12 && !said.contains("0.5"), "{format}: {said:?}");
            assert!(text(reading.arguments[0]["resolution"]).contains("confidence: 0.5, ö"), "{format}");
        }
    }

    #[test]
    fn what_cannot_be_found_has_no_tokens() {
        let tokenizer = tokenizer();
        for reply in [
            "",
            "confidence: 0.5",
            "<tool_call>\n{\"name\": \"submit\", \"arguments\": {\"confidence\": 0.5, \"confidence\": 0.6}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"submit\", \"arguments\": {\"confidence\": \"high\"}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"submit\", \"arguments\": {\"confidence\": 0.5",
        ] {
            let ids = tokenizer.encode(reply).unwrap();
            let reading = read(&ids, &tokenizer, &tools(), &RolloutSettings::default());
            assert_eq!(reading.arguments, Vec::new(), "{reply}");
        }
    }
}
