//! Values between tags: Qwen3-Coder, GLM-4.5, MiniMax; Phi-4 beside them.

use crate::{PARIS, check};

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
fn minicpm5_without_the_blanks_of_its_tags() {
    let call =
        |function: &str, param: &str| format!("<{function}=\"weather\"><{param}=\"city\">Paris</param></function>");
    let repaired = format!("malformed_markup -> {PARIS} [header_junk]");
    check(
        "minicpm5",
        &[
            (&call("function name", "param name"), PARIS),
            (&call("functionname", "paramname"), &repaired),
            (&call("functionĠname", "paramĠname"), &repaired),
            (&call("functionĠname", "paramname"), &repaired),
            (&call("function name", "paramname"), &repaired),
        ],
    );
}
