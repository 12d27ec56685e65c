//! OTLP's JSON: a trace per rollout, a span per turn and per tool call, with the GenAI conventions' names.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ExportError, each, failed, file};
use crate::run::{Full, Origin, Run};

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let path = into.join("traces.json");
    let written = file(&path, |out| {
        let resource = json!([attribute("service.name", json!("hone")), attribute("hone.run", json!(run.name))]);
        write!(out, "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":{resource}}},\"scopeSpans\":[{{\"scope\":{{\"name\":\"hone\"}},\"spans\":[")
            .map_err(failed(&path))?;
        let mut first = true;
        each(run, 0..u64::MAX, |full| {
            for span in spans(run, &full) {
                let comma = if std::mem::take(&mut first) { "" } else { "," };
                write!(out, "{comma}\n{span}").map_err(failed(&path))?;
            }
            Ok(())
        })?;
        writeln!(out, "]}}]}}]}}").map_err(failed(&path))
    })?;
    Ok(vec![written])
}

fn attribute(key: &str, value: Value) -> Value {
    let value = match value {
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": key, "value": value})
}

fn id(parts: &[&str], digits: usize) -> String {
    let digest = Sha256::digest(parts.join("\u{0}"));
    digest
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(digits)
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

/// No wall clock is recorded: a rollout starts at 0, and turns follow each other with their durations.
fn spans(run: &Run, full: &Full) -> Vec<Value> {
    let brief = &full.brief;
    let number = brief.trace.to_string();
    let trace = id(&[&run.name, &number], 32);
    let root = id(&[&run.name, &number, "root"], 16);
    let nanos = |seconds: f64| ((seconds.max(0.0) * 1e9) as u64).to_string();
    let mut spans = Vec::new();
    let mut at = 0.0;
    for (index, turn) in full.turn_records.iter().enumerate() {
        let took: f64 = turn.timings.iter().map(|(_, seconds)| seconds).sum();
        let sampler = turn.timings.iter().find(|(who, _)| who == "sampler").map_or(took, |(_, seconds)| *seconds);
        let span = id(&[&run.name, &number, "turn", &index.to_string()], 16);
        let tokens = full
            .nodes
            .iter()
            .filter(|node| node.origin.is(Origin::Sampled))
            .nth(index)
            .map_or(0, |node| node.tokens.len());
        let mut attributes = vec![
            attribute("gen_ai.operation.name", json!("chat")),
            attribute("gen_ai.provider.name", json!("hone")),
            attribute("gen_ai.usage.output_tokens", json!(tokens)),
        ];
        attributes.extend(turn.failure.iter().map(|failure| attribute("error.type", json!(failure))));
        spans.push(json!({
            "traceId": trace, "spanId": span, "parentSpanId": root, "name": "chat", "kind": 3,
            "startTimeUnixNano": nanos(at), "endTimeUnixNano": nanos(at + sampler), "attributes": attributes,
            "status": {"code": if turn.failure.is_some() { 2 } else { 0 }},
        }));
        for (place, call) in turn.calls.iter().enumerate() {
            let span = id(&[&run.name, &number, "call", &index.to_string(), &place.to_string()], 16);
            let attributes = [
                attribute("gen_ai.operation.name", json!("execute_tool")),
                attribute("gen_ai.tool.name", json!(call.name)),
                attribute("gen_ai.tool.call.arguments", call.arguments.clone()),
            ];
            spans.push(json!({
                "traceId": trace, "spanId": span, "parentSpanId": root,
                "name": format!("execute_tool {}", call.name), "kind": 1,
                "startTimeUnixNano": nanos(at + sampler), "endTimeUnixNano": nanos(at + took), "attributes": attributes,
            }));
        }
        at += took;
    }
    let mut attributes = vec![
        attribute("gen_ai.operation.name", json!("invoke_agent")),
        attribute("gen_ai.agent.name", json!(brief.env)),
        attribute("hone.task", json!(brief.task)),
        attribute("hone.trace", json!(brief.trace)),
        attribute("hone.outcome", json!(brief.outcome)),
        attribute("gen_ai.usage.output_tokens", json!(brief.sampled)),
    ];
    attributes.extend(full.part.iter().map(|part| attribute("hone.part", json!(part))));
    attributes.extend(
        brief
            .rewards
            .iter()
            .filter_map(|reward| Some(attribute(&format!("hone.reward.{}", reward.component), json!(reward.value?)))),
    );
    spans.push(json!({
        "traceId": trace, "spanId": root, "name": format!("invoke_agent {}", brief.env), "kind": 1,
        "startTimeUnixNano": "0", "endTimeUnixNano": nanos(at), "attributes": attributes,
        "status": {"code": if brief.is_broken() { 2 } else { 0 }},
    }));
    spans
}
