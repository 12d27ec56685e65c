//! Families of replies beyond the case file, judged by hand: what each format's models write, well and badly.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]
#![expect(clippy::too_many_lines, reason = "tables of cases read better in one piece")]

use hone_chat::parse::{Format, Parsed, Toolbox, parse};
use hone_trace::ToolSet;
use serde_json::{Value, json};

fn tools() -> Toolbox {
    let tool = |name: &str, properties: Value, required: Value| {
        json!({"type": "function", "function": {"name": name, "description": "", "parameters": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }}})
    };
    let set: ToolSet = serde_json::from_value(json!([
        tool(
            "weather",
            json!({"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer", "maximum": 14}}),
            json!(["city"])
        ),
        tool("search", json!({"query": {"type": "string"}, "limit": {"type": "integer"}, "filters": {"type": "object"}}), json!(["query"])),
        tool("run", json!({"code": {"type": "string"}, "timeout": {"type": "number"}}), json!(["code"])),
        tool(
            "event",
            json!({
                "title": {"type": "string"},
                "when": {"type": "object", "properties": {"start": {"type": "string"}}, "required": ["start"]},
                "guests": {"type": "array", "items": {"type": "string"}},
                "all_day": {"type": "boolean"},
                "note": {"type": ["string", "null"]},
                "level": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            }),
            json!(["title"])
        ),
        tool("ping", json!({}), json!([])),
        tool("my-tool", json!({"a-b": {"type": "string"}}), json!(["a-b"])),
    ]))
    .expect("tools");
    Toolbox::new(&set).expect("schemas")
}

/// The verdict in a line: `name{arguments}` per call, `reply`, or the kind of fault with what was repaired.
fn summary(parsed: &Parsed) -> String {
    let calls = |calls: &[hone_chat::parse::ParsedCall]| {
        calls.iter().map(|call| format!("{}{}", call.call.name, call.arguments_json())).collect::<Vec<_>>().join(" ")
    };
    match (&parsed.error, &parsed.repaired_calls) {
        (None, _) if parsed.calls.is_empty() => format!("reply {:?}", parsed.content),
        (None, _) if parsed.content.is_empty() => calls(&parsed.calls),
        (None, _) => format!("{} + {:?}", calls(&parsed.calls), parsed.content),
        (Some(failure), None) => failure.kind.to_string(),
        (Some(failure), Some(repaired)) => {
            let repairs = serde_json::to_value(&parsed.repairs).expect("repairs");
            let repairs: Vec<_> = repairs.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("{} -> {} [{}]", failure.kind, calls(repaired), repairs.join(" "))
        }
    }
}

#[track_caller]
fn check(format: &str, cases: &[(&str, &str)]) {
    let tools = tools();
    let format: Option<Format> = (format != "auto").then(|| format.parse().expect("a known format"));
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let seen = summary(&parse(text, &tools, format));
        if seen != *expected {
            wrong.push(format!("{text:?}\n   expected {expected}\n   seen     {seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

const PARIS: &str = r#"weather{"city":"Paris"}"#;

#[test]
fn hermes() {
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
            // Cut off: repaired only where nothing but closers is missing.
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
            // An end token after it: not cut off.
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
            // Broken JSON with one reading.
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
            // ... and with several or none.
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
            // Markup.
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
            // Shape and schema.
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
            // Reasoning.
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
            // The turn is over, the text is not.
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
            // Calls in another format than the one that is read.
            ("[TOOL_CALLS]ping{}", "malformed_markup"),
            ("Sure.\n<some_tool_call>ping</some_tool_call>", "malformed_markup"),
            ("<tool_call>{\"name\": \"ping\"}</tool_call><think>hm", "truncated"),
            ("<think>hm<|im_end|>", "truncated"),
            ("<think></think>\n\n<tool_call>{\"name\": \"ping\"}</tool_call>", "ping{}"),
            // Plain.
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

#[test]
fn qwen3_coder() {
    let run = |value: &str| {
        format!("<tool_call>\n<function=run>\n<parameter=code>{value}</parameter>\n</function>\n</tool_call>")
    };
    check(
        "qwen3_coder",
        &[
            (&run("\n    def f(x):\n        return 1\n"), r#"run{"code":"    def f(x):\n        return 1"}"#),
            (&run("\n\na\n\n"), r#"run{"code":"\na\n"}"#),
            (&run(" a "), r#"run{"code":" a "}"#),
            (&run("\n\n"), r#"run{"code":""}"#),
            (&run(""), r#"run{"code":""}"#),
            (&run("\n<b>&amp;</b> <tool_call> </function>\n"), r#"run{"code":"<b>&amp;</b> <tool_call> </function>"}"#),
            (&run("\n{\"a\": 1}\n"), r#"run{"code":"{\"a\": 1}"}"#),
            ("<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>", PARIS),
            ("<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>", PARIS),
            ("<tool_call>\n<function=ping>\n</function>\n<function=ping>\n</function>\n</tool_call>", "ping{} ping{}"),
            (
                "Hi\n<tool_call>\n<function=event>\n<parameter=title>\n7\n</parameter>\n<parameter=level>\n3\n</parameter>\n</function>\n</tool_call>",
                "event{\"title\":\"7\",\"level\":3} + \"Hi\"",
            ),
            (
                "<tool_call>\n<function=event>\n<parameter=title>\nx\n</parameter>\n<parameter=level>\nnull\n</parameter>\n<parameter=guests>\n[\"a\"]\n</parameter>\n</function>\n</tool_call>",
                "event{\"title\":\"x\",\"level\":null,\"guests\":[\"a\"]}",
            ),
            (
                "<tool_call>\n<function=search>\n<parameter=query>\nx\n</parameter>\n<parameter=limit>\n123456789012345678901\n</parameter>\n</function>\n</tool_call>",
                "search{\"query\":\"x\",\"limit\":123456789012345678901}",
            ),
            // Faults.
            (
                "<tool_call>\n<function=search>\n<parameter=query>\nx\n</parameter>\n<parameter=filters>\n{\"a\": 1\n</parameter>\n</function>\n</tool_call>",
                "malformed_json -> search{\"query\":\"x\",\"filters\":{\"a\":1}} [missing_closer]",
            ),
            (
                "<tool_call>\n<function=search>\n<parameter=query>\nx\n</parameter>\n<parameter=filters>\nnone\n</parameter>\n</function>\n</tool_call>",
                "wrong_type",
            ),
            ("<tool_call>\n<function=nope>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", "unknown_tool"),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=zip>\n1\n</parameter>\n</function>\n</tool_call>",
                "unexpected_argument",
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\na\n</parameter>\n<parameter=city>\nb\n</parameter>\n</function>\n</tool_call>",
                "malformed_markup",
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</function>\n</tool_call>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
                "malformed_markup -> weather{\"city\":\"Paris\",\"days\":3} [missing_closer]",
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</tool_call>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            // Closers forgotten on one line: a fault with one reading, never one long value.
            (
                "<tool_call><function=weather><parameter=city>Paris<parameter=days>3</parameter></function></tool_call>",
                "malformed_markup -> weather{\"city\":\"Paris\",\"days\":3} [missing_closer]",
            ),
            (
                "<tool_call><function=weather><parameter=city>Paris</tool_call>\n<tool_call><function=ping></function></tool_call>",
                &format!("malformed_markup -> {PARIS} ping{{}} [missing_closer]"),
            ),
            (
                "<tool_call><function=weather><parameter=city>Paris</parameter><function=ping></function></tool_call>",
                &format!("malformed_markup -> {PARIS} ping{{}} [missing_closer]"),
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n<tool_call>",
                &format!("malformed_markup -> {PARIS} [reopened_tag]"),
            ),
            ("<tool_call>\nweather\n</tool_call>", "malformed_markup"),
            ("<tool_call>\n<function=>\n</function>\n</tool_call>", "missing_name"),
            // Cut off.
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<tool_call>\n<function=weather>\n<parameter=city>\nParis\n", "truncated"),
            ("<tool_call>\n<function=weather>\n<parameter=ci", "truncated"),
            ("<tool_call>\n<function=wea", "truncated"),
            ("<tool_call>\n<func", "truncated"),
            ("<tool_call>\n<function=ping>\n", "truncated"),
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n<|im_end|>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            ("maybe <function=ping> hm</think>\n<tool_call>\n<function=ping>\n</function>\n</tool_call>", "ping{}"),
        ],
    );
}

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
fn mistral() {
    check(
        "mistral",
        &[
            (r#"[TOOL_CALLS]weather{"city": "Paris"}</s>"#, PARIS),
            (r#"[TOOL_CALLS]weather{"city": "Paris"}[TOOL_CALLS]ping{}</s>"#, &format!("{PARIS} ping{{}}")),
            (r#"[TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]ping[ARGS]{}</s>"#, &format!("{PARIS} ping{{}}")),
            (r#"[TOOL_CALLS] [{"name": "weather", "arguments": "{\"city\": \"Paris\"}"}]"#, PARIS),
            (r#"[TOOL_CALLS]{"name": "ping", "arguments": {}}"#, "ping{}"),
            (r#"[TOOL_CALLS][{"name": "ping"}] I will wait."#, "ping{} + \"I will wait.\""),
            (
                r#"[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}</s>"#,
                &format!("malformed_json -> {PARIS} [missing_closer]"),
            ),
            (
                r#"[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}"#,
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                r#"[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris",}}]</s>"#,
                &format!("malformed_json -> {PARIS} [trailing_comma]"),
            ),
            (r#"[TOOL_CALLS]weather[ARGS]{"city": "Paris""#, &format!("truncated -> {PARIS} [missing_closer]")),
            (
                r#"[TOOL_CALLS]weather[ARGS]{"city": 'Paris'}</s>"#,
                &format!("malformed_json -> {PARIS} [single_quotes]"),
            ),
            (r#"[TOOL_CALLS]weather[ARGS]["Paris"]</s>"#, "arguments_not_object"),
            ("[TOOL_CALLS]weather[AR", "truncated"),
            ("[TOOL_CALLS]weather", "truncated"),
            ("[TOOL_CALLS]", "truncated"),
            ("[TOOL_CALLS]weather</s>", "malformed_markup"),
            ("[TOOL_CALLS]nope[ARGS]{}</s>", "unknown_tool"),
            ("[TOOL_CALLS][]</s>", "malformed_json"),
            (r#"[{"name": "ping", "arguments": {}}]"#, r#"reply "[{\"name\": \"ping\", \"arguments\": {}}]""#),
            ("[THINK]use [TOOL_CALLS]ping{}[/THINK]no", "reply \"no\""),
            ("[THINK]never closed [TOOL_CALLS]ping{}", "truncated"),
            ("[TOOL_CALLS]ping{}[/TOOL_CALLS]", "ping{}"),
            ("No.[/TOOL_CALLS]", "malformed_markup"),
        ],
    );
}

#[test]
fn deepseek() {
    let v31 = |body: &str| format!("<｜tool▁calls▁begin｜>{body}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>");
    let call = |body: &str| format!("<｜tool▁call▁begin｜>{body}<｜tool▁call▁end｜>");
    let v3 = |name: &str, json: &str| call(&format!("function<｜tool▁sep｜>{name}\n```json\n{json}\n```"));
    for format in ["deepseek_v3", "deepseek_v31", "auto"] {
        check(
            format,
            &[
                (
                    &v31(&(v3("weather", r#"{"city": "Paris"}"#) + "\n" + &v3("ping", "{}"))),
                    &format!("{PARIS} ping{{}}"),
                ),
                // R1 drops the fence, or the line break before the arguments.
                (&v31(&call("function<｜tool▁sep｜>weather\n{\"city\": \"Paris\"}")), PARIS),
                (&v31(&call("function<｜tool▁sep｜>weather{\"city\": \"Paris\"}")), PARIS),
                (&v31(&call("function<｜tool▁sep｜>weather```json\n{\"city\": \"Paris\"}\n```")), PARIS),
                (&v31(&call("weather<｜tool▁sep｜>{\"city\": \"Paris\"}")), PARIS),
                (&v31(&v3("run", r#"{"code": "```py\nx\n```"}"#)), r#"run{"code":"```py\nx\n```"}"#),
                (&v31(&v3("nope", "{}")), "unknown_tool"),
                (&v31(&v3("weather", "{'city': 'Paris'}")), &format!("malformed_json -> {PARIS} [single_quotes]")),
                (
                    &v31(&call("weather<｜tool▁sep｜>{\"city\": \"Paris\"")),
                    &format!("malformed_json -> {PARIS} [missing_closer]"),
                ),
                (
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>",
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                (
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Paris\"}\n```",
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                (
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Par",
                    "truncated",
                ),
                ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>wea", "truncated"),
                (
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Paris\"",
                    &format!("truncated -> {PARIS} [missing_closer]"),
                ),
                ("<｜tool▁calls▁begin｜>", "truncated"),
                (
                    &format!("{}<｜end▁of▁sentence｜>", call("ping<｜tool▁sep｜>{}")),
                    "malformed_markup -> ping{} [missing_opener]",
                ),
                (&v31(&call("weather<｜tool▁sep｜>[1]")), "arguments_not_object"),
                (&v31(&call("weather")), "malformed_markup"),
                ("Hello<｜end▁of▁sentence｜>", "reply \"Hello\""),
            ],
        );
    }
}

#[test]
fn kimi_k2() {
    let section = |body: &str| format!("<|tool_calls_section_begin|>{body}<|tool_calls_section_end|><|im_end|>");
    let call =
        |id: &str, json: &str| format!("<|tool_call_begin|>{id}<|tool_call_argument_begin|>{json}<|tool_call_end|>");
    check(
        "kimi_k2",
        &[
            (&section(&call(" functions.weather:0 ", "{\"city\": \"Paris\"}")), PARIS),
            (&section(&call("weather", "{\"city\": \"Paris\"}")), PARIS),
            (
                &section(&call("functions.run:3", "{\"code\": \"<|tool_call_end|>\"}")),
                "run{\"code\":\"<|tool_call_end|>\"}",
            ),
            (&section(&call("functions.nope:0", "{}")), "unknown_tool"),
            (&section(&call("functions.weather:0", "{}")), "missing_required"),
            (&section(&call("functions.weather:0", "{\"city\": \"Par")), "malformed_json"),
            (&section(""), "malformed_markup"),
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Par",
                "truncated",
            ),
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|>",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<|tool_calls_section_begin|><|tool_call_begin|>functions.wea", "truncated"),
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|im_end|>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            ("I may open <|tool_calls_section_begin|> now</think>No.", "reply \"No.\""),
            // Closers too many are told, not passed over.
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_end|><|tool_calls_section_end|>",
                "malformed_markup -> ping{} [extra_closer]",
            ),
            ("No.<|tool_calls_section_end|>", "malformed_markup"),
        ],
    );
}

#[test]
fn glm45() {
    check(
        "glm45",
        &[
            ("<tool_call>ping\n</tool_call>", "ping{}"),
            ("<tool_call>ping</tool_call>", "ping{}"),
            ("<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>", PARIS),
            (
                "<tool_call>run\n<arg_key>code</arg_key>\n<arg_value>\n  a\n</arg_value>\n</tool_call>",
                "run{\"code\":\"\\n  a\\n\"}",
            ),
            (
                "<tool_call>event\n<arg_key>title</arg_key>\n<arg_value>x</arg_value>\n<arg_key>all_day</arg_key>\n<arg_value>true</arg_value>\n<arg_key>guests</arg_key>\n<arg_value>[\"a\"]</arg_value>\n</tool_call>",
                "event{\"title\":\"x\",\"all_day\":true,\"guests\":[\"a\"]}",
            ),
            ("<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>", "ping{}"),
            ("Hm.\n<tool_call>ping\n</tool_call>\nOk.", "ping{} + \"Hm.\\n\\nOk.\""),
            ("<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Par", "truncated"),
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<tool_call>weather\n<arg_key>city</arg_key>\n", "truncated"),
            ("<tool_call>weath", "truncated"),
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<|observation|>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris\n</tool_call>",
                "malformed_markup -> weather{\"city\":\"Paris\"} [missing_closer]",
            ),
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
                "malformed_markup -> weather{\"city\":\"Paris\",\"days\":3} [missing_closer]",
            ),
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<tool_call>ping\n</tool_call>",
                &format!("malformed_markup -> {PARIS} ping{{}} [missing_closer]"),
            ),
            ("<tool_call>weather\n<arg_value>Paris</arg_value>\n</tool_call>", "malformed_markup"),
            (
                "<tool_call>weather\n<arg_key>town</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
                "missing_required",
            ),
        ],
    );
}

#[test]
fn harmony() {
    let call =
        |args: &str| format!("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{args}<|call|>");
    check(
        "harmony",
        &[
            (&call("{\"city\": \"Paris\"}"), PARIS),
            (
                &format!("<|channel|>analysis<|message|>hm<|end|><|start|>assistant{}", call("{\"city\":\"Paris\"}")),
                PARIS,
            ),
            ("<|start|>assistant<|channel|>commentary to=functions.ping<|message|>{}<|call|>", "ping{}"),
            (
                "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}<|call|>",
                "ping{} + \"I will look.\"",
            ),
            (
                "<|channel|>commentary to=functions.ping json<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.ping json<|message|>{}<|call|>",
                "ping{} ping{}",
            ),
            ("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\"}", PARIS),
            ("<|channel|>final<|message|>It is 4.", "reply \"It is 4.\""),
            ("It is 4.<|return|>", "reply \"It is 4.\""),
            ("<|channel|>analysis<|message|>call to=functions.ping {} now", "truncated"),
            ("<|channel|>analysis<|message|>hm<|end|>", "reply \"\""),
            // The prompt ended in <|start|> or <|start|>assistant; the recipient may come first.
            (" to=functions.ping<|channel|>analysis <|constrain|>json<|message|>{}", "ping{}"),
            ("assistant to=functions.ping<|channel|>commentary json<|message|>{}<|call|>", "ping{}"),
            ("to=functions.ping<|message|>{}<|call|>", "ping{}"),
            // Reasoning ends at <|end|> alone.
            (
                "<|channel|>analysis<|message|>hm <|channel|>commentary to=functions.ping<|message|>{}<|call|>",
                "truncated",
            ),
            ("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Par", "truncated"),
            (
                "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\"",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<|channel|>commentary to=functions.wea", "truncated"),
            (&call("{\"city\": \"Paris\""), &format!("malformed_json -> {PARIS} [missing_closer]")),
            (&call("{'city': 'Paris'}"), &format!("malformed_json -> {PARIS} [single_quotes]")),
            (&call("[\"Paris\"]"), "arguments_not_object"),
            ("<|channel|>commentary to=python <|constrain|>code<|message|>print(1)<|call|>", "malformed_json"),
            ("<|channel|>commentary to=functions.nope <|constrain|>json<|message|>{}<|call|>", "unknown_tool"),
            (
                "<|channel|>commentary to=functions.ping json<|message|>{}<|call|><|start|>functions.ping to=assistant<|channel|>commentary<|message|>pong<|end|>",
                "ping{}",
            ),
            (
                "<|channel|>commentary to=functions.ping json<|message|>{}<|start|>assistant<|channel|>final<|message|>ok<|return|>",
                "malformed_markup -> ping{} [reopened_tag]",
            ),
        ],
    );
}

#[test]
fn minimax_and_phi4() {
    check(
        "minimax_m2",
        &[
            (
                "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n</minimax:tool_call>",
                PARIS,
            ),
            (
                "<minimax:tool_call>\n<invoke name=\"run\">\n<parameter name=\"code\">\n  a\n\n</parameter>\n</invoke>\n</minimax:tool_call>",
                "run{\"code\":\"  a\\n\"}",
            ),
            (
                "<minimax:tool_call>\n<invoke name=\"ping\">\n</invoke>\n</minimax:tool_call>\n<minimax:tool_call>\n<invoke name=\"ping\"></invoke>\n</minimax:tool_call>",
                "ping{} ping{}",
            ),
            (
                "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            (
                "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Paris</parameter>\n",
                &format!("truncated -> {PARIS} [missing_closer]"),
            ),
            ("<minimax:tool_call>\n<invoke name=\"wea", "truncated"),
            (
                "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Paris</invoke>\n</minimax:tool_call>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            ("<minimax:tool_call>\n</minimax:tool_call>", "malformed_markup"),
            (
                "<minimax:tool_call><invoke name=\"weather\"><parameter name=\"city\">Paris<parameter name=\"days\">3</parameter></invoke></minimax:tool_call>",
                "malformed_markup -> weather{\"city\":\"Paris\",\"days\":3} [missing_closer]",
            ),
            (
                "<minimax:tool_call><invoke name=\"weather\"><parameter name=\"city\">Paris</parameter></minimax:tool_call>",
                &format!("malformed_markup -> {PARIS} [missing_closer]"),
            ),
            (
                "<invoke name=\"weather\"><parameter name=\"city\">Paris</parameter></invoke>",
                &format!("malformed_markup -> {PARIS} [missing_opener]"),
            ),
            (
                "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"town\">Paris</parameter>\n</invoke>\n</minimax:tool_call>",
                "missing_required",
            ),
        ],
    );
    check(
        "minimax_m1",
        &[
            (
                "<think>x</think>\n<tool_calls>\n{\"name\": \"ping\", \"arguments\": {}}\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_calls>",
                &format!("ping{{}} {PARIS}"),
            ),
            ("<tool_calls>\n{\"name\": \"ping\", \"arguments\": {}}\n", "truncated -> ping{} [missing_closer]"),
            (
                "<tool_calls>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\",}}\n</tool_calls>",
                &format!("malformed_json -> {PARIS} [trailing_comma]"),
            ),
        ],
    );
    check(
        "phi4",
        &[
            (
                "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}]<|/tool_call|><|end|>",
                PARIS,
            ),
            ("functools[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}]", PARIS),
            ("<|tool_call|>[{\"name\": \"ping\"}]", "truncated -> ping{} [missing_closer]"),
            ("functools[{\"name\": \"weather\", \"arguments\": {\"city\": \"Par", "truncated"),
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
    // A tool nobody offers, in prose, in a reply whose format is only guessed, is an example.
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
