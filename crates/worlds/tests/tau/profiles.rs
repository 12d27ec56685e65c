//! Differences of the strict and tau2 profiles.

use std::sync::Arc;

use crate::{desk_of, own, upstream};
use hone_worlds::domains::generate::{Names, Recipe, generate};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Desk, Domain, Kind, Profile, tasks};
use serde_json::{Value, json};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

fn strict(kind: Kind) -> Arc<Domain> {
    own(kind, Profile::Strict)
}

/// A one-way booking of one seat on HAT016, which costs 226 in economy.
fn booking(change: impl FnOnce(&mut Value)) -> Value {
    let mut arguments = json!({
        "user_id": "dana_sato_8827", "origin": "JFK", "destination": "ATL", "flight_type": "one_way", "cabin": "economy",
        "flights": [{"flight_number": "HAT016", "date": "2024-05-20"}],
        "passengers": [{"first_name": "Dana", "last_name": "Sato", "dob": "1990-04-05"}],
        "payment_methods": [{"payment_id": "credit_card_6979871", "amount": 226}],
        "total_baggages": 0, "nonfree_baggages": 0, "insurance": "no",
    });
    change(&mut arguments);
    arguments
}

fn seats(desk: &mut Desk) -> i64 {
    let route = json!({"origin": "JFK", "destination": "ATL", "date": "2024-05-20"});
    let found = parsed(&desk_of(desk, "search_direct_flight", &route));
    let flight = found.as_array().unwrap().iter().find(|flight| flight["flight_number"] == "HAT016").unwrap();
    flight["available_seats"]["economy"].as_i64().unwrap()
}

#[test]
fn strict_checks_arguments_against_the_schema() {
    let domain = strict(Kind::Retail);
    let mut desk = domain.open();
    let address = json!({"order_id": "#W4090161", "address1": "1 Main St", "address2": "", "city": "X", "state": "CA",
        "country": "USA", "zip": 12345});
    for (name, arguments, expected) in [
        ("modify_pending_order_address", address, "Error: zip must be a string, found a number"),
        ("get_order_details", json!({"order_id": ["#W1"]}), "Error: order_id must be a string, found a list"),
        ("get_order_details", json!({}), "Error: missing argument order_id"),
        ("get_order_details", json!({"order_id": "#W1", "x": 1}), "Error: unexpected argument x; known: order_id"),
        ("cancel_pending_order", json!({"order_id": "#W4090161", "reason": "bored"}), "Error: reason must be one of"),
    ] {
        let reply = desk_of(&mut desk, name, &arguments);
        assert!(reply.starts_with(expected), "{name}: {reply}");
    }
    assert!(!desk.world().is_changed());
}

#[test]
fn strict_numbers_have_one_spelling() {
    let domain = strict(Kind::Airline);
    let (mut whole, mut float) = (domain.open(), domain.open());
    desk_of(&mut whole, "book_reservation", &booking(|_| {}));
    desk_of(
        &mut float,
        "book_reservation",
        &booking(|arguments| arguments["payment_methods"][0]["amount"] = json!(226.0)),
    );
    assert!(whole.world().is_changed());
    assert!(whole.world().same_state(float.world()));
    assert_eq!(whole.state_hash(), float.state_hash());
}

#[test]
fn strict_counts_seats() {
    let domain = strict(Kind::Airline);
    let mut desk = domain.open();
    let before = seats(&mut desk);
    desk_of(&mut desk, "book_reservation", &booking(|_| {}));
    assert_eq!(seats(&mut desk), before - 1);
    desk_of(&mut desk, "cancel_reservation", &json!({"reservation_id": "HATHAT"}));
    assert_eq!(seats(&mut desk), before);
    let again = desk_of(&mut desk, "cancel_reservation", &json!({"reservation_id": "HATHAT"}));
    assert_eq!(again, "Error: the reservation is already cancelled");
}

#[test]
fn strict_refuses_free_and_broken_bookings_and_leaves_nothing_behind() {
    let domain = strict(Kind::Airline);
    let certificate = json!({"payment_id": "certificate_6445069", "amount": 113});
    for (changed, expected) in [
        (json!({"flights": [], "payment_methods": []}), "at least one flight"),
        (json!({"passengers": []}), "one to five passengers"),
        (json!({"payment_methods": [certificate, certificate]}), "given twice"),
        (json!({"nonfree_baggages": 3}), "more paid bags than bags"),
    ] {
        let mut desk = domain.open();
        let arguments =
            booking(|arguments| arguments.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone()));
        let reply = desk_of(&mut desk, "book_reservation", &arguments);
        assert!(reply.starts_with("Error: ") && reply.contains(expected), "{reply}");
        assert!(!desk.world().is_changed(), "{reply}");
    }
}

#[test]
fn strict_records_a_cabin_change_and_compat_does_not() {
    let change = json!({"reservation_id": "69A9GH", "cabin": "economy", "payment_id": "gift_card_7726459",
        "flights": [{"flight_number": "HAT011", "date": "2024-05-20"}]});
    for (profile, cabin) in [(Profile::Compat, "business"), (Profile::Strict, "economy"), (Profile::Tau2, "economy")] {
        let domain = own(Kind::Airline, profile);
        let reply = desk_of(&mut domain.open(), "update_reservation_flights", &change);
        assert_eq!(parsed(&reply)["cabin"], cabin, "{profile:?}");
    }
}

/// A connection after an overnight flight shows the seats and prices of the day it leaves on.
#[test]
fn strict_connections_use_the_second_day() {
    let domain = strict(Kind::Airline);
    let mut overnight = 0;
    for origin in ["SFO", "JFK", "ORD", "DEN"] {
        for destination in ["ATL", "DEN", "JFK", "SFO"] {
            let route = json!({"origin": origin, "destination": destination, "date": "2024-05-20"});
            let mut desk = domain.open();
            let found = parsed(&desk_of(&mut desk, "search_onestop_flight", &route));
            for pair in found.as_array().unwrap().iter().filter(|pair| pair[1]["date"] == "2024-05-21") {
                let (from, to) = (&pair[1]["origin"], &pair[1]["destination"]);
                let direct = json!({"origin": from, "destination": to, "date": "2024-05-21"});
                let direct = parsed(&desk_of(&mut desk, "search_direct_flight", &direct));
                let same =
                    direct.as_array().unwrap().iter().find(|leg| leg["flight_number"] == pair[1]["flight_number"]);
                assert_eq!(same.unwrap()["prices"], pair[1]["prices"]);
                overnight += 1;
            }
        }
    }
    assert!(overnight > 0, "no overnight connection among the routes");
}

#[test]
fn strict_bounds_calculate() {
    let domain = strict(Kind::Retail);
    let calculate = |expression: &str| desk_of(&mut domain.open(), "calculate", &json!({"expression": expression}));
    assert_eq!(calculate("2**10 + 1"), "1025.0");
    assert_eq!(calculate("9**9**9"), "Error: the power is too large");
    assert!(calculate(&"1+".repeat(2000)).starts_with("Error: the expression is longer"));
}

/// tau2's own tasks: replaying the reference matches its own end, and tasks whose reward is a judge's are not scored.
#[test]
#[ignore = "needs tau2-bench's data: CONTRIBUTING.md says how to get it"]
fn tau2_tasks_splits_and_rewards() {
    for (kind, splits) in [
        (Kind::Retail, [("train", 74), ("test", 40), ("base", 114)]),
        (Kind::Airline, [("train", 30), ("test", 20), ("base", 50)]),
    ] {
        let domain = crate::domain(kind, Profile::Tau2);
        let directory = upstream(&format!("tau2-bench/{}", kind.name()));
        for (split, count) in splits {
            assert_eq!(tasks::load(kind, &directory, split).unwrap().len(), count, "{} {split}", kind.name());
        }
        assert!(tasks::load(kind, &directory, "nope").unwrap_err().to_string().contains("it has train"));
        let mut scored = 0;
        for task in tasks::load(kind, &directory, "base").unwrap() {
            let mut desk = domain.open();
            for call in task.reference.as_ref().unwrap() {
                desk.call(call).unwrap();
            }
            let verdict = judge(&desk, &task, &task.outputs);
            assert!(verdict.state, "{}", task.key);
            match verdict.reward() {
                Some(reward) => assert_eq!(reward, 1.0),
                None => assert_eq!(verdict.undecided, ["NL_ASSERTION"]),
            }
            scored += usize::from(verdict.reward().is_some());
        }
        assert!(scored >= 50, "{} of {}", scored, kind.name());
    }
}

#[test]
fn tau2_keeps_its_texts_and_shapes() {
    let domain = own(Kind::Retail, Profile::Tau2);
    let mut desk = domain.open();
    let order = parsed(&desk_of(&mut desk, "get_order_details", &json!({"order_id": "#W4090161"})));
    assert_eq!(order["cancel_reason"], Value::Null);
    for (name, arguments, expected) in [
        ("get_order_details", json!({"order_id": "W1"}), "Error: Order not found"),
        ("think", json!({"thought": "x"}), "Error: Tool 'think' not found."),
        ("get_item_details", json!({"item_id": "1"}), "Error: Item not found"),
        ("calculate", json!({"expression": "x"}), "Error: Invalid characters in expression"),
        (
            "get_user_details",
            json!({}),
            "Error: RetailTools.get_user_details() missing 1 required positional argument: 'user_id'",
        ),
    ] {
        assert_eq!(desk_of(&mut desk, name, &arguments), expected);
    }
}

/// Whatever a model sends, a desk answers: no panic, no hang.
#[test]
fn odd_arguments_never_break_a_desk() {
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("#W0"),
        json!([]),
        json!([[1]]),
        json!({}),
        json!({"a": [null]}),
        json!(["x", 1, null]),
        json!([{"flight_number": 1}]),
        json!("é\u{200b}'\""),
    ];
    for kind in [Kind::Retail, Kind::Airline] {
        for profile in [Profile::Compat, Profile::Strict, Profile::Tau2] {
            let recipe = Recipe {
                kind,
                profile,
                seed: 3,
                users: 5,
                tasks: 3,
                held_out: 0,
                difficulty: None,
                names: Names::Common,
            };
            let made = generate(&recipe).unwrap();
            let tools = made.domain.tools().unwrap();
            for call in made.tasks.iter().flat_map(|task| task.reference.clone().unwrap()) {
                for name in call.arguments.keys() {
                    for value in &odd {
                        let mut broken = call.clone();
                        broken.arguments[name] = value.clone();
                        let mut desk = made.domain.open();
                        desk.call(&broken).unwrap();
                        desk.state_hash();
                    }
                }
            }
            for tool in tools.iter() {
                let arguments = tool.parameter_names().map(|name| (name.to_owned(), odd[8].clone())).collect();
                made.domain.open().call(&hone_trace::ToolCall::new(&tool.name, arguments)).unwrap();
            }
        }
    }
}

fn generated(kind: Kind, profile: Profile) -> Arc<Domain> {
    generate(&Recipe {
        kind,
        profile,
        seed: 3,
        users: 5,
        tasks: 1,
        held_out: 0,
        difficulty: None,
        names: Names::Common,
    })
    .unwrap()
    .domain
}

/// A line that cannot be read fails alone: the calls around it are answered as usual.
#[test]
fn a_bad_line_of_a_replay_fails_alone() {
    let deep =
        format!("{{\"name\": \"think\", \"kwargs\": {{\"thought\": {}{}}}}}", "[".repeat(2000), "]".repeat(2000));
    let good = "{\"name\": \"think\", \"kwargs\": {\"thought\": \"x\"}}";
    let surrogate = "{\"name\": \"think\", \"kwargs\": {\"thought\": \"\\ud800\"}}";
    let lines = [good, surrogate, &deep, "not JSON", "{\"kwargs\": {}}", "", good];
    let mut input = lines.join("\n").into_bytes();
    input.extend(b"\n{\"name\": \"\xff\"}\n");
    let mut output = Vec::new();
    let domain = generated(Kind::Retail, Profile::Compat);
    let unread = hone_worlds::domains::replay::replay(&domain, input.as_slice(), &mut output).unwrap();
    assert_eq!(unread, 5);
    let answers: Vec<Value> =
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let observed: Vec<&Value> = answers.iter().map(|answer| &answer["observation"]).collect();
    let (text, none) = (json!(""), Value::Null);
    assert_eq!(observed, [&text, &none, &none, &none, &none, &text, &none]);
    for (answer, said) in answers[1..5].iter().zip(["lone surrogate", "too deep", "not JSON", "no \"name\""]) {
        assert!(answer["lost"].as_str().unwrap().contains(said), "{answer}");
    }
}

/// A tau2 task file of one task with these criteria and this initial state.
fn tau2_tasks(criteria: &Value, initial_state: &Value) -> Result<Vec<hone_trace::Task>, String> {
    let directory = tempfile::tempdir().unwrap();
    let task = json!([{"id": "0", "user_scenario": {"instructions": "Ask."}, "evaluation_criteria": criteria, "initial_state": initial_state}]);
    std::fs::write(directory.path().join("tasks.json"), task.to_string()).unwrap();
    std::fs::write(directory.path().join("split_tasks.json"), r#"{"test": ["0"]}"#).unwrap();
    tasks::load(Kind::Retail, directory.path(), "test").map_err(|error| error.to_string())
}

/// tau2's communicated facts are part of the reward only where the reward's basis says so.
#[test]
fn what_is_communicated_counts_where_the_reward_says_so() {
    let desk = generated(Kind::Retail, Profile::Tau2).open();
    for (basis, reward) in [(json!(["DB"]), 1.0), (json!(["DB", "COMMUNICATE"]), 0.0)] {
        let criteria = json!({"actions": [], "communicate_info": ["54.04"], "reward_basis": basis});
        let task = tau2_tasks(&criteria, &Value::Null).unwrap().remove(0);
        assert_eq!(judge(&desk, &task, &["Goodbye."]).reward(), Some(reward), "{basis}");
    }
}

/// A task is never played with a part of it ignored.
#[test]
fn a_task_with_a_part_that_is_not_evaluated_is_refused() {
    let criteria = |basis: &[&str]| json!({"actions": [], "reward_basis": basis});
    let error = tau2_tasks(&criteria(&["DB", "SOMETHING"]), &Value::Null).unwrap_err();
    assert!(error.contains("SOMETHING") && error.contains("tau2/retail/0"), "{error}");
    let asserting = |name: &str| {
        let assertion = json!({"env_type": "assistant", "func_name": name, "arguments": {}});
        tau2_tasks(
            &json!({"actions": [], "env_assertions": [assertion], "reward_basis": ["ENV_ASSERTION"]}),
            &Value::Null,
        )
    };
    // Retail has no function that asserts: a missing one, and a tool, which has no truth value.
    for name in ["assert_order_shipped", "get_order_details"] {
        let error = asserting(name).unwrap_err();
        assert!(error.contains("ENV_ASSERTION") && error.contains(name), "{error}");
    }
    let empty = json!({"initialization_data": null, "initialization_actions": [], "message_history": null});
    assert_eq!(tau2_tasks(&criteria(&["DB", "NL_ASSERTION"]), &empty).map(|tasks| tasks.len()), Ok(1));
    let actions = json!({"initialization_actions": [{"env_type": "assistant", "func_name": "f", "arguments": {}}]});
    let error = tau2_tasks(&criteria(&["DB"]), &actions).unwrap_err();
    assert!(error.contains("initialization_actions"), "{error}");
}

/// Retail tasks start from their initial state: data merged into the tables, tools run, an earlier conversation.
#[test]
fn retail_begins_as_its_task_says() {
    let made = generate(&Recipe {
        kind: Kind::Retail,
        profile: Profile::Tau2,
        seed: 3,
        users: 5,
        tasks: 6,
        held_out: 0,
        difficulty: Some(1),
        names: Names::Common,
    })
    .unwrap();
    let call = made.tasks.iter().flat_map(|task| task.reference.clone().unwrap()).find(|call| {
        let mut desk = made.domain.open();
        desk.call(call).unwrap();
        desk.world().is_changed()
    });
    let call = call.unwrap();
    let answer = made.domain.open().call(&call).unwrap().text;
    let id = call.arguments.get("order_id").or_else(|| call.arguments.get("user_id")).unwrap().as_str().unwrap();
    let table = if call.arguments.contains_key("order_id") { "orders" } else { "users" };
    let field = if table == "orders" { json!({"cancel_reason": "laid over"}) } else { json!({"email": "laid@over"}) };
    let action = json!({"env_type": "assistant", "func_name": call.name, "arguments": call.arguments});
    let called =
        json!({"role": "assistant", "tool_calls": [{"id": "1", "name": call.name, "arguments": call.arguments}]});
    let history = json!([called, {"role": "tool", "id": "1", "content": answer, "requestor": "assistant"}]);
    for state in [
        json!({"initialization_data": {"agent_data": {table: {id: field}}}}),
        json!({"initialization_actions": [action]}),
        json!({"message_history": history}),
    ] {
        let task = tau2_tasks(&json!({"actions": [], "reward_basis": ["DB"]}), &state).unwrap().remove(0);
        tasks::check(&made.domain, std::slice::from_ref(&task)).unwrap();
        // A desk that did not begin there differs from the reference's, which did.
        assert_eq!(judge(&made.domain.open(), &task, &["x"]).reward(), Some(0.0), "{state}");
    }
    let unfit = json!({"initialization_data": {"agent_data": {table: {id: {"address": 7}}}}});
    let task = tau2_tasks(&json!({"actions": [], "reward_basis": ["DB"]}), &unfit).unwrap();
    assert!(tasks::check(&made.domain, &task).unwrap_err().to_string().contains("valid dictionary"));
}

/// A tau2 directory is recognised by its single file of tables.
#[test]
fn a_tau2_directory_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("users.json"), "{}").unwrap();
    assert_eq!(Profile::of(directory.path(), Profile::Strict), Profile::Strict);
    std::fs::write(directory.path().join("db.json"), "{}").unwrap();
    assert_eq!(Profile::of(directory.path(), Profile::Strict), Profile::Tau2);
}
