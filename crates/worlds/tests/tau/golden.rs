//! The compat profile against recordings of the upstream tools: every observation and state hash, byte for byte.

use crate::{data, desk_of, lines};
use hone_worlds::domains::{Kind, Profile};
use serde_json::Value;

/// A step of a recording: the call and what came of it.
fn replays(file: &str, kind: Kind) {
    let Some(domain) = crate::domain(kind, Profile::Compat) else { return };
    let Some(recorded) = lines(file) else { return };
    let mut steps = 0;
    for (line, task) in recorded.iter().enumerate() {
        let mut desk = domain.open();
        let fresh = desk.state_hash();
        let single = [task.clone()];
        let recorded = task.get("steps").and_then(Value::as_array).map_or(&single[..], Vec::as_slice);
        for step in recorded.iter().filter(|step| step.get("skipped").is_none()) {
            let name = step["name"].as_str().unwrap();
            let reply = desk_of(&mut desk, name, &step["kwargs"]);
            let at = format!("{file} line {line}: {name} {}", step["kwargs"]);
            assert_eq!(reply, step["observation"].as_str().unwrap(), "{at}");
            assert_eq!(desk.state_hash().to_string(), step["state_sha256"].as_str().unwrap(), "{at}");
            steps += 1;
        }
        if let Some(changed) = task["state_changed"].as_bool() {
            assert_eq!(desk.state_hash() != fresh, changed, "{file} line {line}");
            assert_eq!(desk.world().is_changed(), changed, "{file} line {line}: structural comparison");
        }
        if let Some(hash) = task["gt_data_hash"].as_str() {
            assert_eq!(desk.state_hash().to_string(), hash, "{file} line {line}");
        }
    }
    assert!(steps > 20, "{file} has {steps} steps");
}

#[test]
fn initial_states_have_the_known_hashes() {
    let Some(golden) = data("golden/initial_hashes.json") else { return };
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
    for kind in [Kind::Retail, Kind::Airline] {
        let Some(domain) = crate::domain(kind, Profile::Compat) else { return };
        assert_eq!(domain.open().state_hash().to_string(), golden[kind.name()].as_str().unwrap());
    }
}

#[test]
fn retail_train_replays() {
    replays("golden/retail_train_replay.jsonl", Kind::Retail);
}

#[test]
fn retail_dev_replays() {
    replays("golden/retail_dev_replay.jsonl", Kind::Retail);
}

#[test]
fn airline_test_replays() {
    replays("golden/airline_test_replay.jsonl", Kind::Airline);
}

#[test]
fn retail_single_calls() {
    replays("golden/retail_single_calls.jsonl", Kind::Retail);
}

#[test]
fn airline_single_calls() {
    replays("golden/airline_single_calls.jsonl", Kind::Airline);
}
