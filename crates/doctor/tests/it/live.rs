//! Checks while a run is under way: each finds its fault once, and a healthy run none.

use hone_doctor::{LIVE, Live, Named};
use hone_train::ledger::Ledger;
use hone_train::recipe::Recipe;
use serde_json::{Map, Value, json};

use crate::twin::line;

const RECIPE: &str = "
[[rubric.component]]
kind = \"tau_state\"
[[rubric.component]]
kind = \"parse_penalty\"
";

/// What is said over a run of so many steps, with the step.
fn watched(steps: u64, change: impl Fn(u64, &mut Map<String, Value>)) -> Vec<(u64, Named)> {
    let mut live = Live::new(&Recipe::parse(RECIPE, &[]).unwrap());
    let mut said = Vec::new();
    for step in 1..=steps {
        let mut line = line(step);
        change(step, &mut line);
        let found = live.see(&Ledger::from_map(&line).unwrap());
        said.extend(found.into_iter().map(|named| (step, named)));
    }
    said
}

#[test]
fn a_healthy_run_is_left_alone() {
    let said = watched(24, |_, _| {});
    assert!(said.is_empty(), "{said:#?}");
}

/// The metric, its value after step 12, and the check that says so.
const FAULTS: [(&str, f64, &str); 12] = [
    ("rollouts/faulted", 12.0, "faulted"),
    ("reward/parse_failure_rate", 0.8, "parse_failures"),
    ("reward/signal_ratio", 0.0, "no_signal"),
    ("reward/success_rate", 0.01, "success_cliff"),
    ("policy/rollout_train_logprobs_abs_diff_mean", 0.5, "logprob_mismatch"),
    ("policy/grad_norm", 90.0, "gradients"),
    ("policy/grad_norm", 0.0, "gradients"),
    ("policy/skipped_steps", 1.0, "gradients"),
    ("policy/policy_kl", 0.7, "kl_runaway"),
    ("generate/avg_num_tokens", 400.0, "length_drift"),
    ("batch_reward/parse_penalty/advantage_share", 0.0, "dead_component"),
    ("async/staleness_mean", 9.0, "staleness"),
];

#[test]
fn every_fault_is_said_once() {
    for (metric, value, check) in FAULTS {
        let said = watched(60, |step, line| {
            // Success that has settled: what grows with it is not paid by it.
            line.insert("reward/success_rate".into(), json!(0.5));
            line.insert("policy/policy_entropy".into(), json!(0.2));
            if step > 12 {
                line.insert(metric.into(), json!(value));
            }
        });
        let names: Vec<&str> = said.iter().map(|(_, named)| named.check).collect();
        assert_eq!(names, [check], "{metric}");
        assert!(said[0].0 > 12, "{metric} is said at step {}", said[0].0);
    }
}

#[test]
fn a_policy_that_stops_exploring_is_said() {
    let said = watched(60, |step, line| {
        line.insert("reward/success_rate".into(), json!(0.3));
        line.insert("policy/policy_entropy".into(), json!(if step < 12 { 0.5 } else { 0.001 }));
    });
    assert_eq!(said.iter().map(|(_, named)| named.check).collect::<Vec<_>>(), ["entropy_collapse"]);
}

#[test]
fn every_check_has_a_fault_above() {
    for check in LIVE {
        let tested = FAULTS.iter().any(|(_, _, name)| *name == check.name) || check.name == "entropy_collapse";
        assert!(tested, "{} has no fault", check.name);
    }
}

#[test]
fn what_is_waived_is_not_said() {
    let recipe = Recipe::parse(&format!("{RECIPE}[doctor]\nwaive = {{ staleness = \"on purpose\" }}\n"), &[]).unwrap();
    let mut live = Live::new(&recipe);
    for step in 1..=20 {
        let mut line = line(step);
        line.insert("async/staleness_mean".into(), json!(9.0));
        assert!(live.see(&Ledger::from_map(&line).unwrap()).is_empty());
    }
}

/// Tasks that the policy could do have not become harder: advice for a hard environment would mislead.
#[test]
fn a_policy_that_lost_what_it_could_do_is_not_advised_to_take_easier_tasks() {
    let collapsed = |from: f64| {
        let said = watched(40, |step, line| {
            let (success, signal) = if step > 12 { (0.0, 0.0) } else { (from, 0.5) };
            line.insert("reward/success_rate".into(), json!(success));
            line.insert("reward/signal_ratio".into(), json!(signal));
        });
        let found = said.into_iter().find(|(_, named)| named.check == "no_signal").unwrap();
        found.1.fix().to_string()
    };
    assert!(collapsed(0.7).contains("go back to a checkpoint"), "{}", collapsed(0.7));
    assert!(collapsed(0.02).contains("easier tasks"));
}
