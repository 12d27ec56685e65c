//! Twins of runs whose directory was edited, or filled by something else than training: the metrics say that all is well.

use std::path::Path;
use std::sync::OnceLock;

use hone_chat::ModelDir;
use hone_doctor::{Severity, examine};
use hone_trace::{Advantage, Lesson, Message, ToolCall};
use serde_json::{Map, json};

use crate::probes::model;
use crate::twin::{Episode, HEALTHY, STEPS, Stage, Twin, by_grpo};
use crate::twins::finds;

fn training(stage: Stage) -> bool {
    matches!(stage, Stage::Training(_))
}

/// A rollout cache that is never emptied. The policy's versions do not move either: that follows.
#[test]
fn episodes_of_the_first_step_over_and_over() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                *episode = Episode::healthy(Stage::Training(1), episode.task, episode.replica);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "repeated_episodes", Severity::Error);
    let found = diagnosis.found("repeated_episodes").unwrap();
    assert!(found.finding.evidence.lines[0].contains("of step 1"), "{found:#?}");
    assert!(found.consequences.iter().any(|named| named.check == "policy_frozen"), "{found:#?}");
}

#[test]
fn training_at_another_temperature_than_the_recipe_says() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.sampling.temperature = 0.7;
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "sampling_mismatch", Severity::Error);
    let lines = &diagnosis.found("sampling_mismatch").unwrap().finding.evidence.lines;
    assert_eq!(lines, &["sampled with temperature 0.7, the recipe has temperature 1"]);
}

#[test]
fn evaluations_that_are_not_what_they_are_called() {
    let not_greedy = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Greedy { .. }) {
                episode.sampling.temperature = 1.0;
            }
        },
        ..Twin::default()
    };
    let unlike = Twin {
        episode: |stage, episode| {
            if stage == (Stage::Sampled { after: true }) {
                episode.sampling.temperature = 0.3;
            }
        },
        ..Twin::default()
    };
    for (twin, words) in [(not_greedy, "is not greedy"), (unlike, "that after step 0 temperature 1")] {
        let diagnosis = finds(&twin, "sampling_mismatch", Severity::Error);
        let says = &diagnosis.found("sampling_mismatch").unwrap().finding.says;
        assert!(says.contains(words), "{says}");
    }
}

/// The sampler answers as another model.
#[test]
fn a_base_model_under_its_own_name() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                (episode.served, episode.weights) = ("base", 0);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "served_name", Severity::Error);
    assert!(diagnosis.found("served_name").unwrap().finding.says.contains("\"base\""));
}

/// A run that is not asynchronous, sampled by the policy of three steps before.
#[test]
fn versions_that_lag() {
    let twin = Twin {
        episode: |stage, episode| {
            if let Stage::Training(step) = stage {
                episode.weights = (step - 1).saturating_sub(3);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "staleness", Severity::Error);
    assert!(diagnosis.found("staleness").unwrap().finding.says.contains("up to 3 steps before"));
}

/// The same allowance, used as it may be.
#[test]
fn versions_that_lag_as_far_as_they_may() {
    let recipe = HEALTHY.replace("[train]", "[async]\nstaleness = 3\n[train]").leak();
    let twin = Twin {
        recipe,
        episode: |stage, episode| {
            if let Stage::Training(step) = stage {
                episode.weights = (step - 1).saturating_sub(3);
            }
        },
        ..Twin::default()
    };
    assert!(twin.diagnosis().findings.is_empty(), "{:#?}", twin.diagnosis());
}

fn learned(episode: &Episode, advantage: f64) -> Lesson {
    let tokens = episode.replies.iter().map(Vec::len).sum();
    let logprobs = vec![episode.logprob; tokens];
    let advantage = Advantage::Whole { value: advantage };
    Lesson { advantage, logprobs, entropies: Vec::new(), fates: "t".repeat(tokens) }
}

fn solved(episode: &Episode) -> bool {
    episode.rewards.iter().any(|reward| reward.component == "tau_state" && reward.value() == Some(1.0))
}

#[test]
fn advantages_of_other_episodes() {
    let shuffled = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if episode.replica < 2 { 1.0 } else { -1.0 };
                episode.lesson = Some(learned(episode, sign));
            }
        },
        ..Twin::default()
    };
    let constant = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.lesson = Some(learned(episode, 1.0));
            }
        },
        ..Twin::default()
    };
    for (twin, words) in [(shuffled, "does not have the higher"), (constant, "does not have the higher")] {
        let diagnosis = finds(&twin, "advantage_sign", Severity::Error);
        assert!(diagnosis.found("advantage_sign").unwrap().finding.says.contains(words));
    }
    let right = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if solved(episode) { 1.0 } else { -1.0 };
                episode.lesson = Some(learned(episode, sign * by_grpo()));
            }
        },
        ..Twin::default()
    };
    assert!(right.diagnosis().findings.is_empty(), "{:#?}", right.diagnosis());
}

/// Advantages that are a thousand times too large keep their order.
#[test]
fn advantages_that_were_scaled() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if solved(episode) { 1.0 } else { -1.0 };
                episode.lesson = Some(learned(episode, 1000.0 * sign * by_grpo()));
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "advantage_mismatch", Severity::Error);
    let finding = &diagnosis.found("advantage_mismatch").unwrap().finding;
    assert!(finding.says.contains("times what grpo makes"), "{finding:#?}");
    assert!(finding.evidence.lines[0].contains("is recorded, and grpo makes"), "{finding:#?}");
}

#[test]
fn metrics_that_were_edited_upward() {
    let one = Twin {
        metrics: |step, line| {
            if step == 12 {
                line.insert("reward/success_rate".into(), json!(0.9));
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&one, "metrics_mismatch", Severity::Error);
    let finding = &diagnosis.found("metrics_mismatch").unwrap().finding;
    assert!(finding.says.contains("1 of them too high"), "{finding:#?}");
    assert!(finding.evidence.lines[0].contains("of step 12 is 0.9000, and its traces make 0.5000"), "{finding:#?}");
}

/// Results of evaluations and the report beside them, which are for people, and not what is counted.
#[test]
fn evaluations_that_were_edited_upward() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    Twin::default().record(&path);
    let report = hone_train::report::RunReport::read(&path).unwrap();
    report.save(&path).unwrap();
    assert!(examine(&path).unwrap().healthy.contains(&"metrics_mismatch"));
    let mut better = report.clone();
    better.after.as_mut().unwrap().result.success = Some(1.0);
    better.save(&path).unwrap();
    let diagnosis = examine(&path).unwrap();
    let finding = &diagnosis.found("metrics_mismatch").unwrap().finding;
    assert!(
        finding.evidence.lines[0].starts_with("report.json has a success of 1.0000 after training"),
        "{finding:#?}"
    );
    report.save(&path).unwrap();
    let mut result = serde_json::to_value(&report.after.unwrap().result).unwrap();
    result["success"] = json!(0.99);
    let events = std::fs::read_to_string(path.join("events.jsonl")).unwrap();
    let lines = events.lines().map(|line| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "eval" && event["step"] == STEPS {
            event["result"] = result.clone();
        }
        format!("{event}\n")
    });
    std::fs::write(path.join("events.jsonl"), lines.collect::<String>()).unwrap();
    let diagnosis = examine(&path).unwrap();
    let finding = &diagnosis.found("metrics_mismatch").unwrap().finding;
    assert!(finding.evidence.lines[0].contains("says a success of 0.9900"), "{finding:#?}");
}

/// The metrics still have the shares of the day before.
#[test]
fn a_component_that_is_constant_in_the_traces() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.score("parse_penalty", -0.5);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "dead_component", Severity::Warning);
}

#[test]
fn a_total_that_was_never_written() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.total = Some(f64::NAN);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "total_mismatch", Severity::Error);
}

/// Held-out prompts under other keys.
#[test]
fn held_out_prompts_in_training() {
    let twin = Twin {
        episode: |stage, episode| {
            episode.facts.insert("reference_calls".into(), json!([{"name": "look", "arguments": {}}]));
            if matches!(stage, Stage::Training(step) if step > STEPS / 2) {
                episode.prompt = vec![7, 8, 2000 + episode.task as u32];
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "held_out_overlap", Severity::Error);
    assert_eq!(diagnosis.found("held_out_overlap").unwrap().finding.evidence.traces.len(), 2);
    // The same words with another answer may be another task.
    let elsewhere = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Training(step) if step > STEPS / 2) {
                episode.prompt = vec![7, 8, 2000 + episode.task as u32];
            }
        },
        ..Twin::default()
    };
    finds(&elsewhere, "held_out_overlap", Severity::Warning);
}

/// The environment's words as the policy's.
#[test]
fn tokens_that_are_nobodys_reply() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                episode.turns.pop();
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "records", Severity::Error);
    assert!(diagnosis.found("records").unwrap().finding.says.contains("2 sampled nodes and 1 turns"));
}

#[test]
fn no_token_that_was_trained() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let sign = if solved(episode) { 1.0 } else { -1.0 };
                let lesson = learned(episode, sign * by_grpo());
                episode.lesson = Some(Lesson { fates: "m".repeat(lesson.fates.len()), ..lesson });
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "records", Severity::Error);
    assert!(diagnosis.found("records").unwrap().finding.says.contains("by its traces none was"));
}

#[test]
fn tools_that_answer_without_a_text() {
    let twin = Twin {
        episode: |stage, episode| {
            if training(stage) {
                let said = vec![
                    Message::calls(vec![ToolCall::new("look", Map::new())]),
                    Message::tool("look", ""),
                    Message::assistant("Done."),
                ];
                episode.facts.insert("messages".into(), serde_json::to_value(said).unwrap());
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "unanswered_calls", Severity::Error);
    assert!(diagnosis.found("unanswered_calls").unwrap().finding.says.contains("without a text"));
}

#[test]
fn a_run_that_went_on_otherwise() {
    let twin = Twin {
        events: || {
            let changed = json!({"policy.threads": [2, 8]});
            vec![json!({"event": "extended", "step": 12, "changed": changed})]
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "extended", Severity::Note);
    assert!(diagnosis.found("extended").unwrap().finding.says.contains("policy.threads 2 -> 8"));
}

/// Ids of a text by the tokenizer that lies beside the records.
fn ids(text: &str) -> Vec<u32> {
    static TEXTS: OnceLock<ModelDir> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| ModelDir::open(model()).unwrap());
    texts.tokenizer().unwrap().encode_plain(text).unwrap()
}

fn with_tokenizer(run: &Path) {
    let kept = run.join("checkpoints/step-00000000");
    std::fs::create_dir_all(&kept).unwrap();
    for entry in std::fs::read_dir(model()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
}

/// Prompt, call and answer as a healthy episode has them.
fn told(stage: Stage, episode: &mut Episode) {
    if training(stage) {
        episode.prompt = ids(&format!("Tools: look, which looks. Please look at {}.", episode.task));
        episode.answer = ids("The lamp is green today.");
        let said = vec![
            Message::calls(vec![ToolCall::new("look", Map::new())]),
            Message::tool("look", "The lamp is green today."),
            Message::assistant("Done."),
        ];
        episode.facts.insert("messages".into(), serde_json::to_value(said).unwrap());
    }
}

#[test]
fn prompts_and_answers_that_are_told() {
    let twin = Twin { episode: told, files: with_tokenizer, ..Twin::default() };
    let diagnosis = twin.diagnosis();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:#?}");
    assert!(diagnosis.healthy.contains(&"tools_in_prompt") && diagnosis.healthy.contains(&"tool_results"));
}

#[test]
fn a_prompt_without_its_tools() {
    let twin = Twin {
        episode: |stage, episode| {
            told(stage, episode);
            if training(stage) {
                episode.prompt = ids(&format!("Please see to {}.", episode.task));
            }
        },
        files: with_tokenizer,
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "tools_in_prompt", Severity::Error);
    assert!(diagnosis.found("tools_in_prompt").unwrap().finding.evidence.lines[0].contains("lacks 1 of 1 tools, look"));
}

#[test]
fn answers_that_the_policy_never_sees() {
    let twin = Twin {
        episode: |stage, episode| {
            told(stage, episode);
            if training(stage) {
                episode.answer = ids("-");
            }
        },
        files: with_tokenizer,
        ..Twin::default()
    };
    finds(&twin, "tool_results", Severity::Error);
}

/// A trace that nothing can read any more: exit by a finding, not by a failure of the doctor.
#[test]
fn a_trace_with_other_tools_than_its_prompt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let twin = Twin { events: Vec::new, ..Twin::default() };
    twin.record(&path);
    let segment = path.join("traces/00000.jsonl.zst");
    let text = String::from_utf8(zstd::decode_all(std::fs::File::open(&segment).unwrap()).unwrap()).unwrap();
    let text = text.replace("\"name\":\"look\"", "\"name\":\"peek\"");
    std::fs::write(&segment, zstd::encode_all(text.as_bytes(), 0).unwrap()).unwrap();
    std::fs::remove_file(path.join("traces/index")).unwrap();
    let diagnosis = examine(&path).unwrap();
    let found = diagnosis.found("records").unwrap();
    assert!(found.finding.says.contains("rendered with other tools"), "{found:#?}");
    assert!(diagnosis.has_errors() && diagnosis.findings.len() == 1);
}

/// The guard went back from step 20 to the policy of step 18: the next steps are sampled by that one, and are not stale.
#[test]
fn a_rollback_makes_no_tokens_stale() {
    let files = |path: &std::path::Path| {
        let path = path.join("events.jsonl");
        let mut lines = Vec::new();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            let step = event["step"].as_u64().unwrap_or(0);
            let made = event["event"] == "optimizer_step";
            if made && step > 20 {
                event["policy_step"] = (step - 2).into();
            }
            lines.push(event.to_string());
            if made && step == 20 {
                let guard = json!({"event": "guard", "step": 20, "before": 0.9, "after": 0.1, "steps": 1, "why": "w", "advice": "a",
                    "back_to": 18, "rate_factor": 0.5});
                lines.push(guard.to_string());
            }
        }
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    };
    let episode = |stage, episode: &mut Episode| {
        if let Stage::Training(step @ 21..) = stage {
            episode.weights = step - 3;
        }
    };
    let diagnosis = Twin { episode, files, ..Twin::default() }.diagnosis();
    assert!(diagnosis.found("staleness").is_none(), "{diagnosis:?}");
}
