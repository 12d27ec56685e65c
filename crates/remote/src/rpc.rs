//! JSON-RPC 2.0, as far as MCP and OpenEnv use it.

use serde_json::Value;

use crate::supervise::Failure;

/// The result of a response, or its error as a failure. -32000 means that the server is full.
pub(crate) fn result(mut response: Value) -> Result<Value, Failure> {
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        let what = format!("{message} ({code})");
        return Err(if code == -32000 { Failure::busy(what) } else { Failure::refused(what) });
    }
    match response.get_mut("result") {
        Some(result) => Ok(result.take()),
        // The server does not speak the protocol: nothing was refused.
        None => Err(Failure::infrastructure("a response with neither a result nor an error")),
    }
}
