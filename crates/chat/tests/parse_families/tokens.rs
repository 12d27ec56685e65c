//! Calls after special tokens: Mistral, DeepSeek, Kimi-K2, Harmony.

use crate::{PARIS, check};

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
            // Superfluous closers are reported, not ignored.
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_end|><|tool_calls_section_end|>",
                "malformed_markup -> ping{} [extra_closer]",
            ),
            ("No.<|tool_calls_section_end|>", "malformed_markup"),
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
            // Only <|end|> ends reasoning.
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
