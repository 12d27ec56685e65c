//! Twins whose fault is in the episodes, in learning, or in the rewards.

use hone_arena::rewards::calibration::brier;
use hone_doctor::{Diagnosis, Severity};
use hone_trace::{Boundary, Fault, Limit, Outcome, ParseFailure, ParseFailureKind, Reward};
use serde_json::{Map, json};

use crate::twin::{Episode, Stage, Twin};

/// The check finds it as a root cause, and no other root cause is an error.
#[track_caller]
pub(crate) fn finds(twin: &Twin, check: &str, severity: Severity) -> Diagnosis {
    let diagnosis = twin.diagnosis();
    let found = diagnosis.findings.iter().find(|named| named.check == check);
    let found = found.unwrap_or_else(|| panic!("{check} is not among the root causes: {diagnosis:#?}"));
    assert_eq!(found.finding.severity, severity, "{found:#?}");
    for named in diagnosis.findings.iter().filter(|named| named.check != check) {
        assert_ne!(named.finding.severity, Severity::Error, "beside {check}: {named:#?}");
    }
    diagnosis
}

#[test]
fn a_healthy_run_has_no_finding() {
    let diagnosis = Twin::default().diagnosis();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:#?}");
    assert!(diagnosis.healthy.len() > 20, "{diagnosis:#?}");
}

#[test]
fn a_broken_environment() {
    let twin = Twin {
        metrics: |_, line| {
            line.insert("rollouts/faulted".into(), json!(16.0));
            line.insert("tokens/trained".into(), json!(0.0));
            line.insert("tokens/faulted".into(), json!(80.0));
            line.insert("reward/signal_ratio".into(), json!(0.0));
        },
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                episode.outcome = Outcome::Fault { fault: Fault::new(Boundary::Environment, "no route to the shop") };
                episode.rewards.clear();
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "faulted", Severity::Error);
    let found = diagnosis.found("faulted").unwrap();
    assert!(found.finding.evidence.lines[0].contains("no route to the shop"));
    assert!(found.consequences.iter().any(|named| named.check == "nothing_trained"), "{found:#?}");
}

#[test]
fn a_judge_that_was_down() {
    let twin = Twin {
        episode: |stage, episode| {
            if stage == (Stage::Sampled { after: true }) && episode.task % 2 == 0 {
                episode.rewards = vec![Reward::unscored("tau_state", "the judge is down")];
            }
        },
        ..Twin::default()
    };
    finds(&twin, "unscored", Severity::Error);
}

#[test]
fn replies_that_cannot_be_read() {
    let twin = Twin {
        metrics: |_, line| {
            line.insert("reward/parse_failure_rate".into(), json!(0.94));
            line.insert("environment/tool_calls_executed".into(), json!(3.0));
            line.insert("reward/signal_ratio".into(), json!(0.01));
        },
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                for turn in &mut episode.turns {
                    (turn.calls, turn.executed, turn.failed) = (Vec::new(), 0, 0);
                    turn.failure = Some(ParseFailure {
                        kind: ParseFailureKind::MalformedMarkup,
                        message: "a call in another format".into(),
                        at: 0,
                        hint: "write <tool_call>".into(),
                    });
                }
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "parse_failures", Severity::Error);
    let found = diagnosis.found("parse_failures").unwrap();
    assert!(found.finding.evidence.lines.iter().any(|line| line.contains("malformed_markup")), "{found:#?}");
    assert!(diagnosis.found("no_signal").is_some() && diagnosis.findings.len() == 1, "{diagnosis:#?}");
}

#[test]
fn calls_that_are_never_run() {
    let twin = Twin {
        metrics: |_, line| drop(line.insert("environment/tool_calls_executed".into(), json!(0.0))),
        episode: |_, episode| {
            for turn in &mut episode.turns {
                (turn.executed, turn.failed) = (0, 0);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "calls_not_run", Severity::Error);
    assert_eq!(diagnosis.found("calls_not_run").unwrap().finding.evidence.traces.len(), 3);
}

#[test]
fn a_window_that_is_too_small() {
    let twin = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                episode.outcome = Outcome::Truncated { limit: Limit::Context };
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "truncated", Severity::Error);
    assert!(diagnosis.found("truncated").unwrap().finding.evidence.lines[0].contains("rollout.window"));
}

/// Temperature 0 in training: identical rollouts, no variance, nothing trained. One cause.
#[test]
fn no_exploration() {
    let twin = Twin {
        metrics: |_, line| {
            line.insert("reward/signal_ratio".into(), json!(0.0));
            line.insert("tokens/trained".into(), json!(0.0));
            line.insert("policy/grad_norm".into(), json!(0.0));
        },
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                episode.sampling.temperature = 0.0;
                episode.replies = vec![vec![10, 11, 12], vec![20, 2]];
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "identical_rollouts", Severity::Error);
    let found = diagnosis.found("identical_rollouts").unwrap();
    assert_eq!(found.finding.evidence.lines, ["the temperature is 0"]);
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
}

#[test]
fn one_seed_for_a_group() {
    let twin = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                episode.seed = 1;
                episode.replies = vec![vec![10, 11, 12], vec![20, 2]];
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "identical_rollouts", Severity::Error);
    assert!(diagnosis.found("identical_rollouts").unwrap().finding.evidence.lines[0].contains("one seed"));
}

#[test]
fn a_learning_rate_of_zero() {
    let metrics = |_, line: &mut serde_json::Map<_, _>| drop(line.insert("policy/policy_lr".into(), json!(0.0)));
    finds(&Twin { metrics, ..Twin::default() }, "learning_rate", Severity::Error);
}

#[test]
fn a_reward_too_sparse_to_learn_from() {
    let twin = Twin {
        metrics: |_, line| {
            line.insert("reward/signal_ratio".into(), json!(0.005));
        },
        ..Twin::default()
    };
    finds(&twin, "no_signal", Severity::Error);
}

/// Another policy is served than trained.
#[test]
fn a_sampler_that_does_not_follow() {
    let twin = Twin {
        metrics: |step, line| {
            line.insert("policy/rollout_train_logprobs_abs_diff_mean".into(), json!(0.02 * step as f64));
            line.insert("policy/rollout_train_logprobs_corr".into(), json!(1.0 - 0.01 * step as f64));
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "logprob_mismatch", Severity::Error);
    let lines = &diagnosis.found("logprob_mismatch").unwrap().finding.evidence.lines;
    assert!(lines.iter().any(|line| line.contains("does not follow")), "{lines:?}");
}

#[test]
fn old_tokens() {
    let metrics = |_, line: &mut serde_json::Map<_, _>| drop(line.insert("async/staleness_mean".into(), json!(9.0)));
    finds(&Twin { metrics, ..Twin::default() }, "staleness", Severity::Warning);
}

#[test]
fn gradients_that_are_not_finite() {
    let twin = Twin {
        metrics: |step, line| {
            if step == 5 {
                line.insert("policy/skipped_steps".into(), json!(1.0));
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "gradients", Severity::Error);
    assert_eq!(diagnosis.found("gradients").unwrap().finding.evidence.lines, ["the first in step 5"]);
}

#[test]
fn gradients_that_are_zero() {
    let metrics = |_, line: &mut Map<_, _>| drop(line.insert("policy/grad_norm".into(), json!(0.0)));
    let diagnosis = finds(&Twin { metrics, ..Twin::default() }, "gradients", Severity::Error);
    assert!(diagnosis.found("gradients").unwrap().fix().contains("frozen"));
}

#[test]
fn a_gradient_spike() {
    let twin = Twin {
        metrics: |step, line| {
            if step == 7 {
                line.insert("policy/grad_norm".into(), json!(40.0));
            }
        },
        ..Twin::default()
    };
    finds(&twin, "gradients", Severity::Warning);
}

#[test]
fn an_update_that_goes_too_far() {
    let metrics = |_, line: &mut serde_json::Map<_, _>| drop(line.insert("policy/policy_kl".into(), json!(0.7)));
    finds(&Twin { metrics, ..Twin::default() }, "kl_runaway", Severity::Warning);
}

#[test]
fn a_policy_that_stops_exploring() {
    let twin = Twin {
        metrics: |step, line| {
            line.insert("policy/policy_entropy".into(), json!(if step < 12 { 0.5 } else { 0.001 }));
        },
        ..Twin::default()
    };
    finds(&twin, "entropy_collapse", Severity::Warning);
}

#[test]
fn a_component_without_variance() {
    let twin = Twin {
        metrics: |_, line| {
            line.insert("batch_reward/tau_state/advantage_share".into(), json!(1.0));
            line.insert("batch_reward/parse_penalty/advantage_share".into(), json!(0.0));
        },
        ..Twin::default()
    };
    finds(&twin, "dead_component", Severity::Warning);
}

const THREE: &str = "
name = \"twin\"
[train]
steps = 24
group_size = 4
[[rubric.component]]
kind = \"tau_state\"
[[rubric.component]]
kind = \"format\"
[[rubric.component]]
kind = \"grounding\"
";

#[test]
fn components_behind_one_gate() {
    let twin = Twin {
        recipe: THREE,
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(_)) {
                let read = f64::from(u8::from(episode.replica > 0));
                for component in ["tau_state", "format", "grounding"] {
                    episode.score(component, read);
                }
                episode.score("parse_penalty", 0.0);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "shared_gate", Severity::Warning);
}

/// Confidences that say the same of every ticket.
#[test]
fn a_constant_confidence() {
    let twin = Twin {
        episode: |stage, episode| {
            let solved =
                episode.rewards.iter().any(|reward| reward.component == "tau_state" && reward.value() == Some(1.0));
            let confidence = if stage == (Stage::Sampled { after: true }) { 0.9 } else { 0.5 };
            let verdict = brier(Some(confidence), solved);
            episode.rewards.push(Reward { component: "calibration".into(), verdict });
        },
        ..Twin::default()
    };
    finds(&twin, "constant_confidence", Severity::Warning);
}

/// Film trivia: longer replies earn more and solve nothing.
#[test]
fn a_reward_that_pays_for_length() {
    let twin = Twin {
        metrics: |step, line| {
            line.insert("generate/avg_num_tokens".into(), json!(50.0 * step as f64));
        },
        episode: |stage, episode| {
            if let Stage::Training(_) = stage {
                episode.replies[0] = vec![10; 3 + 10 * episode.replica as usize];
                episode.score("parse_penalty", f64::from(episode.replica));
            }
        },
        ..Twin::default()
    };
    finds(&twin, "length_paid", Severity::Warning);
}

#[test]
fn a_reward_that_rises_while_held_out_success_does_not() {
    let twin = Twin {
        episode: |stage, episode| {
            if let Stage::Greedy { after: true } | Stage::Sampled { after: true } = stage {
                let before = episode.task % 10 < 3;
                episode.solve(before);
            }
            if matches!(stage, Stage::Training(step) if step > 12) && episode.replica < 3 {
                episode.solve(true);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "reward_without_success", Severity::Warning);
}

#[test]
fn rejection_weighted_imitation() {
    let recipe =
        "name = \"twin\"\ncredit = { name = \"grpo\", negative = 0.03 }\n[train]\nsteps = 24\ngroup_size = 4\n";
    let episode = |_, episode: &mut Episode| episode.score("parse_penalty", 0.0);
    finds(&Twin { recipe, episode, ..Twin::default() }, "rejection_weighted", Severity::Note);
}
