//! The tau reward against recorded gpt-4o episodes, and the published pass^k over all of them.

use std::collections::BTreeMap;

use crate::{lines, upstream};
use hone_trace::{Task, ToolCall};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Desk, Kind, Profile, TRANSFER, tasks};
use serde_json::Value;

const NOTHING: &[&str] = &[];

struct Recorded {
    task: usize,
    trial: u64,
    reward: f64,
    desk: Desk,
    replies: Vec<String>,
    /// True if the episode ended properly and was scored.
    ended: bool,
}

/// Plays back one transcript: the agent's calls go to a fresh desk, its texts nowhere.
fn play(desk: Desk, episode: &Value) -> Recorded {
    let mut recorded = Recorded {
        task: episode["task_id"].as_u64().unwrap() as usize,
        trial: episode["trial"].as_u64().unwrap(),
        reward: episode["reward"].as_f64().unwrap(),
        desk,
        replies: Vec::new(),
        ended: false,
    };
    for message in episode["traj"].as_array().unwrap() {
        let content = message["content"].as_str().unwrap_or_default();
        match message["role"].as_str().unwrap() {
            "user" => recorded.ended |= content.contains("###STOP###"),
            "assistant" => match message["tool_calls"].as_array() {
                Some(calls) => {
                    let call: ToolCall = serde_json::from_value(calls[0].clone()).unwrap();
                    recorded.ended |= call.name == TRANSFER;
                    recorded.desk.call(&call).unwrap();
                }
                None => recorded.replies.push(content.to_owned()),
            },
            _ => {}
        }
    }
    recorded
}

fn reward(recorded: &Recorded, task: &Task) -> f64 {
    let verdict = judge(&recorded.desk, task, &recorded.replies);
    if recorded.ended { verdict.reward().unwrap() } else { 0.0 }
}

fn choose(n: u64, k: u64) -> f64 {
    (0..k).map(|i| (n as f64 - i as f64) / (i + 1) as f64).product()
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn recorded_rewards_and_pass_hat_k_are_reproduced() {
    let domain = crate::domain(Kind::Airline, Profile::Compat);
    let path = upstream("tau-bench/historical_trajectories/gpt-4o-airline.json");
    let tasks = tasks::load(Kind::Airline, &upstream("tau-bench/airline"), "test").unwrap();
    let episodes: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let played: Vec<_> = episodes.as_array().unwrap().iter().map(|episode| play(domain.open(), episode)).collect();
    assert_eq!(played.len(), 200);

    let mut successes: BTreeMap<usize, u64> = BTreeMap::new();
    for recorded in &played {
        let ours = reward(recorded, &tasks[recorded.task]);
        assert_eq!(ours, recorded.reward, "task {} trial {}", recorded.task, recorded.trial);
        *successes.entry(recorded.task).or_default() += u64::from(ours == 1.0);
    }
    for (k, published) in [(1, 0.42), (2, 0.2733), (3, 0.22), (4, 0.20)] {
        let pass: f64 = successes.values().map(|c| choose(*c, k) / choose(4, k)).sum::<f64>() / successes.len() as f64;
        assert!((pass - published).abs() < 5e-5, "pass^{k} = {pass}");
    }

    let golden = lines(&upstream("golden/airline_gpt4o_rewards.jsonl"));
    for line in &golden {
        let same = |recorded: &&Recorded| line["task_id"] == recorded.task as u64 && line["trial"] == recorded.trial;
        let recorded = played.iter().find(same).unwrap();
        assert_eq!(line["recomputed_reward"].as_f64().unwrap(), reward(recorded, &tasks[recorded.task]));
        assert_eq!(line["final_state_sha256"].as_str().unwrap(), recorded.desk.state_hash().to_string());
    }
    assert_eq!(golden.len(), 100);
}

/// Section 1.10 of the spec: how often doing nothing earns 1, and which references change nothing.
#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn doing_nothing_earns_what_is_known() {
    for (kind, split, tasks_in_split, unchanged, rewarded) in [
        (Kind::Retail, "test", 115, 11, 7),
        (Kind::Retail, "train", 500, 5, 5),
        (Kind::Retail, "dev", 20, 1, 1),
        (Kind::Airline, "test", 50, 20, 19),
    ] {
        let domain = crate::domain(kind, Profile::Compat);
        let tasks = tasks::load(kind, &upstream(&format!("tau-bench/{}", kind.name())), split).unwrap();
        assert_eq!(tasks.len(), tasks_in_split);
        let verdicts: Vec<_> = tasks.iter().map(|task| judge(&domain.open(), task, NOTHING)).collect();
        assert_eq!(verdicts.iter().filter(|verdict| verdict.state).count(), unchanged, "{} {split}", kind.name());
        assert_eq!(verdicts.iter().filter(|verdict| verdict.reward() == Some(1.0)).count(), rewarded);
    }
}

#[test]
fn outputs_are_looked_for_as_upstream_does() {
    use hone_worlds::domains::verdict::is_said;
    assert!(is_said("1024", &["That is $1,024."]));
    assert!(is_said("10", &["1024"]), "a substring counts");
    assert!(!is_said("1,024", &["That is $1,024."]), "commas leave the reply, not the output");
    assert!(is_said("Cat Eye", &["the CAT EYE one"]));
    assert!(!is_said("x", NOTHING));
}
