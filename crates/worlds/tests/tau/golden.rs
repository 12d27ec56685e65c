//! Recordings of the upstream tools: every observation and state hash, byte for byte.

use std::path::Path;
use std::sync::Arc;

use crate::{desk_of, lines, own, upstream};
use hone_testdata::committed;
use hone_worlds::domains::{Domain, Kind, Profile};
use serde_json::Value;

/// Replays the benchmark's own tasks in its own world.
fn replays(file: &str, kind: Kind) {
    replay(&crate::domain(kind, Profile::Compat), &upstream(file));
}

fn replay(domain: &Arc<Domain>, path: &Path) {
    let (recorded, file) = (lines(path), path.display());
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

/// tau-bench's tools in our own worlds, with sensible and with careless arguments.
#[test]
fn tau_bench_in_our_worlds() {
    for kind in [Kind::Retail, Kind::Airline] {
        replay(&own(kind, Profile::Compat), &committed(&format!("tau/{}/tau.jsonl", kind.name())));
    }
}

#[test]
fn tau2_bench_in_our_worlds() {
    for kind in [Kind::Retail, Kind::Airline] {
        replay(&own(kind, Profile::Tau2), &committed(&format!("tau/{}/tau2.jsonl", kind.name())));
    }
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn initial_states_have_the_known_hashes() {
    let golden = std::fs::read_to_string(upstream("golden/initial_hashes.json")).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    for kind in [Kind::Retail, Kind::Airline] {
        let domain = crate::domain(kind, Profile::Compat);
        assert_eq!(domain.open().state_hash().to_string(), golden[kind.name()].as_str().unwrap());
    }
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn retail_train_replays() {
    replays("golden/retail_train_replay.jsonl", Kind::Retail);
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn retail_dev_replays() {
    replays("golden/retail_dev_replay.jsonl", Kind::Retail);
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn airline_test_replays() {
    replays("golden/airline_test_replay.jsonl", Kind::Airline);
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn retail_single_calls() {
    replays("golden/retail_single_calls.jsonl", Kind::Retail);
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn airline_single_calls() {
    replays("golden/airline_single_calls.jsonl", Kind::Airline);
}
