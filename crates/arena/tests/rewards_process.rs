//! Process rewards and the tau wrapper over small conversations.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use hone_arena::rewards::format::Format;
use hone_arena::rewards::parse_penalty::ParsePenalty;
use hone_arena::rewards::process::{Confirmed, FoundFirst, InventedIds, RepeatedCalls};
use hone_arena::rewards::tau::{Tau, TauOutputs, TauState, outputs_said};
use hone_arena::rewards::{Case, Measure};
use serde_json::{Value, json};

#[expect(clippy::needless_pass_by_value, reason = "callers write json!(…)")]
fn call(name: &str, arguments: Value) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [{"name": name, "arguments": arguments}]})
}

fn tool(text: &str) -> Value {
    json!({"role": "tool", "content": text})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn case(messages: &[Value]) -> Case {
    Case::read(json!({
        "messages": messages,
        "writes": ["cancel"],
        "reference_calls": [
            {"name": "get", "arguments": {"order_id": "#W1"}},
            {"name": "cancel", "arguments": {"order_id": "#W1", "reason": "no longer needed"}},
        ],
    }))
    .unwrap()
}

fn value(component: &impl Measure, case: &Case) -> Option<f64> {
    component.measure(case).value()
}

/// (found first, confirmed, invented ids, repeated calls)
#[expect(clippy::needless_pass_by_value, reason = "callers write vec![…]")]
fn all(messages: Vec<Value>) -> [f64; 4] {
    let case = case(&messages);
    let of = |component: &dyn Measure| {
        let verdict = component.measure(&case);
        verdict.value().unwrap_or_else(|| panic!("{}", verdict.why()))
    };
    [of(&FoundFirst::default()), of(&Confirmed::default()), of(&InventedIds::default()), of(&RepeatedCalls::default())]
}

fn good() -> Vec<Value> {
    vec![
        user("Cancel my order #W1, I am mia_1"),
        call("get", json!({"order_id": "#W1"})),
        tool("{\"order_id\": \"#W1\"}"),
        says("I will cancel #W1. Proceed?"),
        user("Yes, go on."),
        call("cancel", json!({"order_id": "#W1", "reason": "no longer needed"})),
        tool("done"),
    ]
}

#[test]
fn a_good_episode_earns_and_breaks_nothing() {
    assert_eq!(all(good()), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn doing_nothing_earns_nothing() {
    assert_eq!(all(vec![user("Cancel my order #W1")]), [0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn writing_blindly_is_neither_found_nor_confirmed() {
    let messages =
        vec![user("Please cancel my order #W1"), call("cancel", json!({"order_id": "#W1"})), tool("#W1 done")];
    assert_eq!(all(messages), [0.0, -1.0, 0.0, 0.0]);
}

#[test]
fn a_no_is_no_consent_and_a_yes_to_nothing_is_none() {
    let mut refused = good();
    refused[4] = user("No, wait. Yes, the address is right, but do not cancel.");
    assert_eq!(all(refused)[1], -1.0);
    let unasked = vec![user("Yes!"), call("cancel", json!({"order_id": "#W1"}))];
    assert_eq!(all(unasked)[1], -1.0);
}

#[test]
fn ids_nobody_mentioned_are_invented() {
    let mut messages = good();
    messages.insert(1, call("get", json!({"order_ids": ["#W1", "#W"], "note": "free text", "nested": {"id": "zz"}})));
    // Of #W1, #W, zz, #W1 and #W1: #W is only part of a longer id, and zz was never heard.
    assert_eq!(all(messages)[2], -2.0 / 5.0);
}

#[test]
fn a_repeat_is_the_same_call_with_nothing_changed_in_between() {
    let mut messages = good();
    messages.insert(
        3,
        json!({"role": "assistant", "content": null, "tool_calls": [
        {"name": "get", "arguments": "{\"order_id\": \"#W1\"}"}]}),
    );
    messages.push(call("get", json!({"order_id": "#W1"})));
    // One repeat before the write; reading again after it is not a repeat.
    assert_eq!(all(messages.clone())[3], -0.25);
    messages.push(call("get", json!({"order_id": "#W1"})));
    assert_eq!(all(messages)[3], -0.4);
}

#[test]
fn what_the_task_does_not_say_is_unscored() {
    let nothing = Case::default();
    assert_eq!(value(&FoundFirst::default(), &nothing), None);
    assert_eq!(value(&InventedIds::default(), &nothing), None);
    assert_eq!(value(&Tau::default(), &nothing), None);
    assert_eq!(value(&ParsePenalty::default(), &nothing), None);
}

#[test]
fn tau_needs_both_parts_and_keeps_both() {
    let of = |form: Value| {
        let case = Case::read(form).unwrap();
        (value(&Tau::default(), &case), value(&TauState::default(), &case), value(&TauOutputs::default(), &case))
    };
    let (yes, no) = (Some(1.0), Some(0.0));
    assert_eq!(of(json!({"db_match": true})), (yes, yes, None));
    assert_eq!(of(json!({"db_match": true, "outputs_said": {"10": true}})), (yes, yes, yes));
    assert_eq!(of(json!({"db_match": true, "outputs_said": {"10": false}})), (no, yes, no));
    assert_eq!(of(json!({"db_match": false, "outputs_said": {"10": true}})), (no, no, yes));
    assert_eq!(of(json!({"db_match": true, "outputs": ["10"]})).0, None, "outputs wanted, and no way to tell");
    let said =
        json!({"db_match": true, "outputs": ["1024"], "messages": [{"role": "assistant", "content": "It is $1,024."}]});
    assert_eq!(of(said), (yes, yes, yes));
    let cut = json!({"db_match": true, "outcome": {"kind": "truncated", "limit": "turns"}});
    assert_eq!(of(cut), (no, no, no));
}

#[test]
fn outputs_are_looked_for_as_tau_bench_does() {
    let said = outputs_said(&["10".into(), "Yes".into(), "1,024".into()], ["costs 1,024 DOLLARS", "yes"].into_iter());
    assert_eq!(said.values().copied().collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn the_parse_penalty_is_the_share_of_bad_replies() {
    let of = |form: Value| value(&ParsePenalty::default(), &Case::read(form).unwrap()).unwrap();
    assert_eq!(of(json!({"completion": "Hello."})), 0.0);
    assert_eq!(of(json!({"completion": "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>"})), 0.0);
    assert_eq!(of(json!({"completion": "<tool_call>{\"name\": \"a\",}</tool_call>"})), -1.0);
    assert_eq!(of(json!({"completion": "<tool_call>{\"name\": \"a\"}"})), -1.0);
    let failure = json!({"kind": "malformed_json", "message": "m", "at": 0, "hint": "h"});
    let turns = json!([{"node": 1}, {"node": 2, "failure": failure}, {"node": 3}, {"node": 4}]);
    assert_eq!(of(json!({ "turns": turns })), -0.25);
}

#[test]
fn the_format_of_an_episode_is_that_of_its_calls() {
    let call = json!({"name": "get", "arguments": {}});
    let failure = json!({"kind": "missing_required", "message": "m", "at": 0, "hint": "h"});
    let of = |turns: Value, messages: Value| {
        let case = Case::read(json!({"turns": turns, "messages": messages})).unwrap();
        value(&Format::default(), &case).unwrap()
    };
    let silent = json!({"role": "assistant", "content": null});
    assert_eq!(of(json!([{"node": 1, "calls": [call]}]), json!([silent])), 1.0);
    assert_eq!(of(json!([{"node": 1, "calls": [call]}]), json!([says("Sure!")])), 0.9, "text outside the call");
    assert_eq!(of(json!([{"node": 1, "calls": [call]}, {"node": 2}]), json!([silent, says("Hello")])), 1.0);
    assert_eq!(of(json!([{"node": 1, "calls": [call]}, {"node": 2, "failure": failure}]), json!([])), 0.8);
    assert_eq!(of(json!([{"node": 1, "calls": [call, call]}]), json!([])), 0.0);
    assert_eq!(of(json!([{"node": 1}]), json!([says("I would rather not.")])), 0.0);
}
