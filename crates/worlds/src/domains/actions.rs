//! Reference actions of a task: who makes them, and whether an episode made them.

use hone_trace::{Task, ToolCall};
use indexmap::IndexMap;
use serde_json::Value;

use super::Requestor;
use super::py::{self, ops};

/// The reference's calls with their requestor: tau2's actions in order, else the task's reference.
pub(super) fn reference(task: &Task) -> Vec<(Requestor, ToolCall)> {
    let actions = task.verifier.as_ref().and_then(|verifier| verifier.get("actions")?.as_array());
    match actions {
        Some(actions) => actions.iter().filter_map(|action| Some((by(action), call(action)?))).collect(),
        None => task.reference.iter().flatten().map(|call| (Requestor::Assistant, call.clone())).collect(),
    }
}

fn by(action: &Value) -> Requestor {
    let by = action.get("requestor").map(|by| serde_json::from_value(by.clone()));
    by.and_then(Result::ok).unwrap_or_default()
}

fn call(action: &Value) -> Option<ToolCall> {
    let arguments = action.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    Some(ToolCall::new(action.get("name")?.as_str()?, arguments))
}

/// Actions, each with whether some call made it, whoever made the call.
pub(super) fn made(calls: &[ToolCall], actions: &[Value]) -> IndexMap<String, bool> {
    let mut made = IndexMap::new();
    for (at, action) in actions.iter().enumerate() {
        let id = action.get("action_id").and_then(Value::as_str).map_or_else(|| format!("action {at}"), str::to_owned);
        // Two actions of one id are two conditions.
        let id = if made.contains_key(&id) { format!("{id} ({at})") } else { id };
        made.insert(id, calls.iter().any(|call| matches(action, call)));
    }
    made
}

/// tau2's comparison: by the arguments that the action selects, else by those of the call. A call without arguments
/// therefore matches every action of its name.
fn matches(action: &Value, call: &ToolCall) -> bool {
    if action.get("name").and_then(Value::as_str) != Some(&call.name) {
        return false;
    }
    let named = action.get("compare_args").and_then(Value::as_array);
    let compared = |name: &str| match named {
        Some(named) => named.iter().any(|own| own.as_str() == Some(name)),
        None => call.arguments.contains_key(name),
    };
    let of = |arguments: Option<&serde_json::Map<String, Value>>| {
        let arguments = arguments.into_iter().flatten().filter(|(name, _)| compared(name));
        py::Value::dict(arguments.map(|(name, value)| (name.as_str(), py::Value::from(value))))
    };
    ops::equal(&of(action.get("arguments").and_then(Value::as_object)), &of(Some(&call.arguments)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Upstream's answers, recorded from its `compare_with_tool_call`.
    #[test]
    fn calls_are_compared_as_tau2_compares_them() {
        let action = |compare: Value| json!({"action_id": "a", "name": "f", "arguments": {"x": 1, "y": "b"}, "compare_args": compare});
        let call = |name: &str, arguments: Value| ToolCall::new(name, arguments.as_object().unwrap().clone());
        for (compare, call, met) in [
            (Value::Null, call("f", json!({"x": 1, "y": "b"})), true),
            (Value::Null, call("f", json!({"x": 1.0, "y": "b"})), true),
            (Value::Null, call("f", json!({"x": 1})), true),
            (Value::Null, call("f", json!({})), true),
            (Value::Null, call("f", json!({"x": 2})), false),
            (Value::Null, call("f", json!({"x": 1, "z": 0})), false),
            (Value::Null, call("g", json!({"x": 1, "y": "b"})), false),
            (json!([]), call("f", json!({"x": 7})), true),
            (json!(["y"]), call("f", json!({"x": 7, "y": "b"})), true),
            (json!(["y"]), call("f", json!({"x": 7})), false),
            (json!(["z"]), call("f", json!({"x": 7})), true),
        ] {
            assert_eq!(made(std::slice::from_ref(&call), &[action(compare.clone())])["a"], met, "{compare} {call:?}");
        }
    }
}
