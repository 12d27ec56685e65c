//! Rendered calls: they parse back, each argument has its place, and guidance and refusals name what they should.

use hone_chat::parse::{Format, parse, places};
use hone_trace::ToolCall;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::arbitrary::calls;
use crate::tools;

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
