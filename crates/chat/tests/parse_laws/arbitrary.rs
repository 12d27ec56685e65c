//! Strategies: calls whose values look like markup, and fragments of every format.

use hone_trace::ToolCall;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Pieces that are markup in some format, and that a value may contain anyway.
const PIECES: [&str; 44] = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<function=put>",
    "</function>",
    "<parameter=text>",
    "</parameter>",
    "<arg_key>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|im_end|>",
    "<|call|>",
    "<|message|>",
    "<|channel|>",
    "<|python_tag|>",
    "<｜tool▁call▁end｜>",
    "<|tool_call_end|>",
    "</minimax:tool_call>",
    "</invoke>",
    "<|/tool_call|>",
    "```",
    "```json\n",
    "Action:",
    "\nAction Input:",
    "\nObservation:",
    "\n",
    "\r\n",
    "\t",
    "\"",
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "ü😀",
    " ",
    "null",
    "7",
    "\u{1}",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        2 => proptest::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => "[a-z ]{1,8}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn arguments()(
        text in proptest::option::of(text()),
        count in proptest::option::of(any::<i64>()),
        ratio in proptest::option::of(-1e9..1e9f64),
        flag in proptest::option::of(any::<bool>()),
        maybe in proptest::option::of(proptest::option::of(text())),
        list in proptest::option::of(proptest::collection::vec(value(), 0..3)),
        tree in proptest::option::of(proptest::collection::vec((text(), value()), 0..3)),
        any in proptest::option::of(value()),
    ) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| if let Some(value) = value { map.insert(key.to_owned(), value); };
        put("text", text.map(Value::from));
        put("count", count.map(Value::from));
        put("ratio", ratio.map(Value::from));
        put("flag", flag.map(Value::from));
        put("maybe", maybe.map(Value::from));
        put("list", list.map(Value::from));
        put("tree", tree.map(|members| Value::Object(members.into_iter().collect())));
        put("any", any);
        map
    }
}

pub(super) fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let call = prop_oneof![
        4 => arguments().prop_map(|arguments| ToolCall::new("put", arguments)),
        1 => Just(ToolCall::new("ping", Map::new())),
    ];
    proptest::collection::vec(call, 1..4)
}

/// Fragments of every format, of JSON, of Python, and noise.
pub(super) fn fragment() -> impl Strategy<Value = String> {
    const MARKUP: [&str; 40] = [
        "<tool_call>",
        "</tool_call>",
        "<tool_calls>",
        "</tool_calls>",
        "<function=put>",
        "<parameter=text>",
        "</parameter>",
        "</function>",
        "put\n",
        "<arg_key>text</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<minimax:tool_call>",
        "<invoke name=\"put\">",
        "<parameter name=\"text\">",
        "</invoke>",
        "</minimax:tool_call>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "function<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.put:0",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|start|>assistant",
        "<|channel|>commentary to=functions.put",
        "<|channel|>analysis",
        "<|message|>",
        "<|call|>",
        "<|end|>",
        "functools[",
        "<|tool_call|>",
        "<|python_tag|>",
        "\nAction: put",
        "\nAction Input: ",
        "\nFinal Answer:",
    ];
    const VALUES: [&str; 26] = [
        "{\"name\": \"put\", \"arguments\": {\"text\": \"x\"}}",
        "{\"name\": \"put\", \"arguments\": {",
        "\"text\": \"x\"",
        "{\"text\": \"x\"}",
        "{'text': 'x',}",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        ",",
        ":",
        "\\",
        "1e400",
        "-",
        "True",
        "put(",
        "text='x'",
        ")",
        "[put(text=\"x\")]",
        "{\"tool_calls\": [",
        "# c\n",
        "/*",
        "```json\n",
        "```",
    ];
    prop_oneof![
        3 => proptest::sample::select(&MARKUP[..]).prop_map(str::to_owned),
        3 => proptest::sample::select(&VALUES[..]).prop_map(str::to_owned),
        1 => text(),
        1 => any::<String>(),
    ]
}
