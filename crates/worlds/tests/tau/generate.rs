//! Generated worlds and tasks: reproducible from the seed, solvable, and not by doing nothing.

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::{Action, Arena as _, Message, Task};
use hone_worlds::domains::generate::{Generated, Recipe, generate};
use hone_worlds::domains::service::{Service, scripted_users};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Kind, Profile};

const NOTHING: &[&str] = &[];

const PROFILES: [Profile; 3] = [Profile::Compat, Profile::Strict, Profile::Tau2];

fn made(kind: Kind, profile: Profile, seed: u64) -> Generated {
    generate(&Recipe { kind, profile, seed, users: 40, tasks: 60, held_out: 0, difficulty: None }).unwrap()
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
        let recipe =
            Recipe { kind, profile: Profile::Strict, seed: 6, users: 40, tasks: 30, held_out: 10, difficulty: None };
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
    };
    let Err(error) = generate(&recipe) else { panic!("one customer wanted 400 different things") };
    assert!(error.to_string().contains("make the world larger"), "{error}");
}
