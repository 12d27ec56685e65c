//! Templates render as jinja2 on CPython renders them. Expected texts are from transformers 5.22; the whole comparison,
//! over real templates, is scripts/conformance_render.sh.

use hone_chat::template::{ChatTemplate, Clock, Excess, TemplateError, TemplateInput};
use hone_trace::Message;
use serde_json::{Map, Value, json};

use crate::support::tools;

fn try_render(source: &str, context: Value) -> Result<String, TemplateError> {
    let Value::Object(mut variables) = context else { panic!("the context is an object") };
    let messages = match variables.shift_remove("messages") {
        Some(Value::Array(messages)) => messages,
        _ => vec![json!({"role": "user", "content": "hi"})],
    };
    let tools = match variables.shift_remove("tools") {
        Some(Value::Array(tools)) => Some(tools),
        _ => None,
    };
    ChatTemplate::new(source)?.render(&TemplateInput {
        messages: &messages,
        tools: tools.as_deref(),
        documents: None,
        add_generation_prompt: true,
        variables: &variables,
        clock: Clock::parse("2024-02-29T15:04:05").unwrap(),
    })
}

fn render(source: &str, context: Value) -> String {
    try_render(source, context).unwrap()
}

#[track_caller]
fn check(source: &str, context: Value, expected: &str) {
    assert_eq!(render(source, context), expected, "{source}");
}

#[test]
fn a_transcript_has_messages_and_tools_and_no_generation_prompt() {
    let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ tools | length }} tools\n\
                  {% if add_generation_prompt %}assistant: {% endif %}";
    let said = [Message::system("Policy."), Message::assistant("Done.")];
    let text = ChatTemplate::new(source).unwrap().transcript(&said, &tools()).unwrap();
    assert_eq!(text, "system: Policy.\nassistant: Done.\n2 tools\n");
}

#[test]
fn difference_1_tojson_writes_as_json_dumps() {
    check(
        "{{ x | tojson }}",
        json!({"x": {"a": "<b> & 'c'", "d": [1, true, null]}}),
        r#"{"a": "<b> & 'c'", "d": [1, true, null]}"#,
    );
    check("{{ x | tojson }}", json!({"x": "é\u{2028}\u{1}\u{7f}\n"}), "\"é\u{2028}\\u0001\u{7f}\\n\"");
    check("{{ x | tojson(ensure_ascii=true) }}", json!({"x": "é😀\u{7f}"}), r#""\u00e9\ud83d\ude00\u007f""#);
    check(
        "{{ x | tojson(indent=2) }}",
        json!({"x": {"a": [1], "b": {}, "c": []}}),
        "{\n  \"a\": [\n    1\n  ],\n  \"b\": {},\n  \"c\": []\n}",
    );
    check("{{ x | tojson(separators=(',', ':')) }}", json!({"x": {"a": [1, 2]}}), r#"{"a":[1,2]}"#);
    check("{{ x | tojson(sort_keys=true) }}", json!({"x": {"b": 1, "a": 2, "B": 3}}), r#"{"B": 3, "a": 2, "b": 1}"#);
    assert!(try_render("{{ nothing | tojson }}", json!({})).is_err());
    assert!(try_render("{{ x.items() | tojson }}", json!({"x": {}})).is_err());
}

#[test]
fn difference_2_floats_print_as_python_prints_them() {
    let floats = json!({"x": [1.0, 1e-7, 1e16, -0.0, 1e22, 0.1, 123_456_789.125]});
    let expected = "[1.0, 1e-07, 1e+16, -0.0, 1e+22, 0.1, 123456789.125]";
    check("{{ x }}", floats.clone(), expected);
    check("{{ x | tojson }}", floats.clone(), expected);
    check("{{ x[1] }} {{ x[2] | string }} {{ 'a' ~ x[4] }} {{ x[2] is number }}", floats, "1e-07 1e+16 a1e+22 True");
}

#[test]
fn difference_3_lists_dicts_and_none_print_as_python_prints_them() {
    check("{{ x }}", json!({"x": ["object", "null", null, true]}), "['object', 'null', None, True]");
    check("{{ x }}", json!({"x": {"a": "it's", "b": {}}}), r#"{'a': "it's", 'b': {}}"#);
    check("{{ x }}|{{ x | string }}|{{ 'a' ~ y }}", json!({"x": null, "y": [1, "b"]}), "None|None|a[1, 'b']");
    check("{{ x | join('-') }} {{ x.items() }}", json!({"x": {"a": 1.0}}), "a dict_items([('a', 1.0)])");
    check("{{ y | join(', ') }}{{ missing }}", json!({"y": [1.0, null, ["a"]]}), "1.0, None, ['a']");
}

#[test]
fn difference_4_none_is_not_iterable() {
    check(
        "{{ tools is iterable }} {{ missing is iterable }} {{ 'a' is iterable }} {{ 3 is iterable }}",
        json!({}),
        "False True True False",
    );
    check(
        "{{ 'abc' is sequence }} {{ x is sequence }} {{ x.items() is sequence }} {{ none is sequence }}",
        json!({"x": {}}),
        "True True False False",
    );
    assert!(try_render("{% for x in tools %}{{ x }}{% endfor %}", json!({})).is_err());
    check("{% for x in missing %}{{ x }}{% endfor %}ok", json!({}), "ok");
    assert!(try_render("{{ tools | length }}", json!({})).is_err());
    check("{{ missing | length }}", json!({}), "0");
}

#[test]
fn difference_5_generation_blocks_are_scopes() {
    check("a{% generation %}b{% set x = 1 %}{{ x }}{% endgeneration %}c{{ x }}", json!({}), "ab1c");
    check("a \n{%- generation -%} b {%- endgeneration -%} \n c", json!({}), "abc");
}

#[test]
fn difference_6_now_is_frozen() {
    check("{{ strftime_now('%d %b %Y %H:%M') }}", json!({}), "29 Feb 2024 15:04");
}

#[test]
fn difference_7_python_methods() {
    let text = json!({"x": " a,b,c \u{1c}", "d": {"k": 1}});
    check("{{ x.strip() }}|{{ x.strip(' ') }}|{{ x.lstrip() | length }}", text.clone(), "a,b,c|a,b,c \u{1c}|7");
    check(
        "{{ x.split(',') }} {{ x.split(',', 1) }} {{ x.rsplit(',', maxsplit=1) }}",
        text.clone(),
        "[' a', 'b', 'c \\x1c'] [' a', 'b,c \\x1c'] [' a,b', 'c \\x1c']",
    );
    check("{{ 'a  b\tc'.split() }} {{ 'a b c'.split(none, 1) }}", text.clone(), "['a', 'b', 'c'] ['a', 'b c']");
    check(
        "{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ d.get('k') }} {{ d.get('z') }} {{ d.get('z', 2) }}",
        text.clone(),
        "True True 1 None 2",
    );
    check(
        "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %} {{ d.keys() | list }} {{ d.values() | list }}",
        text.clone(),
        "k=1 ['k'] [1]",
    );
    check(
        "{{ 'a-b'.partition('-') }} {{ 'xay'.removeprefix('x') }} {{ \"it's a\".title() }} {{ 'hELLO'.capitalize() }}",
        text.clone(),
        "('a', '-', 'b') ay It'S A Hello",
    );
    check("{{ 'a\r\nb\u{2028}c\n'.splitlines() }} {{ 'aaa'.replace('a', 'b', 2) }}", text, "['a', 'b', 'c'] bba");
    for mutation in ["{{ messages.append(1) }}", "{{ messages.pop() }}", "{{ messages[0].update({}) }}"] {
        assert!(try_render(mutation, json!({})).is_err(), "{mutation}");
    }
}

#[test]
fn difference_8_keys_keep_their_order() {
    check(
        "{{ x | tojson }} {{ x }}",
        json!({"x": {"z": 1, "a": {"y": 2, "b": 3}}}),
        r#"{"z": 1, "a": {"y": 2, "b": 3}} {'z': 1, 'a': {'y': 2, 'b': 3}}"#,
    );
    check("{{ x | dictsort }}", json!({"x": {"b": 1, "A": 2, "a": 3}}), "[('A', 2), ('a', 3), ('b', 1)]");
}

/// `serde_json/arbitrary_precision` anywhere in the tree makes numbers serialise as a private map and half of all
/// prompts differ. This fails when some dependency turns it on.
#[test]
fn difference_9_numbers_are_not_of_arbitrary_precision() {
    let number: serde_json::Number = serde_json::from_str("1.0000000000000000000000000001").unwrap();
    assert_eq!(
        number.to_string(),
        "1.0",
        "a dependency turns on serde_json's arbitrary_precision; find it with cargo tree -e features -i serde_json"
    );
    check(
        "{{ x }} {{ x | tojson }} {{ x + 1 }}",
        json!({"x": 18_446_744_073_709_551_615_u64}),
        "18446744073709551615 18446744073709551615 18446744073709551616",
    );
    check("{{ x }} {{ x is integer }} {{ x is number }}", json!({"x": true}), "True False True");
}

#[test]
fn methods_win_over_keys_of_their_name_and_subscripts_do_not() {
    let schema = json!({"p": {"items": {"type": "string"}, "keys": 1, "get": 2}});
    check(
        "{% for k, v in p.items() %}{{ k }} {% endfor %}{{ p['items'] }} {{ p.get('items').type }}",
        schema,
        "items keys get {'type': 'string'} string",
    );
}

#[test]
fn white_space_follows_trim_blocks_and_lstrip_blocks() {
    check("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", json!({}), "a\n  b\nc");
    check("a\r\nb\n\n", json!({}), "a\nb\n");
    check("  {%+ if true %}x{% endif %}", json!({}), "  x");
}

#[test]
fn filters_take_the_arguments_jinja2_takes() {
    check(
        "{{ 'aaa' | replace('a', 'b', 1) }} {{ x | default('d', boolean=true) }} {{ '' | default('e', true) }}",
        json!({"x": null}),
        "baa d e",
    );
    check("{{ none | trim }} {{ 3 | trim }} {{ missing | trim }}|{{ 'xaxx' | trim('x') }}", json!({}), "None 3 |a");
    check(
        "{{ x | map(attribute='a') | join(',') }} {{ x | selectattr('a', 'equalto', 1) | list | length }}",
        json!({"x": [{"a": 1}, {"a": 2}]}),
        "1,2 1",
    );
    check("{{ missing | items | list }} {{ x | items | list }}", json!({"x": {"a": 1}}), "[] [('a', 1)]");
    check("{{ x | safe }}", json!({"x": "<&>"}), "<&>");
}

#[test]
fn reasoning_goes_by_every_name() {
    let messages = json!([{"role": "assistant", "content": "a", "reasoning": "why"}]);
    check(
        "{{ messages[0].reasoning_content }} {{ messages[0].thinking }} {{ messages[0] }}",
        json!({"messages": messages}),
        "why why {'thinking': 'why', 'role': 'assistant', 'content': 'a', 'reasoning': 'why', 'reasoning_content': 'why'}",
    );
}

#[test]
fn errors_name_the_line_and_the_fix() {
    let unknown = try_render("a\nb\n{{ 'x' | shout }}", json!({})).unwrap_err();
    assert!(matches!(unknown, TemplateError::Unknown { line: Some(3), .. }), "{unknown:?}");
    assert!(unknown.to_string().contains("shout") && unknown.to_string().contains("line 3"), "{unknown}");
    let syntax = try_render("a\n{% if %}", json!({})).unwrap_err();
    assert!(matches!(syntax, TemplateError::Syntax { line: Some(2), .. }), "{syntax:?}");
    let refused = try_render("\n\n{{ raise_exception('no system role') }}", json!({})).unwrap_err();
    assert_eq!(refused, TemplateError::Refused { line: Some(3), message: "no system role".into() });
    let failed = try_render("{{ missing.attribute }}", json!({})).unwrap_err();
    assert!(matches!(failed, TemplateError::Failed { line: Some(1), .. }), "{failed:?}");
}

#[test]
fn hostile_templates_end() {
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
    assert!(matches!(try_render(loops, json!({})), Err(TemplateError::Endless { .. })));
    let recursion = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert!(try_render(recursion, json!({})).is_err());
    let nested = format!("{{{{ {}", "(".repeat(100_000));
    assert!(matches!(try_render(&nested, json!({})), Err(TemplateError::Syntax { .. })));
    let blocks = "{% if true %}".repeat(50_000);
    assert!(matches!(try_render(&blocks, json!({})), Err(TemplateError::Syntax { .. })));
}

/// A chain recurses once per link in the compiler, and strings that grow by themselves are not counted as steps.
#[test]
fn chains_and_strings_that_grow_end() {
    for (head, link, tail) in [
        ("{{ ", "not ", "1 }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ 1", "+1", " }}"),
        ("{{ 1", " and 1", " }}"),
        ("{{ ''", "~''", " }}"),
        ("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
    ] {
        // Answered or refused, but not aborted.
        let _ = try_render(&format!("{head}{}{tail}", link.repeat(20_000)), json!({}));
    }
    let grown = "{% set x = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' %}";
    for step in ["{% set x = x | replace('a', x) %}", "{% set x = x.replace('a', x) %}"] {
        let template = format!("{grown}{}{{{{ x | length }}}}", step.repeat(4));
        assert!(matches!(try_render(&template, json!({})), Err(TemplateError::Excessive { .. })), "{step}");
    }
    for wide in ["{{ '%1000000000d' | format(1) }}", "{{ '{:1000000000}'.format(1) }}"] {
        assert!(try_render(wide, json!({})).is_err(), "{wide}");
    }
    assert_eq!(try_render("{{ '%5d' | format(1) }}{{ 'aba'.replace('a', 'c', 1) }}", json!({})).unwrap(), "    1cba");
}

#[test]
fn values_nested_without_end_are_refused() {
    let mut deep = json!(1);
    for _ in 0..400 {
        deep = json!([deep]);
    }
    let mut fields = Map::new();
    fields.insert("role".into(), "user".into());
    fields.insert("content".into(), deep);
    let error = try_render("{{ messages | tojson }}", json!({"messages": [fields]})).unwrap_err();
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

/// Templates come from untrusted model directories: a runaway render ends with an error, never by killing the process.
#[test]
fn a_template_that_runs_away_is_stopped() {
    for source in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(x) %}{% for i in [1] %}{{ m(x) }}{% endfor %}{% endmacro %}{{ m(1) }}",
        "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}{% endcall %}{% endmacro %}{{ b() }}",
        "{% include 'chat_template' %}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n == n }}{{ n | tojson }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ [n] | length }}{{ n.n.n.n | string }}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson }}",
        "{% set n = namespace(x=[]) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x == n.x }}",
        "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% for j in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% for j in range(9999) %}{% set n.x = {'a': n.x} %}{% endfor %}{% endfor %}",
    ] {
        let outcome = try_render(source, json!({}));
        assert!(outcome.is_err() || outcome.is_ok_and(|text| text.len() < 1 << 20), "{source}");
    }
}

#[test]
fn a_prompt_without_end_is_refused() {
    let source = "{% for i in range(9999) %}{{ x }}{% endfor %}";
    let outcome = try_render(source, json!({"x": "x".repeat(1 << 16)}));
    assert!(matches!(outcome, Err(TemplateError::Excessive { excess: Excess::Built, .. })));
}

/// Steps that build more than they cost: each would fill the memory, or take hours, if only steps were counted.
#[test]
fn what_a_template_builds_is_bounded() {
    let ns = "{% set n = namespace(x='aaaaaaaaaaaaaaaa', l=[1], m=[]) %}";
    let forty = "{% for i in range(40) %}";
    let many = "{% for i in range(99999) %}";
    let end = "{% endfor %}{{ n.x | length }}{{ n.l | length }}";
    let big = "{% for i in range(19) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    for (name, source) in [
        ("tilde", format!("{ns}{forty}{{% set n.x = n.x ~ n.x %}}{end}")),
        ("plus", format!("{ns}{forty}{{% set n.x = n.x + n.x %}}{end}")),
        ("long chain", format!("{ns}{forty}{{% set n.x = n.x{} %}}{end}", " ~ n.x".repeat(1000))),
        (
            "capture",
            format!("{ns}{forty}{{% set y %}}{{{{ n.x }}}}{{{{ n.x }}}}{{% endset %}}{{% set n.x = y %}}{end}"),
        ),
        (
            "raw capture",
            format!("{ns}{{% set y %}}{many}{}{{% endfor %}}{{% endset %}}{{{{ y | length }}}}", "x".repeat(200_000)),
        ),
        (
            "macro",
            format!("{ns}{{% macro m(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{forty}{{% set n.x = m(n.x) %}}{end}"),
        ),
        (
            "filter block",
            format!(
                "{ns}{forty}{{% set n.x %}}{{% filter upper %}}{{{{ n.x ~ n.x }}}}{{% endfilter %}}{{% endset %}}{end}"
            ),
        ),
        ("product", format!("{ns}{forty}{{% set n.x = n.x * 64 %}}{end}")),
        ("constants", format!("{{{{ ({}'') | length }}}}", "'x' * 99999999 ~ ".repeat(200))),
        ("constant list", "{{ ([1] * 99999999) | length }}".to_owned()),
        ("kept strings", format!("{ns}{big}{many}{{% set n.m = n.m + [n.x ~ i] %}}{end}")),
        ("kept captures", format!("{ns}{big}{many}{{% set n.m = n.m + [n.x | upper] %}}{end}")),
        ("list", format!("{ns}{forty}{{% set n.l = n.l + n.l %}}{end}")),
        ("nested list", format!("{ns}{forty}{{% set n.l = [n.l, n.l] %}}{{% endfor %}}{{{{ n.l | tojson }}}}")),
        (
            "nested dict",
            format!("{ns}{forty}{{% set n.l = {{'a': n.l, 'b': n.l}} %}}{{% endfor %}}{{{{ n.l == n.l }}}}"),
        ),
        ("zip", format!("{ns}{forty}{{% set n.l = n.l | zip(n.l) | list %}}{{% endfor %}}{{{{ n.l == n.l }}}}")),
        ("map", format!("{ns}{forty}{{% set n.l = dict(a=n.l, b=n.l) %}}{{% endfor %}}{{{{ n.l | string }}}}")),
        ("deep", format!("{ns}{many}{{% set n.l = [n.l] %}}{{% endfor %}}")),
        ("own self", format!("{ns}{{% set n.l = [n] %}}{{{{ n == n }}}}")),
        ("compared", format!("{ns}{big}{many}{many}{{% if n.x ~ 'a' in n.x %}}{{% endif %}}{{% endfor %}}{end}")),
        ("characters", format!("{ns}{big}{{% for c in n.x %}}{{% endfor %}}")),
        ("character list", format!("{ns}{big}{{{{ n.x | list | length }}}}")),
        ("split", format!("{ns}{big}{{{{ n.x.split('a') | length }}}}")),
        ("indent", "{{ 'a\nb' | indent(9999999999) }}".to_owned()),
        ("indent lines", format!("{ns}{{{{ ('a\n' * 99999) | indent(99999) | length }}}}")),
        ("batch", "{{ [1] | batch(99999999999, 0) | list | length }}".to_owned()),
        ("slice", "{{ [1] | slice(99999999999, 0) | list | length }}".to_owned()),
        ("sum", "{{ (([[1]] * 999999) | sum(start=[])) | length }}".to_owned()),
        ("separators", format!("{ns}{big}{{{{ range(99999) | list | tojson(separators=(n.x, n.x)) | length }}}}")),
        ("json indent", format!("{ns}{big}{{{{ [[[[range(99999) | list]]]] | tojson(indent=n.x) | length }}}}")),
        ("join", format!("{ns}{big}{{{{ (range(99999) | list) | join(n.x) | length }}}}")),
        (
            "join method",
            format!(
                "{ns}{big}{{{{ n.x.join('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz' | list) | length }}}}"
            ),
        ),
        ("joined", format!("{ns}{big}{{{{ ''.join([n.x] * 9999) | length }}}}")),
        ("self", "{% include 'chat_template' %}".to_owned()),
        ("extends", "{% extends 'chat_template' %}".to_owned()),
    ] {
        let before = std::time::Instant::now();
        let outcome = try_render(&source, json!({}));
        let took = before.elapsed().as_secs();
        assert!(outcome.is_err(), "{name}: {} bytes", outcome.map_or(0, |text| text.len()));
        assert!(took < 60, "{name}: {took} s");
    }
}

/// The bounds are far beyond what real templates need.
#[test]
fn what_templates_do_stays_within_bounds() {
    let messages: Vec<_> =
        (0..1000).map(|at| json!({"role": "user", "content": format!("{at} ").repeat(500)})).collect();
    let source = "{% set n = namespace(text='', seen=[]) %}{% for m in messages %}{% set n.text = n.text ~ loop.index ~ ' ' %}\
                  {% set n.seen = n.seen + [m] %}{% set tail = messages[loop.index:] %}{{ m.content | trim ~ ('-' * 3) }}\
                  {{ tail | length }}{% endfor %}{{ n.text | length }}{{ n.seen | length }}";
    let text = try_render(source, json!({"messages": messages})).unwrap();
    assert!(text.len() > 1_900_000 && text.ends_with("38931000"), "{}", &text[text.len() - 20..]);
}

/// Expected values were read off jinja2 3.1.
#[test]
fn indent_and_pprint_and_products() {
    let source = "{{ 'a\n\nb\n' | indent(2) }}|{{ 'a\n\nb' | indent(2, true, true) }}|{{ 'a\nb' | indent(width='> ', first=true) }}|\
                  {{ 2 * 3 }}{{ 'ab' * 2 }}{{ 2 * 1.5 }}{{ ([1] * 2) | length }}{{ 2 ** 3 * 2 }}{{ [[1], [2]] | sum(start=[]) | length }}{{ [1, 2] | sum }}";
    assert_eq!(try_render(source, json!({})).unwrap(), "a\n\n  b\n|  a\n  \n  b|> a\n> b|6abab3.021623");
}
