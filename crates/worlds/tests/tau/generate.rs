//! Generated worlds and tasks: reproducible from the seed, solvable, and not by doing nothing.

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::{Action, Arena as _, Message, Task, ToolCall};
use hone_worlds::domains::generate::{Generated, Names, Recipe, generate};
use hone_worlds::domains::service::{Service, scripted_users};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Kind, Profile};
use serde_json::{Value, json};

const NOTHING: &[&str] = &[];

const PROFILES: [Profile; 3] = [Profile::Compat, Profile::Strict, Profile::Tau2];

fn made(kind: Kind, profile: Profile, seed: u64) -> Generated {
    generate(&Recipe { kind, profile, seed, users: 40, tasks: 60, held_out: 0, difficulty: None, names: Names::Common })
        .unwrap()
}

#[test]
fn the_reference_earns_one_and_nothing_earns_nothing() {
    for kind in [Kind::Retail, Kind::Airline] {
        for (profile, seed) in PROFILES.into_iter().zip([1, 2, 3]).chain([(Profile::Strict, 4), (Profile::Strict, 5)]) {
            let Generated { domain, tasks, .. } = made(kind, profile, seed);
            assert_eq!(tasks.len(), 60);
            for task in &tasks {
                let mut desk = domain.open();
                for call in task.reference.as_ref().unwrap() {
                    let reply = desk.call(call).unwrap();
                    assert!(!reply.failed, "{}: {call:?}: {}", task.key, reply.text);
                }
                assert_eq!(judge(&desk, task, &task.outputs).reward(), Some(1.0), "{}", task.key);
                assert_eq!(judge(&domain.open(), task, NOTHING).reward(), Some(0.0), "{}", task.key);
            }
        }
    }
}

#[test]
fn one_seed_makes_one_world() {
    for kind in [Kind::Retail, Kind::Airline] {
        let (a, b, c) =
            (made(kind, Profile::Strict, 7), made(kind, Profile::Strict, 7), made(kind, Profile::Strict, 8));
        assert_eq!(a.tasks, b.tasks);
        assert_eq!(a.domain.open().state_hash(), b.domain.open().state_hash());
        assert_ne!(a.domain.open().state_hash(), c.domain.open().state_hash());
        assert_ne!(a.tasks, c.tasks);
    }
}

#[test]
fn more_tasks_move_none_and_held_out_customers_are_never_trained_on() {
    for kind in [Kind::Retail, Kind::Airline] {
        let recipe = Recipe {
            kind,
            profile: Profile::Strict,
            seed: 6,
            users: 40,
            tasks: 30,
            held_out: 10,
            difficulty: None,
            names: Names::Common,
        };
        let (few, many) =
            (generate(&recipe).unwrap(), generate(&Recipe { tasks: 60, held_out: 20, ..recipe }).unwrap());
        assert_eq!((&few.tasks[..], &few.held_out[..]), (&many.tasks[..30], &many.held_out[..10]));
        let customers =
            |tasks: &[Task]| tasks.iter().map(|task| task.extra["user_id"].to_string()).collect::<BTreeSet<_>>();
        assert!(customers(&many.tasks).is_disjoint(&customers(&many.held_out)));
    }
}

#[test]
fn difficulties_differ_in_what_they_take() {
    for kind in [Kind::Retail, Kind::Airline] {
        let tasks = made(kind, Profile::Strict, 9).tasks;
        let mut calls: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for task in &tasks {
            calls.entry(task.difficulty.unwrap()).or_default().push(task.reference.as_ref().unwrap().len());
        }
        let mean = |level: u8| calls[&level].iter().sum::<usize>() as f64 / calls[&level].len() as f64;
        assert!(mean(1) < mean(2) && mean(2) < mean(3), "{} {} {}", mean(1), mean(2), mean(3));
        assert!(tasks.iter().all(|task| task.outputs.is_empty() == (task.difficulty != Some(3))));
    }
}

#[test]
fn tasks_use_many_tools() {
    let names = |kind: Kind| {
        let tasks = made(kind, Profile::Strict, 11).tasks;
        let calls = tasks.into_iter().flat_map(|task| task.reference.unwrap());
        calls.map(|call| call.name).collect::<BTreeSet<_>>()
    };
    assert!(names(Kind::Retail).len() >= 9, "{:?}", names(Kind::Retail));
    assert!(names(Kind::Airline).len() >= 8, "{:?}", names(Kind::Airline));
}

/// The oracle: looks up, asks for confirmation before it writes, reports, answers the question.
async fn play(service: &Service, task: &Task) -> serde_json::Map<String, serde_json::Value> {
    let mut episode = service.open(task, 1).await.unwrap();
    assert!(matches!(&episode.first[..], [Message::User { .. }]));
    for call in task.reference.clone().unwrap() {
        let turn = episode.env.step(Action::Calls(vec![call])).await.unwrap();
        assert_eq!((turn.failed, turn.done), (0, false));
    }
    let said = format!("This is done. {}", task.outputs.join(" "));
    for _ in 0..4 {
        if episode.env.step(Action::Reply(said.clone())).await.unwrap().done {
            return episode.env.end().facts;
        }
    }
    panic!("{}: the user never stopped", task.key);
}

#[test]
fn the_oracle_wins_every_episode() {
    for kind in [Kind::Retail, Kind::Airline] {
        let Generated { domain, tasks, .. } = made(kind, Profile::Strict, 12);
        let service = Service::new(domain, scripted_users()).unwrap();
        for task in &tasks {
            let facts = futures::executor::block_on(play(&service, task));
            assert_eq!(facts["db_match"], true, "{}", task.key);
            assert!(facts["outputs_said"].as_object().unwrap().values().all(|said| said == true), "{}", task.key);
            assert_eq!(facts["changes"]["made"], facts["changes"]["wanted"]);
        }
    }
}

#[test]
fn a_world_too_small_says_so() {
    let recipe = Recipe {
        kind: Kind::Airline,
        profile: Profile::Strict,
        seed: 1,
        users: 0,
        tasks: 400,
        held_out: 0,
        difficulty: Some(1),
        names: Names::Common,
    };
    let Err(error) = generate(&recipe) else { panic!("one customer wanted 400 different things") };
    assert!(error.to_string().contains("raise env.customers"), "{error}");
}

#[test]
fn invented_names_of_held_out_customers_hardly_occur_in_training() {
    let names = |names| {
        let recipe = Recipe {
            kind: Kind::Retail,
            profile: Profile::Strict,
            seed: 2,
            users: 400,
            tasks: 300,
            held_out: 80,
            difficulty: Some(1),
            names,
        };
        let Generated { tasks, held_out, .. } = generate(&recipe).unwrap();
        let words = |tasks: &[Task]| -> BTreeSet<String> {
            let ids = tasks.iter().map(|task| task.extra["user_id"].as_str().unwrap().to_owned());
            ids.flat_map(|id| id.split('_').take(2).map(str::to_owned).collect::<Vec<_>>()).collect()
        };
        (words(&tasks), words(&held_out))
    };
    let (common, held_out) = names(Names::Common);
    assert!(common.len() <= 64 && held_out.intersection(&common).count() * 2 > held_out.len());
    let (invented, unseen) = names(Names::Invented);
    assert!(invented.len() > 300, "{}", invented.len());
    // A word of two short syllables may occur twice.
    assert!(unseen.intersection(&invented).count() * 20 < unseen.len(), "{:?}", unseen.intersection(&invented));
}

#[test]
fn a_customer_who_moved_is_found_by_the_new_zip_code_alone() {
    let Generated { domain, tasks, .. } = made(Kind::Retail, Profile::Strict, 7);
    let id = tasks[0].extra["user_id"].as_str().unwrap();
    let mut desk = domain.open();
    let mut call = |name: &str, arguments: Value| {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        desk.call(&ToolCall::new(name, arguments)).unwrap().text
    };
    let record: Value = serde_json::from_str(&call("get_user_details", json!({"user_id": id}))).unwrap();
    let find = |zip: &str| {
        let name = &record["name"];
        json!({"first_name": name["first_name"].as_str().unwrap().to_uppercase(), "last_name": name["last_name"], "zip": zip})
    };
    let old = record["address"]["zip"].as_str().unwrap();
    assert_eq!(call("find_user_id_by_name_zip", find(old)), id);
    let mut address = record["address"].clone();
    address["zip"] = "99999".into();
    address["user_id"] = id.into();
    call("modify_user_address", address);
    assert_eq!(call("find_user_id_by_name_zip", find("99999")), id);
    assert!(call("find_user_id_by_name_zip", find(old)).contains("user not found"));
    assert_eq!(call("find_user_id_by_email", json!({"email": record["email"]})), id);
}
