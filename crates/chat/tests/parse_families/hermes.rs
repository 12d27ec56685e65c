//! Hermes: JSON between tags.

use crate::{PARIS, check};

#[test]
fn well_formed_calls() {
    check(
        "hermes",
        &[
            ("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>", PARIS),
            ("Sure.\n<tool_call>{\"name\": \"ping\"}</tool_call>\nDone.", "ping{} + \"Sure.\\n\\nDone.\""),
            (r#"<tool_call>{"name": "weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>"#, PARIS),
            (r#"<tool_call>{"arguments": {"city": "Paris"}, "name": "weather"}</tool_call>"#, PARIS),
            (r#"<tool_call>[{"name": "ping", "arguments": {}}, {"name": "ping"}]</tool_call>"#, "ping{} ping{}"),
            (
                r#"<tool_call>{"name": "run", "arguments": {"code": "print('</tool_call> <think>')"}}</tool_call>"#,
                r#"run{"code":"print('</tool_call> <think>')"}"#,
            ),
            (
                r#"<tool_call>{"name": "run", "arguments": {"code": "x = '</think>'"}}</tool_call>"#,
                r#"run{"code":"x = '</think>'"}"#,
            ),
            (
                r#"<tool_call>{"name": "search", "arguments": {"query": "caf\u00e9 \ud83d\ude00 \"q\" \\d"}}</tool_call>"#,
                r#"search{"query":"café 😀 \"q\" \\d"}"#,
            ),
            (
                r#"<tool_call>{"name": "search", "arguments": {"query": "x", "limit": 123456789012345678901234567890}}</tool_call>"#,
                r#"search{"query":"x","limit":123456789012345678901234567890}"#,
            ),
            (
                r#"<tool_call>{"name": "search", "arguments": "{\"query\": \"x\", \"limit\": 123456789012345678901234567890}"}</tool_call>"#,
                r#"search{"query":"x","limit":123456789012345678901234567890}"#,
            ),
            (
                r#"<tool_call>{"name": "search", "arguments": {"query": "x", "limit": 3.0}}</tool_call>"#,
                r#"search{"query":"x","limit":3.0}"#,
            ),
        ],
    );
}

/// Cut off: repaired only if nothing but closers is missing.
#[test]
fn truncated_calls() {
    check(
        "hermes",
        &[
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_c",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\",", "truncated"),
            ("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par", "truncated"),
            ("<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"x\", \"limit\": 3", "truncated"),
            ("<tool_call>\n{'name': 'weather', 'arguments': {'city': 'Par", "truncated"),
            ("<tool_call>", "truncated"),
            ("<tool_call>\n{\"na", "truncated"),
            ("<tool_call>{\"name\": \"ping\"}</tool_call><tool_call>{\"name\"", "truncated"),
        ],
    );
}

/// The reply ended, so nothing was cut off.
#[test]
fn calls_without_a_closer_before_an_end_token() {
    check(
        "hermes",
        &[
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}<|im_end|>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}<|im_end|>",
                &format!("malformed_json -> {PARIS} [missing_closer]"),
            ),
            ("<tool_call>\n<|im_end|>", "malformed_json"),
            ("<tool_call></tool_call>", "malformed_json"),
            (
                "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"x\", \"limit\": 3<|im_end|>",
                "malformed_json -> search{\"query\":\"x\",\"limit\":3} [missing_closer]",
            ),
        ],
    );
}

#[test]
fn broken_json_with_one_reading() {
    check(
        "hermes",
        &[
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}\n</tool_call>",
                &format!("malformed_json -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>{'name': 'weather', 'arguments': {'city': 'Paris'}}</tool_call>",
                &format!("malformed_json -> {PARIS} [single_quotes]"),
            ),
            (
                "<tool_call>{\"name\": \"event\", \"arguments\": {\"title\": \"x\", \"all_day\": True, \"note\": None}}</tool_call>",
                "malformed_json -> event{\"title\":\"x\",\"all_day\":true,\"note\":null} [python_literal]",
            ),
            (
                "<tool_call>{name: \"weather\", arguments: {city: \"Paris\"}}</tool_call>",
                &format!("malformed_json -> {PARIS} [unquoted_key]"),
            ),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\" /* capital */}}</tool_call>",
                &format!("malformed_json -> {PARIS} [comment]"),
            ),
            (
                "<tool_call>\n```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n```\n</tool_call>",
                &format!("malformed_json -> {PARIS} [code_fence]"),
            ),
            (
                "<tool_call>{“name”: “weather”, “arguments”: {“city”: “Paris”}}</tool_call>",
                &format!("malformed_json -> {PARIS} [smart_quotes]"),
            ),
            (
                "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"\\d+\"}}</tool_call>",
                "malformed_json -> search{\"query\":\"\\\\d+\"} [invalid_escape]",
            ),
            (
                "<tool_call>{\"name\": \"ping\"}</tool_call>\n<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\",}}</tool_call>",
                &format!("malformed_json -> ping{{}} {PARIS} [trailing_comma]"),
            ),
        ],
    );
}

#[test]
fn broken_json_with_several_readings_or_none() {
    check(
        "hermes",
        &[
            (
                "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"say \"hi\" now\"}}</tool_call>",
                "malformed_json",
            ),
            (
                "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"a\", \"query\": \"b\"}}</tool_call>",
                "malformed_json",
            ),
            ("<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": NaN}}</tool_call>", "malformed_json"),
            ("<tool_call>weather(city=\"Paris\")</tool_call>", "malformed_json"),
            ("<tool_call>I do not know.</tool_call>", "malformed_json"),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}} please</tool_call>",
                "malformed_json",
            ),
            ("<tool_call>{\"name\": \"nope\", \"arguments\": {\"city\": \"Paris\",}}</tool_call>", "malformed_json"),
        ],
    );
}

#[test]
fn broken_markup() {
    check(
        "hermes",
        &[
            (
                "<tool_call>{\"name\": \"ping\"}\n<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call>",
                &format!("malformed_markup -> ping{{}} {PARIS} [reopened_tag]"),
            ),
            (
                "{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
                &format!("malformed_markup -> {PARIS} [missing_opener]"),
            ),
            ("<tool_call>{\"name\": \"ping\"}</tool_call></tool_call>", "malformed_markup -> ping{} [extra_closer]"),
            ("Text </tool_call> text", "malformed_markup"),
            ("<tool_call>{\"name\": \"ping\"}</function>", "malformed_markup -> ping{} [missing_closer]"),
            ("<tool_call>{\"name\": \"ping\"}\nI will wait.", "malformed_markup -> ping{} [missing_closer]"),
        ],
    );
}

#[test]
fn names_arguments_and_schemas() {
    check(
        "hermes",
        &[
            ("<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", "missing_name"),
            ("<tool_call>{\"name\": null, \"arguments\": []}</tool_call>", "missing_name"),
            ("<tool_call>{\"name\": \"weather\", \"arguments\": \"Paris\"}</tool_call>", "arguments_not_object"),
            ("<tool_call>{\"name\": \"nope\", \"arguments\": [1]}</tool_call>", "arguments_not_object"),
            ("<tool_call>{\"name\": \"nope\", \"arguments\": {}}</tool_call>", "unknown_tool"),
            ("<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>", "missing_required"),
            ("<tool_call>{\"name\": \"weather\"}</tool_call>", "missing_required"),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"town\": \"Paris\"}}</tool_call>",
                "missing_required",
            ),
            (
                "<tool_call>{\"name\": \"event\", \"arguments\": {\"title\": \"x\", \"when\": {}}}</tool_call>",
                "missing_required",
            ),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"x\": 1, \"days\": \"a\"}}</tool_call>",
                "unexpected_argument",
            ),
            ("<tool_call>{\"name\": \"weather\", \"city\": \"Paris\"}</tool_call>", "missing_required"),
            ("<tool_call>{\"name\": \"ping\", \"city\": \"Paris\"}</tool_call>", "unexpected_argument"),
            ("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": 5.5}}</tool_call>", "wrong_type"),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 15}}</tool_call>",
                "wrong_type",
            ),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": \"3\"}}</tool_call>",
                "wrong_type -> weather{\"city\":\"Paris\",\"days\":3} [coercion]",
            ),
            (
                "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": 75001,}}</tool_call>",
                "malformed_json -> weather{\"city\":\"75001\"} [trailing_comma coercion]",
            ),
            (
                "<tool_call>{\"name\": \"event\", \"arguments\": {\"title\": \"x\", \"guests\": \"[\\\"a\\\"]\"}}</tool_call>",
                "wrong_type -> event{\"title\":\"x\",\"guests\":[\"a\"]} [coercion]",
            ),
            // Judged on the first faulty call.
            ("<tool_call>{\"name\": \"nope\"}</tool_call><tool_call>{\"name\": \"pi", "unknown_tool"),
        ],
    );
}

#[test]
fn reasoning() {
    check(
        "hermes",
        &[
            ("<think>a</think>b<think>c</think><tool_call>{\"name\": \"ping\"}</tool_call>", "ping{} + \"b\""),
            ("<think>\n<tool_call>{\"name\": \"ping\"}</tool_call>\n</think>\nNo need.", "reply \"No need.\""),
            ("I could <tool_call>{\"name\": \"ping\"}</tool_call>.\n</think>\nNo need.", "reply \"No need.\""),
            ("I could <tool_call> but no.\n</think>\n<tool_call>{\"name\": \"ping\"}</tool_call>", "ping{}"),
            // Reasoning ends at its first closer: a second one neither takes back a call nor the text before it.
            (
                "<think>a <think>b</think> <tool_call>{\"name\": \"ping\"}</tool_call></think>ok",
                "ping{} + \"</think>ok\"",
            ),
            ("a</think>b</think><tool_call>{\"name\": \"ping\"}</tool_call>", "ping{} + \"b</think>\""),
            ("Hi. <think>a</think> <tool_call>{\"name\": \"ping\"}</tool_call>", "ping{} + \"Hi.\""),
            ("Hi. <think>a</think> there</think>.", "reply \"Hi.  there</think>.\""),
            ("<THINK><tool_call>{\"name\": \"ping\"}</tool_call></THINK>no", "reply \"no\""),
            ("<tool_call>{\"name\": \"ping\"}</tool_call><think>hm", "truncated"),
            ("<think>hm<|im_end|>", "truncated"),
            ("<think></think>\n\n<tool_call>{\"name\": \"ping\"}</tool_call>", "ping{}"),
        ],
    );
}

/// The turn is over, the text is not.
#[test]
fn text_after_the_end_of_the_turn() {
    check(
        "hermes",
        &[
            (
                "<tool_call>{\"name\": \"ping\"}</tool_call><|im_end|>\n<|im_start|>user\nAnd <tool_call>{\"name\": \"ping\"}</tool_call>",
                "malformed_markup -> ping{} [text_after_end]",
            ),
            ("Done.<|im_end|>\n<tool_call>{\"name\": \"ping\"}</tool_call>", "malformed_markup"),
            (
                "<tool_call>{\"name\": \"ping\"}</tool_call>\n<tool_response>\n<tool_call>{\"name\": \"ping\"}</tool_call>\n</tool_response>",
                "malformed_markup -> ping{} [text_after_end]",
            ),
            ("<tool_response><tool_call>{\"name\": \"ping\"}</tool_call></tool_response>", "malformed_markup"),
            (
                "<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"'<|im_end|>' + '<tool_response>'\"}}</tool_call>",
                "run{\"code\":\"'<|im_end|>' + '<tool_response>'\"}",
            ),
            ("<s>Two</s> Three items.", "reply \"Two</s> Three items.\""),
        ],
    );
}

#[test]
fn calls_in_other_formats() {
    check(
        "hermes",
        &[
            ("[TOOL_CALLS]ping{}", "malformed_markup"),
            ("Sure.\n<some_tool_call>ping</some_tool_call>", "malformed_markup"),
        ],
    );
}

#[test]
fn plain_replies() {
    check(
        "hermes",
        &[
            ("", "reply \"\""),
            ("<|im_end|>", "reply \"\""),
            (
                "```json\n{\"name\": \"ping\", \"arguments\": {}}\n```",
                "reply \"```json\\n{\\\"name\\\": \\\"ping\\\", \\\"arguments\\\": {}}\\n```\"",
            ),
            ("ping", "reply \"ping\""),
        ],
    );
}
