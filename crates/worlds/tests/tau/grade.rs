//! Result files, re-graded: both formats in worlds of our own, and the recorded gpt-4o file.

use hone_trace::Task;
use hone_worlds::domains::generate::{Generated, Names, Recipe, generate};
use hone_worlds::domains::grade::{Graded, grade};
use hone_worlds::domains::{Kind, Profile};
use serde_json::{Value, json};

use crate::upstream;

fn generated(profile: Profile) -> Generated {
    generate(&Recipe {
        kind: Kind::Retail,
        profile,
        seed: 5,
        users: 10,
        tasks: 6,
        held_out: 0,
        difficulty: Some(1),
        names: Names::Common,
    })
    .unwrap()
}

/// The reference as a transcript, without its last calls.
fn transcript(task: &Task, left_out: usize, stop: bool) -> Vec<Value> {
    let calls = task.reference.as_deref().unwrap();
    let mut messages = vec![json!({"role": "system", "content": "…"}), json!({"role": "user", "content": "hello"})];
    for (at, call) in calls[..calls.len() - left_out].iter().enumerate() {
        let arguments = serde_json::to_string(&call.arguments).unwrap();
        let function = json!({"name": call.name, "arguments": arguments});
        let id = format!("call-{at}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "function": function}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "name": call.name, "content": "…"}));
    }
    messages.push(json!({"role": "assistant", "content": task.outputs.join(" and ")}));
    let last = if stop { "Thanks. ###STOP###" } else { "One moment." };
    messages.push(json!({"role": "user", "content": last}));
    messages
}

fn tau1_episode(task: &Task, reward: f64, traj: &[Value]) -> Value {
    let calls = task.reference.iter().flatten();
    let actions: Vec<_> = calls.map(|call| json!({"name": call.name, "kwargs": call.arguments})).collect();
    let recorded = json!({"user_id": "u", "instruction": task.prompt, "actions": actions, "outputs": task.outputs});
    json!({"task_id": 3, "trial": 1, "reward": reward, "info": {"task": recorded}, "traj": traj})
}

#[test]
fn tau_bench_results_are_graded_by_their_transcripts() {
    let made = generated(Profile::Compat);
    for task in &made.tasks {
        let whole = transcript(task, 0, true);
        let episodes = json!([
            tau1_episode(task, 1.0, &whole),
            tau1_episode(task, 1.0, &transcript(task, 1, true)),
            tau1_episode(task, 1.0, &transcript(task, 0, false)),
            {"task_id": 4, "reward": 0.0, "info": {"error": "rate limit", "traceback": "…"}, "traj": []},
        ]);
        let graded = grade(&made.domain, &episodes).unwrap();
        let rewards: Vec<_> = graded.iter().map(|episode| episode.reward).collect();
        assert_eq!(rewards, [Some(1.0), Some(0.0), Some(0.0), None], "{graded:#?}");
        assert_eq!(graded.iter().map(Graded::agrees).collect::<Vec<_>>(), [Some(true), Some(false), Some(false), None]);
        assert!(graded[2].state == Some(true) && graded[2].why.as_deref().unwrap().contains("never ended"));
        assert_eq!(graded[3].why.as_deref(), Some("its run broke: rate limit"));
    }
}

fn tau2_results(task: &Task, reason: &str, basis: &[&str], messages: &[Value]) -> Value {
    let calls = task.reference.iter().flatten();
    let actions: Vec<_> = calls.map(|call| json!({"name": call.name, "arguments": call.arguments})).collect();
    let criteria = json!({
        "actions": actions, "communicate_info": task.outputs, "nl_assertions": ["is polite"], "reward_basis": basis,
    });
    json!({
        "tasks": [{"id": "7", "user_scenario": {"instructions": "…"}, "evaluation_criteria": criteria}],
        "simulations": [{
            "task_id": "7", "trial": 0, "termination_reason": reason, "reward_info": {"reward": 1.0}, "messages": messages,
        }],
    })
}

#[test]
fn tau2_results_are_graded_by_their_basis() {
    let made = generated(Profile::Tau2);
    let task = &made.tasks[0];
    let messages = transcript(task, 0, true);
    let one = |results: &Value| grade(&made.domain, results).unwrap().remove(0);
    let plain = ["DB", "COMMUNICATE"];
    assert_eq!(one(&tau2_results(task, "user_stop", &plain, &messages)).reward, Some(1.0));
    let stopped = one(&tau2_results(task, "max_steps", &plain, &messages));
    assert!(stopped.reward == Some(0.0) && stopped.why.unwrap().contains("max_steps"));
    assert_eq!(one(&tau2_results(task, "user_stop", &plain, &transcript(task, 1, true))).reward, Some(0.0));
    let judged = one(&tau2_results(task, "user_stop", &["DB", "NL_ASSERTION"], &messages));
    assert!(judged.reward.is_none() && judged.why.unwrap().contains("NL_ASSERTION"));
    let unknown = one(&tau2_results(task, "user_stop", &["DB", "WEATHER"], &messages));
    assert!(unknown.reward.is_none() && unknown.why.unwrap().contains("WEATHER"));
    // Every action must have been called, whatever the final state.
    assert_eq!(one(&tau2_results(task, "user_stop", &["DB", "ACTION"], &messages)).reward, Some(1.0));
    let missed = one(&tau2_results(task, "user_stop", &["ACTION"], &transcript(task, 1, true)));
    assert!(missed.reward == Some(0.0) && missed.conditions.values().any(|made| !made), "{missed:?}");
    // Users of retail have no tools: their calls fail, and change nothing.
    let mut user_tools = messages.clone();
    let call = &task.reference.as_ref().unwrap()[0];
    user_tools[1] = json!({"role": "user", "content": null, "tool_calls": [call]});
    assert_eq!(one(&tau2_results(task, "user_stop", &plain, &user_tools)).reward, Some(1.0));
    let mut by_user = transcript(task, task.reference.as_ref().unwrap().len(), true);
    by_user[1] = user_tools[1].clone();
    assert_eq!(one(&tau2_results(task, "user_stop", &plain, &by_user)).reward, Some(0.0));
    // tau2 counts text beside a call.
    let mut beside = messages.clone();
    let last = beside.len() - 2;
    let said = beside[last]["content"].take();
    beside[last] = json!({"role": "assistant", "content": said, "tool_calls": [{"name": "list_all_product_types", "arguments": {}}]});
    assert_eq!(one(&tau2_results(task, "user_stop", &plain, &beside)).reward, Some(1.0));
}

#[test]
fn other_files_are_no_results() {
    let made = generated(Profile::Compat);
    for file in [json!({}), json!("x"), json!({"simulations": []}), json!(null)] {
        assert!(grade(&made.domain, &file).unwrap_err().to_string().contains("simulations"));
    }
    // Entries of another kind are episodes that cannot be judged, and stop nothing.
    let graded = grade(&made.domain, &json!([1, {}, {"task_id": 2, "traj": [{}], "info": {"task": {}}}])).unwrap();
    assert!(graded.iter().all(|episode| episode.reward.is_none() && episode.why.is_some()), "{graded:#?}");
}

#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn the_recorded_gpt_4o_file_earns_what_it_says() {
    let domain = crate::domain(Kind::Airline, Profile::Compat);
    let path = upstream("tau-bench/historical_trajectories/gpt-4o-airline.json");
    let results: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let graded = grade(&domain, &results).unwrap();
    assert_eq!(graded.len(), 200);
    assert!(graded.iter().all(|episode| episode.agrees() == Some(true)));
}
