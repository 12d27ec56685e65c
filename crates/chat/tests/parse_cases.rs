//! The case file: every reply with the format it names, and with none named.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]

use std::collections::BTreeMap;

use hone_chat::parse::{Format, Parsed, ParsedCall, Toolbox, parse};
use hone_testdata::committed;
use hone_trace::ToolSet;
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(committed("parser_cases.jsonl")).expect("the case file");
    text.lines().map(|line| serde_json::from_str(line).expect("a case line")).collect()
}

fn toolbox(case: &Value) -> Toolbox {
    let tools: ToolSet = serde_json::from_value(case["tools"].clone()).expect("tools");
    Toolbox::new(&tools).expect("schemas")
}

fn calls_json(calls: &[ParsedCall]) -> Value {
    calls.iter().map(|call| json!({"name": call.call.name, "arguments": call.call.arguments})).collect()
}

/// Verdict on the reply, as the case file writes it.
fn verdict(parsed: &Parsed, expect: &Value) -> Value {
    let mut seen = match &parsed.error {
        None => json!({"calls": calls_json(&parsed.calls)}),
        Some(failure) => json!({"error_kind": failure.kind}),
    };
    if let Some(calls) = &parsed.repaired_calls {
        seen["repaired_calls"] = calls_json(calls);
    }
    if expect.get("content").is_some() {
        seen["content"] = parsed.content.clone().into();
    }
    if expect.get("reasoning").is_some() {
        seen["reasoning"] = parsed.reasoning.clone().into();
    }
    seen
}

#[test]
fn every_case() {
    let cases = cases();
    let mut failures = BTreeMap::new();
    for case in &cases {
        let tools = toolbox(case);
        let text = case["text"].as_str().expect("text");
        let named: Format = case["format"].as_str().expect("format").parse().expect("a known format");
        for format in [Some(named), None] {
            let parsed = parse(text, &tools, format);
            let seen = verdict(&parsed, &case["expect"]);
            if seen != case["expect"] {
                let key = format!("{} {}", case["id"], format.map_or("auto", Format::name));
                failures.insert(key, format!("{text:?}\n  expected {}\n  seen     {seen}", case["expect"]));
            }
            for call in parsed.calls.iter().chain(parsed.repaired_calls.iter().flatten()) {
                assert!(text.get(call.span.clone()).is_some(), "{}: a span outside the text", case["id"]);
            }
            if parsed.error.is_some() {
                assert!(parsed.calls.is_empty(), "{}: an error with calls", case["id"]);
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{failures:#?}", failures.len(), 2 * cases.len());
}

/// A truncated reply yields only calls of the whole reply, unaltered.
#[test]
fn every_prefix_of_every_case() {
    let cases = cases();
    for case in &cases {
        let tools = toolbox(case);
        let text = case["text"].as_str().expect("text");
        let named: Format = case["format"].as_str().expect("format").parse().expect("a known format");
        for format in [Some(named), None] {
            let whole = parse(text, &tools, format);
            for (end, _) in text.char_indices() {
                for call in parse(&text[..end], &tools, format).calls {
                    let mut known = whole.calls.iter().chain(whole.repaired_calls.iter().flatten());
                    let same = known.any(|known| known.call == call.call);
                    assert!(same || whole.error.is_some(), "{} {format:?} cut at {end}: {call:?}", case["id"]);
                }
            }
        }
    }
}
