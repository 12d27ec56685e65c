//! Faults that show when scripts and the start policy play.

use hone_chat::parse::Format;
use hone_doctor::probe::{AfterDone, Part, Reply, Transcript, Update};
use hone_doctor::{Probe, Severity, preflight};
use hone_trace::{Boundary, Fault, Limit, Outcome, ParseFailure, ParseFailureKind, Reward};
use hone_train::recipe::Recipe;

use super::{finds, recipe, with_identity, with_played, with_scripts, with_world};
use crate::twin::{Episode, HEALTHY};

#[test]
fn environments_that_misbehave_under_scripts() {
    let broken = with_scripts(|scripts| {
        for (first, again) in &mut scripts.again {
            first.fault = Some("KeyError: 'e7'".into());
            again.fault.clone_from(&first.fault);
        }
    });
    finds(&broken, "script_faults", Severity::Error);
    // At the start of a run few scripts are played.
    let started = with_world(|world| {
        world.scripts = Part::default();
        world.first = vec![Transcript { fault: Some("KeyError: 'e7'".into()), ..Transcript::default() }; 3];
    });
    let diagnosis = finds(&started, "script_faults", Severity::Error);
    assert!(diagnosis.found("script_faults").unwrap().finding.says.contains("KeyError: 'e7'"));
    let flaky = with_world(|world| {
        world.scripts = Part::default();
        let broke = Transcript { fault: Some("timed out".into()), ..Transcript::default() };
        world.first = vec![broke, Transcript::default()];
    });
    finds(&flaky, "script_faults", Severity::Warning);
    let unlike = with_scripts(|scripts| scripts.again.iter_mut().for_each(|(_, again)| again.opened.push('!')));
    finds(&unlike, "determinism", Severity::Error);
    let noisy = with_scripts(|scripts| scripts.again[0].1.turns[0].1.push('!'));
    let diagnosis = finds(&noisy, "determinism", Severity::Warning);
    assert!(diagnosis.found("determinism").unwrap().finding.evidence.lines[0].contains("turn 1, look({})"));
    let leaky = with_scripts(|scripts| scripts.beside[1].1.turns[0].1.push('!'));
    finds(&leaky, "isolation", Severity::Error);
    finds(&with_scripts(|scripts| scripts.kept_state = vec!["t1".into()]), "kept_state", Severity::Error);
    let spoiled = with_scripts(|scripts| scripts.spoiled = vec!["t1".into()]);
    let diagnosis = finds(&spoiled, "kept_state", Severity::Error);
    assert!(diagnosis.found("kept_state").unwrap().finding.says.contains("no longer earns success"));
    let early = with_scripts(|scripts| {
        for script in &mut scripts.references {
            (script.left, script.rewards[0].1) = (1, 0.0);
        }
    });
    let diagnosis = finds(&early, "reference_fails", Severity::Error);
    let lines = &diagnosis.found("reference_fails").unwrap().finding.evidence.lines;
    assert!(lines.iter().any(|line| line.contains("1 of its actions left")), "{lines:?}");
    finds(&with_scripts(|scripts| scripts.after_done = Some(AfterDone::GoesOn)), "after_done", Severity::Note);
    let dies = with_scripts(|scripts| scripts.after_done = Some(AfterDone::Breaks("it is gone".into())));
    finds(&dies, "after_done", Severity::Error);
    let silent = with_scripts(|scripts| {
        for (first, again) in &mut scripts.again {
            first.turns[0].1 = "[]".into();
            again.turns[0].1 = "[]".into();
        }
    });
    finds(&silent, "unanswered_calls", Severity::Error);
    let blank = with_scripts(|scripts| {
        for (first, again) in &mut scripts.again {
            let empty = r#"[{"role":"tool","name":"look","content":" "}]"#;
            first.turns = vec![("look({})".into(), empty.into()); 4];
            again.turns.clone_from(&first.turns);
        }
    });
    let diagnosis = finds(&blank, "unanswered_calls", Severity::Error);
    assert!(diagnosis.found("unanswered_calls").unwrap().finding.says.contains("without a text"));
    let slow = with_scripts(|scripts| scripts.idle[0].slowest_seconds = 25.0);
    finds(&slow, "latency", Severity::Warning);
    let no_reward = with_scripts(|scripts| {
        scripts.references.clear();
        for (first, _) in &mut scripts.again {
            first.rewards.clear();
            first.unscored = vec![("tau_state".into(), "no_reward: none of 2 steps gave a reward".into())];
        }
    });
    let diagnosis = preflight(&no_reward).unwrap();
    let found = diagnosis.found("unscored").unwrap();
    assert!(found.finding.says.starts_with("8 of 56"), "{found:#?}");
    // 2.5 s are little of the rollout's 30 s, and nearly all that this program has.
    let mut near = with_scripts(|scripts| scripts.idle[0].slowest_seconds = 2.5);
    assert!(preflight(&near).unwrap().found("latency").is_none());
    near.recipe = program("deadline_s = 3.0");
    let diagnosis = finds(&near, "latency", Severity::Warning);
    let found = diagnosis.found("latency").unwrap();
    assert!(found.finding.evidence.lines[0].contains("2.50 s / 3.00 s (env.deadline_s) = 83 %"), "{found:#?}");
    near.recipe = program("deadline_s = 300.0");
    assert!(preflight(&near).unwrap().found("latency").is_none());
    let endless = with_scripts(|scripts| {
        for script in scripts.again.iter_mut().flat_map(|(a, b)| [a, b]).chain(&mut scripts.idle) {
            script.done = false;
        }
        scripts.after_done = None;
    });
    finds(&endless, "never_done", Severity::Error);
}

/// The healthy recipe in a program with these keys.
fn program(keys: &str) -> Recipe {
    let env = format!("env={{name=\"desk\",command=[\"true\"],{keys}}}");
    Recipe::parse(HEALTHY, &[env]).unwrap()
}

#[test]
fn tasks_that_do_not_work() {
    let wrong = with_scripts(|scripts| {
        for script in &mut scripts.references {
            script.rewards.iter_mut().for_each(|(_, value)| *value = 0.0);
        }
    });
    finds(&wrong, "reference_fails", Severity::Error);
    let one = with_scripts(|scripts| scripts.references[2].rewards[0].1 = 0.0);
    let diagnosis = finds(&one, "reference_fails", Severity::Warning);
    assert_eq!(diagnosis.found("reference_fails").unwrap().finding.evidence.lines[0], "tasks t2");
    let idle = with_scripts(|scripts| {
        for script in scripts.idle.iter_mut().chain(&mut scripts.idle_again) {
            script.rewards.iter_mut().for_each(|(_, value)| *value = 1.0);
        }
    });
    finds(&idle, "do_nothing", Severity::Error);
    let no_op = with_world(|world| world.no_op = (0..300).map(|task| format!("t{task}")).collect());
    finds(&no_op, "no_op_tasks", Severity::Error);
    finds(&with_world(|world| world.shared_content = Some(0.4)), "held_out_overlap", Severity::Error);
    let twice = with_world(|world| world.repeated = (0..200).map(|task| format!("t{task}")).collect());
    finds(&twice, "repeated_tasks", Severity::Warning);
}

#[test]
fn episodes_that_break_or_are_not_scored() {
    let broken = with_played(|episode| {
        if episode.replica % 2 == 0 {
            episode.outcome = Outcome::Fault { fault: Fault::new(Boundary::UserSimulator, "401 unauthorised") };
            episode.rewards.clear();
        }
    });
    let diagnosis = finds(&broken, "faulted", Severity::Error);
    assert!(diagnosis.found("faulted").unwrap().finding.evidence.lines[0].contains("401"));
    let unscored = with_played(|episode| episode.rewards = vec![Reward::unscored("tau_state", "no `db_match`")]);
    finds(&unscored, "unscored", Severity::Error);
    let large = with_played(|episode| {
        if episode.replica == 1 {
            episode.total = Some(5000.0);
        }
    });
    finds(&large, "reward_scale", Severity::Warning);
}

/// Replies of a policy that writes calls in another format.
fn replies(failure: bool) -> Probe {
    let mut probe = with_played(|episode| {
        for turn in &mut episode.turns {
            (turn.calls, turn.executed, turn.failed) = (Vec::new(), 0, 0);
        }
        episode.solve(false);
        episode.score("parse_penalty", 0.0);
    });
    if let Part::Known(played) = &mut probe.played {
        let failure = failure.then(|| ParseFailure {
            kind: ParseFailureKind::MalformedMarkup,
            message: "no call here".into(),
            at: 0,
            hint: String::new(),
        });
        let text = "Action: look\nAction Input: {}".to_owned();
        let reply = |trace| Reply { trace, text: text.clone(), failure: failure.clone(), formats: vec![Format::React] };
        played.replies = (0..96).map(|turn| reply(turn / 2)).collect();
    }
    probe
}

/// No call parses: a warm start or a recipe line, and one cause for it all.
#[test]
fn a_start_policy_in_another_format() {
    let diagnosis = finds(&replies(true), "parse_failures", Severity::Error);
    let found = diagnosis.found("parse_failures").unwrap();
    assert!(found.fix().contains("rollout.format = \"react\""), "{found:#?}");
    assert!(diagnosis.findings.len() == 1 && found.consequences.len() >= 2, "{diagnosis:#?}");
    let diagnosis = finds(&replies(false), "calls_as_text", Severity::Error);
    assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
}

#[test]
fn a_start_policy_that_does_nothing_useful() {
    let never = with_played(|episode| {
        for turn in &mut episode.turns {
            (turn.calls, turn.executed, turn.failed) = (Vec::new(), 0, 0);
        }
    });
    finds(&never, "no_calls", Severity::Warning);
    let ignored = with_played(|episode| {
        episode.turns[0].executed = 0;
        episode.turns[1].calls = episode.turns[0].calls.clone();
        episode.turns[1].executed = u32::from(episode.replica == 0);
    });
    finds(&ignored, "calls_not_run", Severity::Error);
    let cut = with_played(|episode| episode.outcome = Outcome::Truncated { limit: Limit::Turns });
    let diagnosis = finds(&cut, "truncated", Severity::Error);
    assert!(diagnosis.found("truncated").unwrap().finding.evidence.lines[0].contains("rollout.max_turns"));
}

#[test]
fn no_exploration() {
    let same = |episode: &mut Episode| {
        episode.replies = vec![vec![10, 11, 12], vec![20, 2]];
        episode.solve(false);
        episode.score("parse_penalty", 0.0);
    };
    let diagnosis = finds(&with_played(same), "identical_rollouts", Severity::Error);
    let found = diagnosis.found("identical_rollouts").unwrap();
    assert!(found.finding.evidence.lines[0].contains("sure of every token"), "{found:#?}");
    assert!(found.consequences.iter().any(|named| named.check == "no_signal"), "{found:#?}");
    let seeded = with_played(|episode| {
        episode.replies = vec![vec![10, 11, 12], vec![20, 2]];
        episode.seed = 1;
        episode.solve(false);
        episode.score("parse_penalty", 0.0);
    });
    let diagnosis = finds(&seeded, "identical_rollouts", Severity::Error);
    assert!(diagnosis.found("identical_rollouts").unwrap().finding.evidence.lines[0].contains("one seed"));
}

#[test]
fn rewards_without_variance() {
    let mut hard = with_played(|episode| {
        episode.solve(false);
        episode.score("parse_penalty", 0.0);
    });
    hard.recipe.train.groups = 1;
    let diagnosis = finds(&hard, "no_signal", Severity::Error);
    let lines = &diagnosis.found("no_signal").unwrap().finding.evidence.lines;
    assert!(lines[1].contains("at least 4.0 steps of 1 groups"), "{lines:?}");
    let easy = with_played(|episode| {
        episode.solve(true);
        episode.score("parse_penalty", 0.0);
    });
    let diagnosis = finds(&easy, "no_signal", Severity::Error);
    assert!(diagnosis.found("no_signal").unwrap().fix().contains("harder"));
    let constant = with_played(|episode| episode.score("parse_penalty", 0.5));
    finds(&constant, "constant_component", Severity::Note);
    let mut hopeless = with_played(|episode| {
        episode.solve(false);
        episode.score("parse_penalty", -0.1 * f64::from(episode.replica));
    });
    hopeless.recipe.eval.success = "tau_state".into();
    let diagnosis = finds(&hopeless, "constant_component", Severity::Warning);
    assert!(diagnosis.found("constant_component").unwrap().fix().contains("hone sft"));
}

#[test]
fn two_policies_for_one() {
    let other = with_identity(|identity| {
        (identity.mean, identity.max, identity.correlation) = (1.3, 9.0, Some(0.4));
        identity.parts_at = Some((3, 57, -0.1, -4.2));
    });
    let diagnosis = finds(&other, "logprob_mismatch", Severity::Error);
    let found = &diagnosis.found("logprob_mismatch").unwrap().finding;
    assert!(found.evidence.lines[1].contains("token 57 of episode 3") && found.evidence.traces == [3], "{found:#?}");
    let update = |change: fn(&mut Update)| {
        with_identity(|identity| {
            if let Part::Known(update) = &mut identity.update {
                change(update);
            }
        })
    };
    finds(&update(|update| update.after = 0.01), "sampler_follows", Severity::Error);
    finds(&update(|update| update.served = "base".into()), "sampler_follows", Severity::Error);
    finds(&update(|update| update.restored = 0.01), "sampler_follows", Severity::Error);
}

#[test]
fn a_run_that_takes_years() {
    let mut probe = recipe(&["train.steps=100000000"]);
    if let Part::Known(played) = &mut probe.played {
        played.seconds = 60.0;
    }
    finds(&probe, "time", Severity::Warning);
}

/// A misspelt fact: the reward's `otherwise` would hide it behind a success of 0.
#[test]
fn a_solution_without_the_fact_that_success_reads_is_refused_at_the_start() {
    let why = "not_applicable: nothing says whether the answer is `correct`: the facts are `corect`";
    let solved = |stood_in: bool, solutions: bool| {
        let mut probe = with_world(|world| {
            world.scripts = Part::default();
            world.references = if solutions { world.tasks } else { 0 };
        });
        let success = probe.recipe.eval.success.clone();
        probe.played = Part::Left;
        if let Part::Known(world) = &mut probe.world {
            let stood_in = stood_in.then(|| (success, why.to_owned())).into_iter().collect();
            world.first = vec![Transcript { done: true, stood_in, ..Transcript::default() }];
        }
        probe
    };
    let diagnosis = finds(&solved(true, true), "unscored", Severity::Error);
    assert!(diagnosis.found("unscored").unwrap().finding.evidence.lines[0].contains("`corect`"));
    assert!(preflight(&solved(false, true)).unwrap().found("unscored").is_none());
    // Random calls may end before anything is submitted.
    assert!(preflight(&solved(true, false)).unwrap().found("unscored").is_none());
}
