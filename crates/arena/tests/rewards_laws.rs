//! The laws of the reward components, as properties.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use hone_arena::rewards::calibration::{brier, murphy};
use hone_arena::rewards::cosine::Cosine;
use hone_arena::rewards::cost::cost;
use hone_arena::rewards::format::{Schemas, format};
use hone_arena::rewards::grounding::grounding;
use hone_arena::rewards::overlong::SoftOverlong;
use hone_arena::rewards::parsimony::Parsimony;
use hone_arena::rewards::repetition::{citation_repetition, repetition};
use hone_arena::rewards::state_diff::{Change, diff, partial_credit};
use hone_arena::rewards::support::support;
use hone_arena::rewards::{Case, Context, Measure, Submission};
use hone_trace::{ToolSet, ToolSpec, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

fn value(verdict: Verdict) -> f64 {
    verdict.value().unwrap_or_else(|| panic!("unscored: {}", verdict.why()))
}

// ---- format ------------------------------------------------------------------------------------------------------

fn schemas() -> Schemas {
    let parameters = json!({
        "type": "object",
        "properties": {
            "resolution": {"type": "string"},
            "citations": {"type": "array", "items": {"type": "string"}},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["resolution", "citations", "confidence"],
        "additionalProperties": false,
    });
    Schemas::compile(&ToolSet::new(vec![ToolSpec::new("submit_resolution", "Submit.", parameters)]).unwrap()).unwrap()
}

/// A reply with any subset of defects, one per step of the ladder (the last step has two).
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each defect is there or not")]
struct Defects {
    unclosed: bool,
    unquoted: bool,
    trailing_comma: bool,
    unknown_tool: bool,
    missing_key: bool,
    wrong_type: bool,
    extra_key: bool,
    text_outside: bool,
}

impl Defects {
    fn from_bits(bits: u8) -> Self {
        let on = |i: u8| bits & (1 << i) != 0;
        Self {
            unclosed: on(0),
            unquoted: on(1),
            trailing_comma: on(2),
            unknown_tool: on(3),
            missing_key: on(4),
            wrong_type: on(5),
            extra_key: on(6),
            text_outside: on(7),
        }
    }

    fn reply(self, resolution: &str) -> String {
        let mut arguments = json!({"resolution": resolution, "citations": ["KB-1"], "confidence": 0.5});
        if self.missing_key {
            arguments.as_object_mut().unwrap().remove("citations");
        }
        if self.wrong_type {
            arguments["confidence"] = json!(7);
        }
        if self.extra_key {
            arguments["mood"] = json!("fine");
        }
        let name = if self.unknown_tool { "submit" } else { "submit_resolution" };
        let mut body = json!({"name": name, "arguments": arguments}).to_string();
        if self.trailing_comma {
            body.insert(body.len() - 1, ',');
        }
        if self.unquoted {
            body = body.replacen("\"name\"", "name", 1);
        }
        let close = if self.unclosed { "" } else { "</tool_call>" };
        let before = if self.text_outside { "Sure! " } else { "" };
        format!("{before}<tool_call>\n{body}\n{close}")
    }
}

#[test]
fn format_is_one_exactly_without_defects_and_fixing_one_never_lowers_it() {
    let schemas = schemas();
    let score = |bits: u8| value(format(&Defects::from_bits(bits).reply("restart it"), &schemas));
    for bits in 0..=u8::MAX {
        let own = score(bits);
        assert_eq!(own == 1.0, bits == 0, "{:?}", Defects::from_bits(bits));
        for fixed in (0..8).filter(|i| bits & (1 << i) != 0).map(|i| bits & !(1 << i)) {
            assert!(score(fixed) >= own, "{:?} fixed to {:?}", Defects::from_bits(bits), Defects::from_bits(fixed));
        }
    }
    assert!(value(format("Please wait while I look into that.", &schemas)) <= 0.1);
    assert!(value(format("<tool_call>hello</tool_call>", &schemas)) <= 0.1);
}

proptest! {
    #[test]
    fn format_does_not_read_what_the_fields_say(text in ".{0,80}", bits: u8) {
        prop_assume!(!text.contains("tool_call>") && !text.contains("name"));
        let (schemas, defects) = (schemas(), Defects::from_bits(bits));
        let here = value(format(&defects.reply(&text), &schemas));
        prop_assert_eq!(here, value(format(&defects.reply("x"), &schemas)));
    }

    #[test]
    fn format_survives_any_text(text in "(<tool_call>|</tool_call>|<think>|</think>|[{}\\[\\]\":,a1\n]|.){0,120}") {
        prop_assert!((0.0..=1.0).contains(&value(format(&text, &schemas()))));
    }
}

// ---- grounding and support ---------------------------------------------------------------------------------------

fn submission(citations: &[String], escalate: bool) -> Submission {
    Submission { resolution: "restart the agent".into(), citations: citations.to_vec(), confidence: None, escalate }
}

fn ids(prefix: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|i| format!("{prefix}-{i}")).collect()
}

/// Gold ids and wrong ones, all shown; hallucinated ones are not.
fn ground(gold_cited: u32, gold: u32, wrong: u32, hallucinated: u32) -> f64 {
    let context: Vec<String> = ids("gold", 0..gold).into_iter().chain(ids("wrong", 0..20)).collect();
    let mut cited = ids("gold", 0..gold_cited);
    cited.extend(ids("wrong", 0..wrong));
    cited.extend(ids("ghost", 0..hallucinated));
    value(grounding(&submission(&cited, false), &ids("gold", 0..gold), &Context::Ids(context), 0.5))
}

proptest! {
    #[test]
    fn grounding_moves_the_right_way(gold in 1u32..6, cited in 0u32..6, wrong in 0u32..6, ghosts in 0u32..6) {
        let cited = cited.min(gold);
        let here = ground(cited, gold, wrong, ghosts);
        prop_assert!((0.0..=1.0).contains(&here));
        if cited < gold {
            prop_assert!(ground(cited + 1, gold, wrong, ghosts) >= here, "a correct citation was added");
        }
        if ghosts > 0 {
            prop_assert!(ground(cited, gold, wrong, ghosts - 1) >= here, "a hallucinated one was removed");
        }
        if wrong > 0 && ghosts == 0 {
            prop_assert!(ground(cited, gold, wrong - 1, 0) >= here, "a wrong one was removed");
        }
        prop_assert_eq!(here == 1.0, cited == gold && wrong == 0 && ghosts == 0);
    }

    #[test]
    fn citing_twice_changes_nothing(gold in 1u32..5, wrong in 0u32..5) {
        let mut cited = ids("gold", 0..gold);
        cited.extend(ids("wrong", 0..wrong));
        let twice: Vec<String> = cited.iter().chain(&cited).cloned().collect();
        let context = Context::Ids(cited.clone());
        let of = |cited: &[String]| value(grounding(&submission(cited, false), &ids("gold", 0..gold), &context, 0.5));
        prop_assert_eq!(of(&cited), of(&twice));
    }
}

#[test]
fn citing_everything_and_escalating_are_priced_as_defined() {
    assert!((ground(1, 1, 3, 0) - 0.294).abs() < 5e-4, "{}", ground(1, 1, 3, 0));
    let context = Context::Ids(ids("wrong", 0..4));
    let of = |cited: &[String], escalate| value(grounding(&submission(cited, escalate), &[], &context, 0.5));
    assert_eq!(of(&[], true), 1.0);
    assert_eq!(of(&[], false), 0.3);
    assert_eq!(of(&ids("wrong", 0..1), true), 0.0);
}

proptest! {
    #[test]
    fn support_is_the_share_backed(backed in 3usize..12, filler in 0usize..12, repeats in 1usize..4) {
        let article: Vec<String> = (0..backed).map(|i| format!("fact{i}")).collect();
        let junk: Vec<String> = (0..filler).map(|i| format!("junk{i}")).collect();
        let context: Context =
            serde_json::from_value(json!({"KB-1": article.join(" the "), "KB-2": junk.join(" ")})).unwrap();
        let of = |words: &[String]| {
            let submission =
                Submission { resolution: words.join(" "), citations: vec!["KB-1".into()], ..Submission::default() };
            value(support(&submission, &context, None))
        };
        prop_assert_eq!(of(&article), 1.0, "stop words do not matter");
        let mixed: Vec<String> = article.iter().chain(&junk).cloned().collect();
        prop_assert!((of(&mixed) - (backed - 2) as f64 / (backed + filler - 2) as f64).abs() < 1e-12);
        // Repeating a supported phrase does not raise its support.
        let padded: Vec<String> = std::iter::repeat_n(&mixed, repeats).flatten().cloned().collect();
        prop_assert!(of(&padded) <= of(&mixed));
    }
}

// ---- calibration -------------------------------------------------------------------------------------------------

#[test]
fn brier_is_strictly_proper_and_has_no_default() {
    for p in (0..=20).map(|i| f64::from(i) / 20.0) {
        let expected = |c: f64| p * value(brier(Some(c), true)) + (1.0 - p) * value(brier(Some(c), false));
        for c in (0..=100).map(|i| f64::from(i) / 100.0) {
            assert!((c - p).abs() < 1e-9 || expected(c) < expected(p), "p {p}: saying {c} pays as much as the truth");
        }
    }
    for bad in [None, Some(-0.1), Some(1.1), Some(f64::NAN), Some(f64::INFINITY)] {
        assert_eq!(value(brier(bad, true)), 0.0, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn murphys_parts_add_up(forecasts in prop::collection::vec((0u8..=10, any::<bool>()), 1..200)) {
        let forecasts: Vec<(f64, bool)> = forecasts.into_iter().map(|(c, y)| (f64::from(c) / 10.0, y)).collect();
        let parts = murphy(&forecasts).unwrap();
        prop_assert!((parts.loss - (parts.reliability - parts.resolution + parts.uncertainty)).abs() < 1e-12);
        // A constant confidence has no resolution.
        let constant: Vec<(f64, bool)> = forecasts.iter().map(|&(_, y)| (0.3, y)).collect();
        prop_assert!(murphy(&constant).unwrap().resolution < 1e-12);
    }
}

// ---- parsimony ---------------------------------------------------------------------------------------------------

proptest! {
    #[test]
    fn parsimony_has_no_interior_dip_and_pays_the_reference(reference in 1usize..200, lengths in prop::array::uniform3(0usize..500)) {
        let parsimony = Parsimony::default();
        let mut lengths = lengths;
        lengths.sort_unstable();
        let [i, j, k] = lengths.map(|length| parsimony.value(length, reference));
        prop_assert!(j >= i.min(k));
        prop_assert_eq!(parsimony.value(reference, reference), 1.0);
        prop_assert!([i, j, k].iter().all(|value| (0.0..=1.0).contains(value)));
    }

    #[test]
    fn parsimony_is_blind_to_text_outside_the_resolution(words in 0usize..30, around in "[a-z ]{0,200}") {
        let resolution = vec!["word"; words].join(" ");
        let call = json!({"name": "submit_resolution", "arguments": {"resolution": resolution}});
        let of = |around: &str| {
            let completion = format!("{around}<tool_call>{call}</tool_call>{around}");
            let case = Case::read(json!({"completion": completion, "reference": "ten words would do for an answer to this one"}));
            value(Parsimony::default().measure(&case.unwrap()))
        };
        prop_assert_eq!(of(&around), of(""));
    }
}

// ---- repetition, lengths, costs ----------------------------------------------------------------------------------

proptest! {
    #[test]
    fn repetition_counts_repeated_ngrams(tokens in prop::collection::vec(0u32..5, 0..60), n in 1usize..5) {
        let rate = repetition(&tokens, n);
        prop_assert!((0.0..1.0).contains(&rate));
        if tokens.len() < n {
            prop_assert_eq!(rate, 0.0);
        } else {
            let mut seen: Vec<&[u32]> = Vec::new();
            for gram in tokens.windows(n) {
                if !seen.contains(&gram) {
                    seen.push(gram);
                }
            }
            prop_assert!((rate - (1.0 - seen.len() as f64 / (tokens.len() - n + 1) as f64)).abs() < 1e-12);
        }
    }

    #[test]
    fn longer_never_costs_less(a in 0usize..3000, b in 0usize..3000, max in 1usize..2000, cache in 1usize..500) {
        let (short, long) = (a.min(b), a.max(b));
        let overlong = SoftOverlong::new(max.max(cache), cache).unwrap();
        prop_assert!(overlong.value(short) >= overlong.value(long));
        prop_assert!((-1.0..=0.0).contains(&overlong.value(a)));
        // No jump: one more token costs at most one step of the interval.
        prop_assert!(overlong.value(a) - overlong.value(a + 1) <= 1.0 / cache as f64 + 1e-12);
        prop_assert!(value(cost(short, max, "tokens")) >= value(cost(long, max, "tokens")));
        prop_assert!((-1.0..=0.0).contains(&value(cost(a, max, "tokens"))));
    }

    #[test]
    fn cosine_keeps_right_above_wrong(length in 0usize..5000, other in 0usize..5000, max in 1usize..3000) {
        let cosine: Cosine = serde_json::from_value(json!({"max": max})).unwrap();
        prop_assert!(cosine.value(length, true) > cosine.value(other, false));
        let (short, long) = (length.min(other), length.max(other));
        prop_assert!(cosine.value(short, true) >= cosine.value(long, true));
        prop_assert!(cosine.value(short, false) <= cosine.value(long, false));
    }
}

#[test]
fn the_ends_of_the_length_curves() {
    let cosine: Cosine = serde_json::from_value(json!({"max": 100})).unwrap();
    for (length, correct, expected) in
        [(0, true, 1.0), (100, true, 0.5), (900, true, 0.5), (0, false, -1.0), (100, false, -0.5), (50, true, 0.75)]
    {
        assert!((cosine.value(length, correct) - expected).abs() < 1e-12, "{length} {correct}");
    }
    let overlong = SoftOverlong::new(100, 20).unwrap();
    for (length, expected) in [(0, 0.0), (80, 0.0), (90, -0.5), (100, -1.0), (101, -1.0)] {
        assert_eq!(overlong.value(length), expected, "{length}");
    }
    assert_eq!(value(citation_repetition(&[])), 1.0);
    assert_eq!(value(citation_repetition(&ids("KB", [1, 1, 2, 2]))), 0.5);
}

// ---- partial credit ----------------------------------------------------------------------------------------------

fn changes(paths: impl IntoIterator<Item = u32>, to: i64) -> Vec<Change> {
    paths.into_iter().map(|i| Change { path: format!("/orders/{i}"), to: Some(json!(to)) }).collect()
}

proptest! {
    #[test]
    fn partial_credit_moves_the_right_way(wanted in 1u32..8, hits in 0u32..8, unwanted in 0u32..8) {
        let hits = hits.min(wanted);
        let of = |hits: u32, unwanted: u32| {
            let mut made = changes(0..hits, 1);
            made.extend(changes(100..100 + unwanted, 1));
            value(partial_credit(&made, &changes(0..wanted, 1)))
        };
        let here = of(hits, unwanted);
        prop_assert!((0.0..=1.0).contains(&here));
        prop_assert_eq!(here == 1.0, hits == wanted && unwanted == 0);
        prop_assert!(of((hits + 1).min(wanted), unwanted) >= here);
        prop_assert!(of(hits, unwanted + 1) <= here);
        prop_assert_eq!(of(0, unwanted), 0.0);
    }

    #[test]
    fn a_state_compared_with_itself_has_no_changes(state in json_value()) {
        prop_assert!(diff(&state, &state).is_empty());
    }

    #[test]
    fn credit_is_one_exactly_at_the_reference(initial in json_value(), end in json_value(), reference in json_value()) {
        let wanted = diff(&initial, &reference);
        prop_assert_eq!(value(partial_credit(&diff(&initial, &reference), &wanted)), 1.0);
        let credit = value(partial_credit(&diff(&initial, &end), &wanted));
        prop_assert_eq!(credit == 1.0, diff(&end, &reference).is_empty());
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(null)), (0i64..3).prop_map(|n| json!(n)), Just(json!(1.0)), Just(json!("a"))];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab/~]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

#[test]
fn a_wrong_value_is_missed_and_unwanted_and_null_is_not_removed() {
    assert_eq!(value(partial_credit(&changes(0..2, 9), &changes(0..2, 1))), 0.0);
    let removed = Change { path: "/a".into(), to: None };
    let null = Change { path: "/a".into(), to: Some(Value::Null) };
    assert_eq!(value(partial_credit(std::slice::from_ref(&removed), std::slice::from_ref(&null))), 0.0);
    let read: Vec<Change> = serde_json::from_value(json!([{"path": "/a"}, {"path": "/a", "to": null}])).unwrap();
    assert_eq!(read, [removed, null]);
    assert_eq!(value(partial_credit(&[], &[])), 1.0);
    assert_eq!(value(partial_credit(&changes(0..1, 1), &[])), 0.0);
}
