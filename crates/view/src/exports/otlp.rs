//! OTLP's JSON: a trace per rollout, a span per turn and per tool call, with the GenAI conventions' names.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ExportError, each, failed, file};
use crate::run::{Call, Full, Origin, Run, TurnView};

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

/// Spans of one rollout: the agent's, and in it one per turn and per tool call. No wall clock is recorded: a rollout starts
/// at 0, and turns follow each other with their durations.
struct Spans<'a> {
    run: &'a str,
    number: String,
    trace: String,
    root: String,
}

fn spans(run: &Run, full: &Full) -> Vec<Value> {
    let number = full.brief.trace.to_string();
    let (trace, root) = (id(&[&run.name, &number], 32), id(&[&run.name, &number, "root"], 16));
    let of = Spans { run: &run.name, number, trace, root };
    let mut sampled = full.nodes.iter().filter(|node| node.origin.is(Origin::Sampled));
    let (mut spans, mut at) = (Vec::new(), 0.0);
    for (index, turn) in full.turn_records.iter().enumerate() {
        let seconds = |party: &str| turn.timings.iter().find(|(who, _)| who == party).map(|(_, seconds)| *seconds);
        let waited = seconds("room").unwrap_or(0.0);
        at += waited;
        let took = turn.timings.iter().map(|(_, seconds)| seconds).sum::<f64>() - waited;
        let sampler = seconds("sampler").unwrap_or(took);
        let tokens = sampled.next().map_or(0, |node| node.tokens.len());
        spans.push(of.turn(index, turn, tokens, [at, at + sampler]));
        let calls = turn.calls.iter().enumerate();
        spans.extend(calls.map(|(place, call)| of.call(index, place, call, [at + sampler, at + took])));
        at += took;
    }
    spans.push(of.agent(full, at));
    spans
}

fn nanos(seconds: f64) -> String {
    ((seconds.max(0.0) * 1e9) as u64).to_string()
}

impl Spans<'_> {
    fn turn(&self, index: usize, turn: &TurnView, tokens: usize, [start, end]: [f64; 2]) -> Value {
        let span = id(&[self.run, &self.number, "turn", &index.to_string()], 16);
        let mut attributes = vec![
            attribute("gen_ai.operation.name", json!("chat")),
            attribute("gen_ai.provider.name", json!("hone")),
            attribute("gen_ai.usage.output_tokens", json!(tokens)),
        ];
        attributes.extend(turn.failure.iter().map(|failure| attribute("error.type", json!(failure))));
        json!({
            "traceId": self.trace, "spanId": span, "parentSpanId": self.root, "name": "chat", "kind": 3,
            "startTimeUnixNano": nanos(start), "endTimeUnixNano": nanos(end), "attributes": attributes,
            "status": {"code": if turn.failure.is_some() { 2 } else { 0 }},
        })
    }

    fn call(&self, index: usize, place: usize, call: &Call, [start, end]: [f64; 2]) -> Value {
        let span = id(&[self.run, &self.number, "call", &index.to_string(), &place.to_string()], 16);
        let attributes = [
            attribute("gen_ai.operation.name", json!("execute_tool")),
            attribute("gen_ai.tool.name", json!(call.name)),
            attribute("gen_ai.tool.call.arguments", call.arguments.clone()),
        ];
        json!({
            "traceId": self.trace, "spanId": span, "parentSpanId": self.root,
            "name": format!("execute_tool {}", call.name), "kind": 1,
            "startTimeUnixNano": nanos(start), "endTimeUnixNano": nanos(end), "attributes": attributes,
        })
    }

    fn agent(&self, full: &Full, end: f64) -> Value {
        let brief = &full.brief;
        let mut attributes = vec![
            attribute("gen_ai.operation.name", json!("invoke_agent")),
            attribute("gen_ai.agent.name", json!(brief.env)),
            attribute("hone.task", json!(brief.task)),
            attribute("hone.trace", json!(brief.trace)),
            attribute("hone.outcome", json!(brief.outcome)),
            attribute("gen_ai.usage.output_tokens", json!(brief.sampled)),
        ];
        attributes.extend(full.part.iter().map(|part| attribute("hone.part", json!(part))));
        let scored = brief.rewards.iter().filter_map(|reward| Some((&reward.component, reward.value?)));
        attributes
            .extend(scored.map(|(component, value)| attribute(&format!("hone.reward.{component}"), json!(value))));
        json!({
            "traceId": self.trace, "spanId": self.root, "name": format!("invoke_agent {}", brief.env), "kind": 1,
            "startTimeUnixNano": "0", "endTimeUnixNano": nanos(end), "attributes": attributes,
            "status": {"code": if brief.is_broken() { 2 } else { 0 }},
        })
    }
}
