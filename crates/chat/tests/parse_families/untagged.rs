//! Calls without markers: bare and fenced JSON, Python, ReAct.

use crate::{PARIS, check};

#[test]
fn llama3_json() {
    check(
        "llama3_json",
        &[
            (r#"{"type": "function", "name": "weather", "parameters": {"city": "Paris"}}"#, PARIS),
            (r#"{"name": "weather", "parameters": "{\"city\": \"Paris\"}"}<|eot_id|>"#, PARIS),
            (r#"<|python_tag|>weather.call(city="Paris")<|eom_id|>"#, PARIS),
            (r#"<|python_tag|>brave_search.call(query="x")<|eom_id|>"#, "unknown_tool"),
            (r#"<|python_tag|>weather(city="Paris")"#, PARIS),
            (r#"<|python_tag|>weather.call("Paris")<|eom_id|>"#, "malformed_markup"),
            (r#"<|python_tag|>{"name": "weather", "parameters": {"city": "Par"#, "truncated"),
            ("<|python_tag|>", "truncated"),
            (
                r#"{"name": "weather", "parameters": {"city": "Paris"}"#,
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (r#"{"name": "search", "parameters": {"query": "ab"#, "truncated"),
            (r#"{"name": "wea"#, "truncated"),
            (r#"{"name": "nope", "parameters": {}}"#, "unknown_tool"),
            (
                r#"{"name": "weather", "parameters": {"city": "Paris", "days": "3"}}"#,
                "wrong_type -> weather{\"city\":\"Paris\",\"days\":3} [coercion]",
            ),
            (
                r#"{"name": "weather", "parameters": {"city": "Paris"}}}<|eot_id|>"#,
                &format!("malformed_json -> {PARIS} [extra_closer]"),
            ),
            (
                r#"{"name": "weather", "parameters": {'city': 'Paris'}}<|eot_id|>"#,
                &format!("malformed_json -> {PARIS} [single_quotes]"),
            ),
            (
                r#"<function=weather>{"city": "Paris",}</function>"#,
                &format!("malformed_json -> {PARIS} [trailing_comma]"),
            ),
            (r#"<function=weather>{"city": "Paris"}"#, &format!("truncated -> {PARIS} [missing_closer]")),
            ("{\"name\": \"ping\", \"parameters\": {}}\n{\"name\": \"ping\", \"parameters\": {}}", "ping{} ping{}"),
            (r#"{"answer": 42}"#, r#"reply "{\"answer\": 42}""#),
            ("Use {braces} and [brackets].", "reply \"Use {braces} and [brackets].\""),
        ],
    );
}

#[test]
fn pythonic() {
    check(
        "pythonic",
        &[
            ("[weather(city='Paris'), ping()]", &format!("{PARIS} ping{{}}")),
            (
                "[event(title=\"x\", all_day=true, note=null, guests=['a', 'b'])]",
                "event{\"title\":\"x\",\"all_day\":true,\"note\":null,\"guests\":[\"a\",\"b\"]}",
            ),
            ("<|python_start|>[weather(city=\"Paris\")]<|python_end|><|eot|>", PARIS),
            ("Let me look.\n[weather(city=\"Paris\")]", &format!("{PARIS} + \"Let me look.\"")),
            ("weather(city=\"Paris\")\nping()", &format!("{PARIS} ping{{}}")),
            ("Let me look.\nweather(city=\"Paris\")", &format!("{PARIS} + \"Let me look.\"")),
            ("[\n  weather(\n    city=\"Paris\",\n  ),\n]", PARIS),
            ("[run(code=\"\"\"a\nb\"\"\")]", "run{\"code\":\"a\\nb\"}"),
            ("[run(code=\"print('<think>')\")]", "run{\"code\":\"print('<think>')\"}"),
            (
                "[search(query='x', limit=12345678901234567890123)]",
                "search{\"query\":\"x\",\"limit\":12345678901234567890123}",
            ),
            ("[weather(city=\"Paris\")", &format!("truncated -> {PARIS} [missing_closer]")),
            ("[weather(city=\"Paris\"", &format!("truncated -> {PARIS} [missing_closer]")),
            ("[weather(city=\"Paris\")<|eot|>", &format!("malformed_markup -> {PARIS} [missing_closer]")),
            ("[search(query=\"x\", limit=3", "truncated"),
            ("[weather(city=\"Par", "truncated"),
            ("[weather(", "truncated"),
            ("weather(city=\"Par", "truncated"),
            ("[weather(city=Paris)]", "malformed_markup"),
            ("[nope(a=1)]", "unknown_tool"),
            ("nope(a=1)", "unknown_tool"),
            ("[weather(town=\"Paris\")]", "missing_required"),
            ("[weather(city=\"Paris\", days='3')]", "wrong_type -> weather{\"city\":\"Paris\",\"days\":3} [coercion]"),
            (
                "You can call weather(city=\"Paris\") yourself.",
                "reply \"You can call weather(city=\\\"Paris\\\") yourself.\"",
            ),
            ("print(\"hello\")", "reply \"print(\\\"hello\\\")\""),
            ("<think>[ping()]</think>no", "reply \"no\""),
            ("maybe [ping()]</think>no", "reply \"no\""),
        ],
    );
}

#[test]
fn untagged_json() {
    let whole = r#"{"id": "x", "choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "ping", "arguments": "{}"}}]}}]}"#;
    for format in ["openai_json", "bare_json", "auto"] {
        check(
            format,
            &[
                (
                    r#"{"role": "assistant", "content": "Hm.", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Paris\"}"}}]}"#,
                    &format!("{PARIS} + \"Hm.\""),
                ),
                (
                    r#"{"tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}]}<|im_end|>"#,
                    PARIS,
                ),
                (r#"{"content": "Hi.", "tool_calls": []}"#, "reply \"Hi.\""),
                (r#"{"role": "assistant", "content": "Hi."}"#, "reply \"Hi.\""),
                (r#"{"tool_calls": [{"function": {"name": "nope", "arguments": "{}"}}]}"#, "unknown_tool"),
                (
                    r#"{"tool_calls": [{"function": {"name": "weather", "arguments": "{\"city\": \"Paris\"}"}}"#,
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                (r#"{"tool_calls": [{"function": {"name": "weather", "argu"#, "truncated"),
                (r#"{"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}"#, PARIS),
                (r#"{"function": {"name": "weather", "arguments": {"city": "Paris"}}}"#, PARIS),
                (r#"{"name": "weather", "arguments": {"city": "Paris"}}"#, PARIS),
                (r#"{"function": "weather", "arguments": {"city": "Paris"}}"#, PARIS),
                ("{\n  \"name\": \"weather\",\n  \"arguments\": {\n    \"city\": \"Paris\"\n  }\n}\n", PARIS),
                (r#"{"name": "nope", "arguments": {}}"#, "unknown_tool"),
                (r#"{"name": "weather", "arguments": {"city": "Par"#, "truncated"),
                (
                    r#"{"name": "weather", "arguments": {"city": "Paris"}"#,
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                (
                    r#"{"name": "weather", "arguments": {"city": "Paris"}}}"#,
                    &format!("malformed_json -> {PARIS} [extra_closer]"),
                ),
                (
                    "{'name': 'weather', 'arguments': {'city': 'Paris'}}",
                    &format!("malformed_json -> {PARIS} [single_quotes]"),
                ),
                (
                    r#"{name: "weather", arguments: {city: "Paris"}}"#,
                    &format!("malformed_json -> {PARIS} [unquoted_key]"),
                ),
                (r#"{"name": "Bob", "age": 3}"#, r#"reply "{\"name\": \"Bob\", \"age\": 3}""#),
                (r#"{"name": "Bob", "age": 3"#, r#"reply "{\"name\": \"Bob\", \"age\": 3""#),
                (
                    r#"{"answer": {"name": "ping", "arguments": {}}}"#,
                    r#"reply "{\"answer\": {\"name\": \"ping\", \"arguments\": {}}}""#,
                ),
                (r#"[1, 2, {"a": 3}]"#, r#"reply "[1, 2, {\"a\": 3}]""#),
                (r#"[{"title": "x"}, {"title": "y"}]"#, r#"reply "[{\"title\": \"x\"}, {\"title\": \"y\"}]""#),
                ("Sure: {\"name\": \"ping\", \"arguments\": {}} done", "ping{} + \"Sure:  done\""),
                ("{\"name\": \"ping\", \"arguments\": {}}\n{\"name\": \"ping\", \"arguments\": {}}", "ping{} ping{}"),
                (r#"{"tool": "weather", "input": {"city": "Paris"}}"#, PARIS),
                ("<think>{\"name\": \"ping\", \"arguments\": {}}</think>no", "reply \"no\""),
                ("{\"name\": \"ping\", \"arguments\": {}}</think>no", "reply \"no\""),
            ],
        );
    }
    check("openai_json", &[(whole, "ping{}")]);
    let big = r#"{"tool_calls": [{"function": {"name": "search", "arguments": {"query": "a", "limit": 11111111111111111111111}}}, {"function": {"name": "search", "arguments": {"query": "b", "limit": 22222222222222222222222}}}]}"#;
    check(
        "openai_json",
        &[(
            big,
            r#"search{"query":"a","limit":11111111111111111111111} search{"query":"b","limit":22222222222222222222222}"#,
        )],
    );
    // An unknown tool in prose, in a reply whose format is only guessed, is an example.
    check(
        "auto",
        &[(
            "Write {\"name\": \"demo\", \"arguments\": {}} there.",
            r#"reply "Write {\"name\": \"demo\", \"arguments\": {}} there.""#,
        )],
    );
}

#[test]
fn fences() {
    for format in ["fenced_json", "auto"] {
        check(
            format,
            &[
                (
                    "Sure:\n```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n```\nDone.",
                    &format!("{PARIS} + \"Sure:\\n\\nDone.\""),
                ),
                ("```\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n```", PARIS),
                (
                    "```json\n[{\"name\": \"ping\", \"arguments\": {}}, {\"name\": \"ping\", \"arguments\": {}}]\n```",
                    "ping{} ping{}",
                ),
                (
                    "```json\n{\"name\": \"ping\", \"arguments\": {}}\n```\n```json\n{\"name\": \"ping\", \"arguments\": {}}\n```",
                    "ping{} ping{}",
                ),
                ("```json\n{\"name\": \"run\", \"arguments\": {\"code\": \"```\"}}\n```", "run{\"code\":\"```\"}"),
                (
                    "```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n",
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                (
                    "```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\",}}\n```",
                    &format!("malformed_json -> {PARIS} [trailing_comma]"),
                ),
                ("```json\n{\"a\": 1}\n```", "reply \"```json\\n{\\\"a\\\": 1}\\n```\""),
                ("```json\n{\"name\": \"Bob\"}\n```", "reply \"```json\\n{\\\"name\\\": \\\"Bob\\\"}\\n```\""),
            ],
        );
    }
    for format in ["code_call", "auto"] {
        check(
            format,
            &[
                ("```python\nweather(city=\"Paris\")\n```", PARIS),
                ("Look:\n```tool_code\nweather(city=\"Paris\")\nping()\n```", &format!("{PARIS} ping{{}} + \"Look:\"")),
                ("```python\nweather(city=\"Par", "truncated"),
                ("```python\nweather(city=\"Paris\")\n", &format!("truncated -> {PARIS} [missing_closer]")),
                ("```python\nweather(\"Paris\")\n```", "malformed_markup"),
                ("```python\nprint(1)\n```", "reply \"```python\\nprint(1)\\n```\""),
            ],
        );
    }
}

#[test]
fn react() {
    for format in ["react", "auto"] {
        check(
            format,
            &[
                ("Thought: x\nAction: weather\nAction Input: {\"city\": \"Paris\"}", PARIS),
                ("Action: weather\nAction Input:\n```json\n{\"city\": \"Paris\"}\n```\nObservation:", PARIS),
                ("Thought: x\nAction: weather\nAction Input: {\n  \"city\": \"Paris\"\n}\n", PARIS),
                ("Action:\n```json\n{\"action\": \"weather\", \"action_input\": {\"city\": \"Paris\"}}\n```", PARIS),
                (
                    "Thought: done\nAction:\n```json\n{\"action\": \"Final Answer\", \"action_input\": \"It is 4.\"}\n```",
                    "reply \"It is 4.\"",
                ),
                ("Action: {\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}", PARIS),
                ("Action: ping\nAction Input: {}\nAction: ping\nAction Input: {}", "ping{} ping{}"),
                ("Action: ping", "ping{}"),
                ("Action: ping\nAction Input:\nObservation: pong", "ping{}"),
                ("Thought: I know.\nFinal Answer: It is\n4.", "reply \"It is\\n4.\""),
                ("Thought: x\nAction: nope\nAction Input: {}", "unknown_tool"),
                ("Thought: x\nAction: weather\nAction Input: {\"city\": \"Par", "truncated"),
                (
                    "Thought: x\nAction: weather\nAction Input: {\"city\": \"Paris\"",
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                ("Thought: x\nAction: weather\nAction Input:", "truncated"),
                ("Thought: x\nAction: weather\nAction In", "truncated"),
                ("Thought: x\nAction: weather", "truncated"),
                ("Thought: x\nAction: weather\nObservation:", "missing_required"),
                (
                    "Thought: x\nAction: weather\nAction Input: {'city': 'Paris'}\nObservation:",
                    &format!("malformed_json -> {PARIS} [single_quotes]"),
                ),
                (
                    "Thought: x\nAction: weather\nAction Input: {\"city\": \"Paris\"\nObservation: 22C",
                    &format!("malformed_json -> {PARIS} [missing_closer]"),
                ),
                ("Thought: x\nAction: weather\nAction Input: Paris\nObservation:", "malformed_json"),
                ("Thought: x\nAction: weather\nAction Input: \"Paris\"\nObservation:", "arguments_not_object"),
                ("Thought: x\nAction: weather(\"Paris\")", "malformed_markup"),
                ("Thought: x\nAction: weather(city=\"Par", "truncated"),
            ],
        );
    }
    check("react", &[("Action: take a walk", "truncated"), ("Just text.", "reply \"Just text.\"")]);
    check("auto", &[("Action: take a walk", "reply \"Action: take a walk\"")]);
}
