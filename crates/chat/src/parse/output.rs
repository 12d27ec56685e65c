//! The JSON of a parsed reply, as `hone parse` prints it and scripts rely on it.

use serde::Serialize;
use serde_json::Value;

use super::{Parsed, ParsedCall, explain::Attempt};

impl Parsed {
    /// One JSON object on one line. `id` and `explained` are included if given.
    ///
    /// Written by hand, because arguments may hold integers that `serde_json::Value` cannot: they appear with every
    /// digit the model wrote.
    pub fn to_json(&self, id: Option<&Value>, explained: Option<&[Attempt]>) -> String {
        let mut out = String::from("{");
        if let Some(id) = id {
            member(&mut out, "id", &json(id));
        }
        member(&mut out, "calls", &calls(&self.calls));
        member(&mut out, "content", &json(&self.content));
        member(&mut out, "reasoning", &json(&self.reasoning));
        member(&mut out, "format", &json(&self.format));
        if let Some(error) = &self.error {
            member(&mut out, "error", &json(error));
        }
        if let Some(repaired) = &self.repaired_calls {
            member(&mut out, "repaired_calls", &calls(repaired));
            member(&mut out, "repairs", &json(&self.repairs));
        }
        let ids: Vec<_> = self.calls.iter().map(|call| &call.call.id).collect();
        if ids.iter().any(|id| id.is_some()) {
            member(&mut out, "call_ids", &json(&ids));
        }
        if let Some(ignored) = &self.ignored {
            member(&mut out, "ignored", &json(&[ignored.start, ignored.end]));
        }
        if let Some(attempts) = explained {
            member(&mut out, "explain", &json(attempts));
        }
        out.push('}');
        out
    }
}

fn member(out: &mut String, key: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(key);
    out.push_str("\":");
    out.push_str(value);
}

fn calls(calls: &[ParsedCall]) -> String {
    let calls: Vec<_> = calls
        .iter()
        .map(|call| format!("{{\"name\":{},\"arguments\":{}}}", json(&call.call.name), call.arguments_json()))
        .collect();
    format!("[{}]", calls.join(","))
}

#[expect(clippy::expect_used, reason = "strings, numbers and string-keyed structs always have a JSON form")]
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings, numbers and string-keyed structs have a JSON form")
}

#[cfg(test)]
mod tests {
    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::json;

    use crate::parse::{Format, Toolbox, parse};

    #[test]
    fn the_documented_shape() {
        let tool = ToolSpec::new("f", "", json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
        let tools = Toolbox::new(&ToolSet::new(vec![tool]).unwrap()).unwrap();
        let show = |text| parse(text, &tools, Some(Format::Hermes)).to_json(None, None);
        assert_eq!(
            show(r#"<tool_call>{"name": "f", "arguments": {"a": 98765432109876543210987}}</tool_call>"#),
            r#"{"calls":[{"name":"f","arguments":{"a":98765432109876543210987}}],"content":"","reasoning":null,"format":"hermes"}"#
        );
        let broken: serde_json::Value =
            serde_json::from_str(&show(r#"<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>"#)).unwrap();
        assert_eq!(broken["error"]["kind"], "malformed_json");
        assert_eq!(broken["error"]["at"], 46);
        assert_eq!(broken["calls"], json!([]));
        assert_eq!(broken["repaired_calls"], json!([{"name": "f", "arguments": {"a": 1}}]));
        assert_eq!(broken["repairs"], json!(["trailing_comma"]));
    }
}
