//! Arbitrary text: no panic, no stack overflow, and spans within the text.

use hone_chat::parse::{Format, parse, places};
use proptest::prelude::*;
use serde_json::Value;

use crate::arbitrary::fragment;
use crate::tools;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

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
