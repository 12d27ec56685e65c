//! Server-sent events, as a streamable HTTP answer uses them: each event's data is one JSON-RPC message.

use serde_json::Value;

/// The response with this id among the events so far. An event that has not ended yet does not count.
pub(super) fn response(stream: &[u8], id: u64) -> Option<Value> {
    let text = String::from_utf8_lossy(stream).replace("\r\n", "\n");
    let (complete, _) = text.rsplit_once("\n\n")?;
    complete.split("\n\n").find_map(|event| {
        let data: Vec<&str> =
            event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect();
        let message: Value = serde_json::from_str(&data.join("\n")).ok()?;
        (message.get("id").and_then(Value::as_u64) == Some(id) && message.get("method").is_none()).then_some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_is_found_among_events() {
        let stream = b"event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\r\n\r\n\
            : comment\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":3,\"result\":{}}\n\n";
        assert!(response(stream, 3).is_some());
        assert!(response(stream, 4).is_none());
        assert!(response(&stream[..stream.len() - 1], 3).is_none(), "an event ends with an empty line");
        assert!(response(b"\xff\xfe\n\n", 3).is_none());
    }
}
