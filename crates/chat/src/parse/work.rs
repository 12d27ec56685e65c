//! Work counter for tests: bytes the parser reads, to show that no reply makes it read them too often.

/// Counts `bytes` as read. A no-op outside tests.
#[inline]
#[cfg_attr(not(test), expect(unused_variables, reason = "counted in tests only"))]
pub(super) fn spend(bytes: usize) {
    #[cfg(test)]
    tests::SPENT.with(|spent| spent.set(spent.get() + bytes));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::json;

    use crate::parse::{Format, Toolbox, parse};

    thread_local! {
        pub(super) static SPENT: Cell<usize> = const { Cell::new(0) };
    }

    /// Fragments that, repeated, make a careless parser start over at each of them.
    const FRAGMENTS: [&str; 46] = [
        "{",
        "[",
        "{\"",
        "[\"",
        "\"",
        "'",
        "{\"a\":",
        "[[{",
        "{'a':",
        "{\"name\":",
        "{\"name\": \"f\", \"arguments\": {",
        "{\"name\": \"f\", \"arguments\": \"",
        "{\"name\": \"f\"",
        "{\"name\" ",
        "<",
        "<tool_call>",
        "<tool_call>x",
        "<tool_call>{",
        "<tool_call>[\"</tool_call>",
        "\"</tool_call><tool_call>[\",",
        "<tool_call>{\"</tool_call>",
        "<tool_call>{'</tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<think></think>",
        "<tool_call></think>",
        "<function=",
        "<function=f>",
        "<tool_call><function=f><parameter=",
        "<tool_call><function=f><parameter=a>",
        "\n<parameter=a>",
        "<tool_call>f\n<arg_key>a</arg_key><arg_value>",
        "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f{\"",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"",
        "<|tool_call_begin|>f<|tool_call_argument_begin|>{\"",
        "<|channel|>commentary to=f<|message|>{\"",
        "<|start|>",
        "```json\n{\"name\": \"f\", \"arguments\":",
        "```python\nf(a=\"",
        "\nAction: f",
        "\nAction: f\nAction Input: {\"",
        "[f(a=\"",
        "f(a=[",
    ];

    #[test]
    fn no_reply_is_looked_at_too_often() {
        let tool = ToolSpec::new("f", "", json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        let tools = Toolbox::new(&ToolSet::new(vec![tool]).unwrap()).unwrap();
        let spent = |text: &str, format| {
            SPENT.with(|spent| spent.set(0));
            parse(text, &tools, format);
            SPENT.with(Cell::get)
        };
        for fragment in FRAGMENTS {
            let text = fragment.repeat(64 * 1024 / fragment.len());
            let ended = format!("{text}\"}}}}</tool_call><|im_end|>");
            for format in Format::ALL.into_iter().map(Some).chain([None]) {
                for text in [&text, &ended] {
                    let times = spent(text, format) as f64 / text.len() as f64;
                    assert!(times < 40.0, "{fragment:?} as {format:?}: every byte is looked at {times} times");
                }
            }
        }
    }
}
