//! Laws of the parser: what is rendered parses back to itself; no text makes it panic; nothing in reasoning runs.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]

use hone_chat::parse::{Format, Toolbox, parse, places};
use hone_trace::{ToolCall, ToolSet};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn tools() -> Toolbox {
    let set: ToolSet = serde_json::from_value(json!([
        {"name": "put", "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "flag": {"type": "boolean"},
                "maybe": {"type": ["string", "null"]},
                "list": {"type": "array"},
                "tree": {"type": "object"},
                "any": {},
            },
            "additionalProperties": false,
        }},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ]))
    .expect("tools");
    Toolbox::new(&set).expect("schemas")
}

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

fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let call = prop_oneof![
        4 => arguments().prop_map(|arguments| ToolCall::new("put", arguments)),
        1 => Just(ToolCall::new("ping", Map::new())),
    ];
    proptest::collection::vec(call, 1..4)
}

/// Markup of the formats that write values raw.
const MARKUP: [&str; 12] = [
    "</parameter>",
    "</function>",
    "</arg_value>",
    "<parameter",
    "<arg_key>",
    "</invoke>",
    "</tool_call>",
    "</tool_calls>",
    "</function_calls>",
    "</minimax:tool_call>",
    "</seed:tool_call>",
    "</atem:function_calls>",
];

/// True if a value's raw text could be mistaken for markup, the only thing an XML format cannot write.
fn has_markup(calls: &[ToolCall]) -> bool {
    calls.iter().any(|call| {
        let text = Value::Object(call.arguments.clone()).to_string();
        MARKUP.iter().any(|markup| text.contains(markup))
            || call.arguments.get("maybe").is_some_and(|maybe| maybe.as_str().is_some_and(|text| text.trim() == "null"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every format writes any calls so that they are read back, by itself and by detection; only raw XML values may be
    /// refused, and only if they contain markup.
    #[test]
    fn rendered_calls_parse_back(calls in calls()) {
        let tools = tools();
        for format in Format::ALL {
            let text = match format.render_calls(&calls, &tools) {
                Ok(text) => text,
                Err(refusal) => {
                    prop_assert!(format.writes_raw_values() && has_markup(&calls), "{refusal}: {calls:?}");
                    continue;
                }
            };
            for asked in [Some(format), None] {
                let parsed = parse(&text, &tools, asked);
                prop_assert_eq!(&parsed.error, &None, "{} {:?}: {}", format, asked, text);
                let read: Vec<_> = parsed.calls.iter().map(|call| (&call.call.name, &call.call.arguments)).collect();
                let meant: Vec<_> = calls.iter().map(|call| (&call.name, &call.arguments)).collect();
                prop_assert_eq!(read, meant, "{} {:?}: {}", format, asked, text);
                prop_assert_eq!(&parsed.content, "");
            }
        }
    }

    /// Every argument of every rendered call has its place, and the place is its own: other text there changes that
    /// argument and nothing else.
    #[test]
    fn a_place_holds_its_argument_and_nothing_else(calls in calls(), other in -1e9..1e9f64) {
        let tools = tools();
        for format in Format::ALL {
            let Ok(text) = format.render_calls(&calls, &tools) else { continue };
            let parsed = parse(&text, &tools, Some(format));
            for (index, places) in places(&text, &parsed.calls, &tools).into_iter().enumerate() {
                prop_assert_eq!(places.len(), calls[index].arguments.len(), "{}: {}", format, text);
                let Some(place) = places.iter().find(|place| place.argument == "ratio") else { continue };
                prop_assert!(place.end > place.value.end, "what ends a number is behind it");
                let changed = [&text[..place.value.start], &Value::from(other).to_string(), &text[place.value.end..]];
                let mut wanted = calls.clone();
                wanted[index].arguments.insert("ratio".to_owned(), other.into());
                let read = parse(&changed.concat(), &tools, Some(format)).calls;
                let read: Vec<_> = read.iter().map(|call| &call.call.arguments).collect();
                let wanted: Vec<_> = wanted.iter().map(|call| &call.arguments).collect();
                prop_assert_eq!(read, wanted, "{}: {}", format, text);
            }
        }
    }

    /// Any mix of fragments: no panic, spans inside the text, errors without calls, and the same twice.
    #[test]
    fn no_text_panics(pieces in proptest::collection::vec(fragment(), 0..40), cut in any::<prop::sample::Index>()) {
        let tools = tools();
        let text = pieces.concat();
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let text = &text[..ends[cut.index(ends.len())]];
        for format in Format::ALL.into_iter().map(Some).chain([None]) {
            let parsed = parse(text, &tools, format);
            prop_assert!(parsed.error.is_none() || parsed.calls.is_empty());
            prop_assert!(parsed.repaired_calls.is_none() || parsed.error.is_some());
            for call in parsed.calls.iter().chain(parsed.repaired_calls.iter().flatten()) {
                prop_assert!(text.get(call.span.clone()).is_some());
                prop_assert_eq!(serde_json::from_str::<Value>(&call.arguments_json()).is_ok(), true);
            }
            for calls in [Some(&parsed.calls), parsed.repaired_calls.as_ref()].into_iter().flatten() {
                for (call, places) in calls.iter().zip(places(text, calls, &tools)) {
                    prop_assert!(places.is_empty() || places.len() == call.call.arguments.len());
                    for place in places {
                        let inside = call.span.start <= place.value.start && place.value.end <= place.end;
                        prop_assert!(inside && place.end <= call.span.end && text.get(place.value).is_some());
                    }
                }
            }
            if let Some(failure) = &parsed.error {
                prop_assert!(failure.at <= text.len());
                prop_assert!(!failure.message.is_empty() && !failure.hint.is_empty());
            }
            let json = parsed.to_json(None, None);
            prop_assert!(serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
        }
    }
}

/// Fragments of every format, of JSON, of Python, and noise.
fn fragment() -> impl Strategy<Value = String> {
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

#[test]
fn deep_nesting_neither_overflows_nor_passes() {
    let tools = tools();
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{'a':", "}"), ("(", ")")] {
        let deep = open.repeat(100_000) + "1" + &close.repeat(100_000);
        for text in [
            format!("<tool_call>{{\"name\": \"put\", \"arguments\": {{\"any\": {deep}}}}}</tool_call>"),
            format!("<tool_call>\n<function=put>\n<parameter=tree>\n{deep}\n</parameter>\n</function>\n</tool_call>"),
            format!("[put(any={deep})]"),
            deep.clone(),
        ] {
            for format in Format::ALL.into_iter().map(Some).chain([None]) {
                assert!(parse(&text, &tools, format).calls.is_empty());
            }
        }
    }
}

#[test]
fn guidance_names_the_markers() {
    let tools = tools();
    let call = [ToolCall::new("ping", Map::new())];
    for format in Format::ALL {
        let guidance = format.guidance();
        assert!(guidance.len() > 40 && guidance.ends_with('.'), "{guidance}");
        let rendered = format.render_calls(&call, &tools).expect("a plain call").replace("ping", "NAME");
        let tags =
            rendered.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| format!("<{tag}>"));
        let words = [
            "[TOOL_CALLS]",
            "[ARGS]",
            "```",
            "Action:",
            "Action Input:",
            "\"name\"",
            "\"parameters\"",
            "\"tool_calls\"",
        ];
        let words = words.into_iter().filter(|word| rendered.contains(word)).map(str::to_owned);
        for marker in tags.chain(words) {
            assert!(guidance.contains(&marker), "{format}: {marker:?} not in {guidance:?}");
        }
    }
}

#[test]
fn what_cannot_be_written_names_its_format() {
    let tools = tools();
    let arguments = json!({ "text": "x", "maybe": "null" });
    let call = [ToolCall::new("put", arguments.as_object().expect("an object").clone())];
    for format in Format::ALL.into_iter().filter(|format| format.writes_raw_values()) {
        let refusal = format.render_calls(&call, &tools).expect_err("null reads as null where null is allowed");
        assert_eq!(refusal.format, format);
        assert!(refusal.to_string().starts_with(format.name()), "{refusal}");
    }
}

/// Reasoning markers, and whether a closer that nothing opened ends reasoning.
const REASONING: [(&str, &str, bool); 24] = [
    ("<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>", true),
    ("<scratchpad>", "</scratchpad>", true),
    ("<scratch_pad>", "</scratch_pad>", true),
    ("<reflection>", "</reflection>", true),
    ("<analysis>", "</analysis>", true),
    ("<unused94>thought\n", "<unused95>", true),
    ("◁think▷", "◁/think▷", true),
    ("<think >", "</think >", true),
    ("<Think\ntype=\"deep\">", "</think>", true),
    ("<|think|>", "<|end|>", false),
    ("<think>", "</think>", true),
    ("<THINK>", "</THINK>", true),
    ("[THINK]", "[/THINK]", true),
    ("<thinking>", "</thinking>", true),
    ("<thought>", "</thought>", true),
    ("<reasoning>", "</reasoning>", true),
    ("<seed:think>", "</seed:think>", true),
    ("<mm:think>", "</mm:think>", true),
    ("<|START_THINKING|>", "<|END_THINKING|>", true),
    ("<|begin_of_thought|>", "<|end_of_thought|>", true),
    ("<|inner_prefix|>", "<|inner_suffix|>", true),
    ("<|channel>thought\n", "<channel|>", true),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>", true),
    ("<|channel|>analysis<|message|>", "<|end|>", false),
];

/// Every format's good text in every pair of reasoning markers, closed, unclosed and repeated, with and without text
/// around it: no call, in the named format, in any other, or in auto.
#[test]
fn nothing_inside_reasoning_runs() {
    let tools = tools();
    let arguments = json!({ "text": "x", "count": 3 });
    let put = ToolCall::new("put", arguments.as_object().expect("an object").clone());
    let mut ran = Vec::new();
    for (writer, calls) in Format::ALL.into_iter().flat_map(|format| [(format, 1), (format, 2)]) {
        let calls = vec![put.clone(); calls];
        let text = writer.render_calls(&calls, &tools).expect("plain calls");
        for (open, close, lone) in REASONING {
            let mut replies = vec![
                format!("{open}{text}{close}"),
                format!("{open}\nmaybe\n{text}\n{close}\nNo."),
                format!("Well. {open}{text}{close}{open}{text}{close}"),
                format!("{open}{open}{text}{close}{close}"),
                format!("{open}{text}"),
                format!("{open}\n{text}\n"),
            ];
            if lone {
                replies.extend([format!("{text}{close}"), format!("maybe\n{text}\n{close}\nNo.")]);
            }
            for (reply, reader) in replies.iter().flat_map(|reply| [Some(writer), None].map(|reader| (reply, reader))) {
                let parsed = parse(reply, &tools, reader);
                if !parsed.calls.is_empty() || parsed.repaired_calls.is_some_and(|calls| !calls.is_empty()) {
                    ran.push(format!("{writer} read as {reader:?}: {reply:?}"));
                }
            }
        }
    }
    assert!(ran.is_empty(), "{} replies ran a call:\n{}", ran.len(), ran.join("\n"));
}

/// Unknown markers: a call between them is not made, whatever their name.
#[test]
fn nothing_inside_invented_markers_runs() {
    let tools = tools();
    let arguments = json!({ "text": "x", "count": 3 });
    let put = ToolCall::new("put", arguments.as_object().expect("an object").clone());
    let pairs = [
        ("<musing>", "</musing>"),
        ("<Inner Voice>", "</Inner Voice>"),
        ("<musing depth=\"2\">", "</musing>"),
        ("<ns:musing>", "</ns:musing>"),
        ("[MUSING]", "[/MUSING]"),
        ("[BEGIN MUSING]", "[END MUSING]"),
        ("<|musing|>", "<|/musing|>"),
        ("<|musing_begin|>", "<|musing_end|>"),
        ("<|start_musing|>", "<|end_musing|>"),
        ("<<musing>>", "<</musing>>"),
        ("{{musing}}", "{{/musing}}"),
        ("【musing】", "【/musing】"),
        ("◁musing▷", "◁/musing▷"),
        ("(musing)", "(/musing)"),
        ("<code>", "</code>"),
        ("<!-- ", " -->"),
    ];
    let mut ran = Vec::new();
    for writer in Format::ALL {
        for count in [1, 2] {
            let text = writer.render_calls(&vec![put.clone(); count], &tools).expect("plain calls");
            for (open, close) in pairs {
                for reply in [
                    format!("{open}{text}{close}"),
                    format!("Well. {open}\nmaybe\n{text}\n{close}\nNo."),
                    format!("{open}a{close}{open}\n{text}\n{close}"),
                ] {
                    for format in [None, Some(writer)] {
                        let parsed = parse(&reply, &tools, format);
                        if !parsed.calls.is_empty() || parsed.repaired_calls.is_some_and(|calls| !calls.is_empty()) {
                            ran.push(format!("{writer} {format:?} {reply:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(ran.is_empty(), "{} ran:\n{}", ran.len(), ran[..ran.len().min(40)].join("\n"));
}

/// A call after reasoning runs in every format, whatever the reasoning contains and however often it is closed.
#[test]
fn a_call_behind_reasoning_runs() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    let calls = std::slice::from_ref(&put);
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Harmony) {
        let text = format.render_calls(calls, &tools).expect("a plain call");
        for (open, close, lone) in REASONING {
            let mut replies = vec![format!("{open}maybe {text}{close}\n{text}")];
            if lone {
                replies.push(format!("maybe {text}{close}\n{text}"));
            }
            for reply in replies {
                let parsed = parse(&reply, &tools, Some(format));
                let read: Vec<_> = parsed.calls.iter().map(|call| &call.call).collect();
                assert_eq!(read.len(), 1, "{format}: {reply:?} {:?}", parsed.error);
                assert_eq!(read[0].arguments, put.arguments, "{format}: {reply:?}");
            }
        }
    }
}

/// Reasoning ends at its first closer: a second one after a call is text, in the named format and in auto.
#[test]
fn a_second_closer_takes_no_call_back() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    let text = Format::Hermes.render_calls(std::slice::from_ref(&put), &tools).expect("a plain call");
    for (open, close, _) in REASONING.into_iter().filter(|(_, _, lone)| *lone) {
        let reply = format!("{open}a{close}{text}{close} b");
        for format in [Some(Format::Hermes), None] {
            assert_eq!(parse(&reply, &tools, format).calls.len(), 1, "{format:?}: {reply:?}");
        }
    }
}

/// Calls after the end of the turn, or in a tool result that the model made up, do not run, however they are written.
#[test]
fn nothing_behind_the_end_or_in_an_answer_runs() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    for format in [Format::Hermes, Format::Gemma4, Format::Qwen3Coder, Format::Mistral] {
        let text = format.render_calls(std::slice::from_ref(&put), &tools).expect("a plain call");
        for marker in [
            "<turn|>",
            "<|eot|>",
            "<eos>",
            "<seed:eos>",
            "<|assistant_end|>",
            "[e~[",
            "<tool_response >",
            "<TOOL_RESPONSE>",
            "<tool_response id=\"1\">",
            "<observation>",
        ] {
            for reader in [Some(format), None] {
                let parsed = parse(&format!("Wait.{marker}{text}"), &tools, reader);
                assert!(parsed.calls.is_empty() && parsed.error.is_some(), "{reader:?}: {marker}{text}");
            }
        }
    }
}
