//! Twins whose fault lies in the records: traces, rewards and versions that do not fit each other.

use hone_doctor::Severity;
use hone_trace::{Advantage, Boundary, Fault, Lesson, Limit, Message, Outcome, Reward, ToolCall};
use hone_train::first_update;
use hone_train::recipe::Recipe;
use serde_json::{Map, Value, json};

use crate::twin::{Episode, HEALTHY, Stage, Twin, by_grpo};
use crate::twins::finds;

fn training(stage: Stage) -> bool {
    matches!(stage, Stage::Training(_))
}

#[test]
fn metrics_that_count_other_episodes_than_were_recorded() {
    let metrics = |_, line: &mut Map<_, _>| drop(line.insert("rollouts/total".into(), json!(64.0)));
    let diagnosis = finds(&Twin { metrics, ..Twin::default() }, "records", Severity::Error);
    assert!(diagnosis.found("records").unwrap().finding.says.contains("64"));
}

/// Grouped by place after episodes were dropped: prompts are mixed.
#[test]
fn groups_of_several_tasks() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) && episode.task == 1 && episode.replica == 0 {
                episode.key = Some("train-0".into());
            }
        },
        ..Twin::default()
    };
    finds(&twin, "mixed_groups", Severity::Error);
}

/// 1, 1, 1 and a dead server.
#[test]
fn faults_that_earn_zero() {
    let twin = Twin {
        metrics: |_, line| drop(line.insert("rollouts/faulted".into(), json!(4.0))),
        episode: |stage, episode| {
            if training(stage) && episode.replica == 3 {
                episode.outcome = Outcome::Fault { fault: Fault::new(Boundary::Environment, "no route") };
                episode.solve(false);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "faults_scored", Severity::Error);
    assert_eq!(diagnosis.found("faults_scored").unwrap().finding.evidence.traces.len(), 3);
}

#[test]
fn a_judge_whose_timeouts_count_as_failures() {
    let twin = Twin {
        episode: |stage, episode| {
            if !training(stage) && episode.task % 10 >= 3 && stage != (Stage::Greedy { after: true }) {
                episode.rewards[0] = Reward::scored("tau_state", 0.0, "judge: HTTP 503, request timed out");
            }
        },
        ..Twin::default()
    };
    finds(&twin, "scorer_errors", Severity::Error);
}

/// The verdict at close reaches the components and never the total.
#[test]
fn a_total_that_is_not_the_components() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.total = Some(0.0);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "total_mismatch", Severity::Error);
}

/// The sampler serves the base model whatever is trained.
#[test]
fn a_sampler_that_is_never_updated() {
    let twin = Twin { episode: |_, episode| episode.weights = 0, ..Twin::default() };
    let diagnosis = finds(&twin, "policy_frozen", Severity::Error);
    assert!(diagnosis.found("policy_frozen").unwrap().finding.evidence.lines[0].contains("tokens were trained"));
}

/// Evaluations go to the base model, training does not.
#[test]
fn an_evaluation_of_the_base_model() {
    let twin = Twin {
        episode: |stage, episode| {
            if !training(stage) {
                episode.weights = 0;
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "policy_frozen", Severity::Error);
    assert!(diagnosis.found("policy_frozen").unwrap().finding.says.contains("evaluation"));
}

#[test]
fn logprobs_that_were_filled_up() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.replies[0] = vec![10 + episode.replica, 11, 12, 13];
                episode.replies[1] = vec![20, 21, 22, 2];
                episode.logprob = 0.0;
            }
        },
        ..Twin::default()
    };
    finds(&twin, "padded_logprobs", Severity::Error);
}

/// Outcome of learning from an episode: an advantage, and the learner's logprobs.
fn lesson(episode: &Episode, advantage: f64, logprob: impl Fn(usize) -> f32) -> Lesson {
    let tokens = episode.replies.iter().map(Vec::len).sum();
    let advantage = Advantage::Whole { value: advantage };
    Lesson { advantage, logprobs: (0..tokens).map(logprob).collect(), entropies: Vec::new(), fates: String::new() }
}

fn solved(episode: &Episode) -> bool {
    episode.rewards.iter().any(|reward| reward.component == "tau_state" && reward.value() == Some(1.0))
}

/// The metrics say that all is well.
#[test]
fn logprobs_of_other_tokens() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if solved(episode) { 1.0 } else { -1.0 };
                episode.lesson = Some(lesson(episode, sign * by_grpo(), |token| -0.3 * (token % 4) as f32));
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "logprob_mismatch", Severity::Error);
    assert_eq!(diagnosis.found("logprob_mismatch").unwrap().finding.evidence.traces.len(), 3);
}

/// The healthy recipe, with two optimizer steps a batch.
fn two_updates() -> &'static str {
    HEALTHY.replace("[train]", "[train]\nmini_batch = 8").leak()
}

/// The learner scores the episodes of a later update with a policy that earlier ones moved: only the first one's compare.
#[test]
fn logprobs_that_drift_between_updates_of_one_batch() {
    let drifting = Twin {
        recipe: two_updates(),
        episode: |stage, episode| {
            let Stage::Training(step) = stage else { return };
            episode.logprob -= 0.1 * episode.replica as f32;
            let first = first_update(&Recipe::parse(two_updates(), &[]).unwrap(), step, 16);
            let drift = if first.contains(&(4 * episode.task + episode.replica as usize)) { 0.0 } else { 0.5 };
            let (sign, own) = (if solved(episode) { 1.0 } else { -1.0 }, episode.logprob);
            let drift = move |token: usize| if token.is_multiple_of(2) { drift } else { -drift };
            episode.lesson = Some(lesson(episode, sign * by_grpo(), |token| own + drift(token)));
        },
        ..Twin::default()
    };
    assert!(drifting.diagnosis().found("logprob_mismatch").is_none());
    let one_update = Twin { recipe: HEALTHY, ..drifting };
    assert!(one_update.diagnosis().found("logprob_mismatch").is_some(), "one update has nothing to drift from");
}

#[test]
fn calls_that_only_the_traces_show_as_never_run() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.turns.iter_mut().for_each(|turn| (turn.executed, turn.failed) = (0, 0));
            }
        },
        ..Twin::default()
    };
    finds(&twin, "calls_not_run", Severity::Error);
}

#[test]
fn advantages_against_the_rewards() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if solved(episode) { -1.0 } else { 1.0 };
                episode.lesson = Some(lesson(episode, sign * by_grpo(), |_| episode.logprob));
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "advantage_sign", Severity::Error);
    assert!(diagnosis.found("advantage_sign").unwrap().finding.says.contains("(100.0 %)"));
}

#[test]
fn one_call_over_and_over() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let call = episode.turns[0].clone();
                episode.turns = vec![call.clone(), call.clone(), call];
                episode.replies = vec![vec![10 + episode.replica, 11]; 3];
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "repeated_calls", Severity::Warning);
    assert_eq!(diagnosis.found("repeated_calls").unwrap().finding.evidence.lines, ["up to 3 times in a row"]);
}

fn say(episode: &mut Episode, messages: &[Message]) {
    episode.facts.insert("messages".into(), serde_json::to_value(messages).unwrap());
}

#[test]
fn calls_without_an_answer() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let call = || Message::calls(vec![ToolCall::new("look", Map::new())]);
                say(episode, &[Message::user("go"), call(), call(), Message::assistant("Done.")]);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "unanswered_calls", Severity::Error);
}

/// 436 well-formed calls, all of them sent to the user.
#[test]
fn calls_that_are_told_to_the_user() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
                say(episode, &[Message::user("go"), Message::assistant(call), Message::user("?")]);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "calls_as_text", Severity::Error);
    assert!(diagnosis.found("calls_as_text").unwrap().fix().contains("rollout.format = \"hermes\""));
}

#[test]
fn reasoning_that_never_ends() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.outcome = Outcome::Truncated { limit: Limit::ReplyTokens };
                say(episode, &[Message::user("go"), Message::assistant("<think>Let me see. Let me see.")]);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "reasoning_budget", Severity::Error);
    assert!(diagnosis.found("truncated").is_some(), "{diagnosis:#?}");
}

/// The split grew with the data.
#[test]
fn held_out_tasks_that_move() {
    let twin = Twin {
        episode: |stage, episode| {
            if stage == (Stage::Sampled { after: true }) && episode.task < 8 {
                episode.key = Some(format!("held-out-{}", 1000 + episode.task));
            }
        },
        ..Twin::default()
    };
    finds(&twin, "held_out_changed", Severity::Error);
}

#[test]
fn evaluation_on_training_tasks() {
    let twin = Twin {
        episode: |stage, episode| {
            if !training(stage) {
                episode.key = Some(format!("train-{}", episode.task));
            }
        },
        ..Twin::default()
    };
    finds(&twin, "held_out_changed", Severity::Error);
}

#[test]
fn a_policy_that_is_destroyed() {
    let twin = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(step) if step >= 14) {
                episode.solve(false);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "success_cliff", Severity::Error);
}

/// What a recipe waives does not fail, and stays to be read.
#[test]
fn a_waiver_excuses_and_is_told() {
    let metrics = |_, line: &mut Map<String, Value>| drop(line.insert("policy/policy_lr".into(), json!(0.0)));
    let diagnosis = Twin { metrics, ..Twin::default() }.diagnosis();
    assert!(diagnosis.has_errors());
    let waivers = [("learning_rate".to_owned(), "a dry run of the data path".to_owned())].into();
    let waived = diagnosis.waive(&waivers);
    assert!(!waived.has_errors());
    assert_eq!(waived.found("learning_rate").unwrap().waived.as_deref(), Some("a dry run of the data path"));
    let line = serde_json::to_value(&waived).unwrap();
    assert_eq!(line["findings"][0]["waived"], "a dry run of the data path");
}
