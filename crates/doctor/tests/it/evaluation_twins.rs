//! Twins whose fault is in the held-out tasks, or in what the evaluations of them say.

use hone_doctor::Severity;
use hone_trace::Reward;
use serde_json::json;

use crate::twin::{Stage, TASKS, Twin};
use crate::twins::finds;

#[test]
fn held_out_tasks_from_training() {
    let twin = Twin {
        events: || vec![json!({"event": "overlap", "result": {"held_out": TASKS, "prompts": 0.42, "calls": 0.5}})],
        ..Twin::default()
    };
    finds(&twin, "held_out_overlap", Severity::Error);
    // The same ticket in another knowledge base has another answer.
    let twin = Twin {
        events: || {
            let result = json!({"held_out": TASKS, "prompts": 0.42, "calls": 0.1, "tasks": 0.0});
            vec![json!({"event": "overlap", "result": result})]
        },
        ..Twin::default()
    };
    finds(&twin, "held_out_overlap", Severity::Warning);
}

#[test]
fn a_filter_in_the_evaluation() {
    let twin = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Sampled { .. }) {
                episode.sampling.min_p = 0.05;
            }
        },
        ..Twin::default()
    };
    finds(&twin, "decoding_filter", Severity::Warning);
}

/// All solved tasks need no action.
#[test]
fn success_by_doing_nothing() {
    let twin = Twin {
        episode: |stage, episode| {
            if !matches!(stage, Stage::Training(_)) {
                episode.turns.remove(0);
                episode.replies.remove(0);
                episode.turns[0].node = 1;
            }
        },
        ..Twin::default()
    };
    finds(&twin, "do_nothing", Severity::Error);
}

#[test]
fn a_script_that_does_as_well() {
    let twin = Twin {
        events: || {
            let values: serde_json::Map<_, _> =
                (0..TASKS).map(|task| (format!("held-out-{task}"), json!(1.0))).collect();
            vec![json!({"event": "baseline", "played": {"name": "always cancels", "values": values, "faults": 0}})]
        },
        ..Twin::default()
    };
    finds(&twin, "scripted_shortcut", Severity::Error);
    // Half of 64 tasks solved is known to 12 points either way.
    let unsure = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Greedy { after: true } | Stage::Sampled { after: true }) && episode.task % 2 == 1
            {
                let state = episode.rewards.iter_mut().find(|reward| reward.component == "tau_state").unwrap();
                *state = Reward::scored("tau_state", 0.0, "state: left as it was");
            }
        },
        ..twin
    };
    let diagnosis = unsure.diagnosis();
    assert_eq!(diagnosis.found("scripted_shortcut").unwrap().finding.severity, Severity::Warning);
}

#[test]
fn errors_that_end_an_episode() {
    let twin = Twin {
        episode: |stage, episode| {
            if matches!(stage, Stage::Greedy { .. } | Stage::Sampled { .. }) && episode.task % 2 == 1 {
                episode.solve(false);
            }
        },
        ..Twin::default()
    };
    finds(&twin, "no_recovery", Severity::Warning);
}

/// By name and by place, each alone: the other probe stays healthy.
#[test]
fn tools_that_are_not_read() {
    let by_place = Twin {
        episode: |stage, episode| {
            if stage == Stage::Perturbed("order_reversed") {
                episode.solve(episode.task % 10 < 2);
            }
        },
        ..Twin::default()
    };
    let by_name = Twin {
        episode: |stage, episode| {
            episode.tool = if episode.task % 2 == 0 { "look" } else { "peek" };
            if stage == Stage::Perturbed("names_exchanged") {
                episode.solve(episode.task % 10 < 2);
            }
        },
        ..Twin::default()
    };
    let one_name = Twin {
        episode: |stage, episode| {
            if stage == Stage::Perturbed("names_exchanged") {
                episode.solve(episode.task % 10 < 2);
            }
        },
        ..Twin::default()
    };
    let diagnosis = one_name.diagnosis();
    assert!(diagnosis.found("tools_not_read").is_none(), "the names never vary in training");
    for (twin, words) in [(by_place, "tools in reverse order"), (by_name, "tools' names exchanged")] {
        let diagnosis = finds(&twin, "tools_not_read", Severity::Warning);
        let lines = &diagnosis.found("tools_not_read").unwrap().finding.evidence.lines;
        assert!(lines.len() == 1 && lines[0].starts_with(words), "{lines:?}");
    }
}

/// Right and unsure before, right and sure after: greedily nothing moves.
#[test]
fn sharpening_only() {
    let twin = Twin {
        episode: |stage, episode| match stage {
            Stage::Greedy { .. } | Stage::Sharpened => episode.solve(true),
            Stage::Sampled { after } => {
                let solved = after || episode.task % 2 == 0;
                episode.solve(solved);
            }
            Stage::Training(_) | Stage::Perturbed(_) => {}
        },
        ..Twin::default()
    };
    finds(&twin, "sharpening", Severity::Warning);
}

#[test]
fn a_difference_that_may_be_luck() {
    let twin = Twin {
        episode: |stage, episode| {
            if let Stage::Greedy { after: true } | Stage::Sampled { after: true } = stage {
                let solved = episode.task % 10 < 3 || episode.task % 20 == 9;
                episode.solve(solved && episode.task != 2);
            }
        },
        ..Twin::default()
    };
    let diagnosis = finds(&twin, "too_few_tasks", Severity::Note);
    assert!(diagnosis.found("too_few_tasks").unwrap().finding.evidence.lines[0].contains("tasks would show"));
}
