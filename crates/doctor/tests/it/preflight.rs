//! Broken twins of a probe: a healthy one with exactly one fault put in.

use hone_chat::budget::PromptCost;
use hone_chat::parse::Format;
use hone_chat::render::Rewrite;
use hone_doctor::probe::{
    AfterDone, Identity, Opening, Part, Refusal, RefusalKind, Rendered, Reply, Transcript, Update,
};
use hone_doctor::probe::{Played, Scripts, Texts, World};
use hone_doctor::{Diagnosis, PREFLIGHT, Probe, Severity, given, preflight};
use hone_trace::{Boundary, Fault, Limit, Outcome, ParseFailure, ParseFailureKind, Reward, Trace};
use hone_train::recipe::Recipe;

use crate::twin::{Episode, HEALTHY, Stage};

/// A recipe with settings over the healthy one.
fn recipe(settings: &[&str]) -> Probe {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let recipe = Recipe::parse(HEALTHY, &settings).unwrap();
    Probe { recipe, given: given(HEALTHY, &settings), ..healthy() }
}

pub fn healthy() -> Probe {
    Probe {
        recipe: Recipe::parse(HEALTHY, &[]).unwrap(),
        given: given(HEALTHY, &[]),
        texts: Part::Known(Texts {
            model: "model".into(),
            template_format: Some(Format::Hermes),
            context_window: Some(32_768),
            largest_id: 1000,
            vocabulary: Some(1024),
            ..Texts::default()
        }),
        world: Part::Known(world()),
        played: Part::Known(played(|_| {})),
        identity: Part::Known(Identity {
            tokens: 1000,
            mean: 1e-7,
            max: 1e-6,
            correlation: Some(1.0),
            parts_at: None,
            update: Part::Known(Update {
                moved: 0.01,
                after: 1e-7,
                trained: "abc".into(),
                served: "abc".into(),
                restored: 0.0,
            }),
        }),
        ..Probe::default()
    }
}

fn world() -> World {
    let cost = PromptCost { system: 100, tools: 200, task: 50, scaffold: 50, total: 400 };
    let opening = Opening {
        task: "t0".into(),
        env: "desk".into(),
        tools: vec!["look".into()],
        said: "You are at the desk.".into(),
        roles: vec!["user"],
        rendered: Part::Known(Rendered { tokens: 400, cost: Some(cost), ..Rendered::default() }),
        ..Opening::default()
    };
    let scripts = Scripts {
        success: "tau_state".into(),
        references: (0..8).map(|task| script(task, true)).collect(),
        idle: (0..8).map(|task| script(task, false)).collect(),
        again: (0..8).map(|task| (script(task, true), script(task, true))).collect(),
        beside: (0..4).map(|task| (script(task, true), script(task, true))).collect(),
        kept_state: Vec::new(),
        after_done: Some(AfterDone::Holds),
    };
    World {
        tasks: 512,
        held_out: 64,
        shared_content: Some(0.0),
        references: 512,
        openings: vec![opening],
        scripts: Part::Known(scripts),
        ..World::default()
    }
}

fn script(task: usize, solves: bool) -> Transcript {
    let value = f64::from(u8::from(solves));
    let call = ("look({})".to_owned(), "[{\"role\":\"tool\",\"content\":\"a desk\"}]".to_owned());
    let say = ("\"Done.\"".to_owned(), "[] (done)".to_owned());
    Transcript {
        task: format!("t{task}"),
        opened: format!("You are at desk {task}."),
        turns: if solves { vec![call, say] } else { vec![say] },
        done: true,
        rewards: vec![("tau_state".into(), value), ("parse_penalty".into(), 0.0), ("total".into(), value)],
        ..Transcript::default()
    }
}

/// Twelve groups of four, half of the episodes solved.
fn played(change: fn(&mut Episode)) -> Played {
    let one = |task: usize, replica: u32| -> Trace {
        let stage = Stage::Training(1);
        let mut episode = Episode::healthy(stage, task, replica);
        if replica == 3 && task.is_multiple_of(4) {
            episode.score("parse_penalty", -0.1);
        }
        change(&mut episode);
        episode.trace(stage)
    };
    let groups: Vec<Vec<Trace>> = (0..12).map(|task| (0..4).map(|replica| one(task, replica)).collect()).collect();
    let turns = groups.iter().flatten().map(|trace| trace.turns.len()).sum();
    Played { groups, replies: Vec::new(), turns, seconds: 2.0, entropy: Some(0.2) }
}

/// The check finds it as a root cause, and no other root cause is an error.
#[track_caller]
pub fn finds(probe: &Probe, check: &str, severity: Severity) -> Diagnosis {
    let diagnosis = preflight(probe).unwrap();
    let found = diagnosis.findings.iter().find(|named| named.check == check);
    let found = found.unwrap_or_else(|| panic!("{check} is not among the root causes: {diagnosis:#?}"));
    assert_eq!(found.finding.severity, severity, "{found:#?}");
    for named in diagnosis.findings.iter().filter(|named| named.check != check) {
        assert_ne!(named.finding.severity, Severity::Error, "beside {check}: {named:#?}");
    }
    diagnosis
}

fn with_world(change: impl FnOnce(&mut World)) -> Probe {
    let mut probe = healthy();
    if let Part::Known(world) = &mut probe.world {
        change(world);
    }
    probe
}

fn with_scripts(change: impl FnOnce(&mut Scripts)) -> Probe {
    with_world(|world| {
        if let Part::Known(scripts) = &mut world.scripts {
            change(scripts);
        }
    })
}

fn with_opening(change: impl FnOnce(&mut Opening)) -> Probe {
    with_world(|world| change(&mut world.openings[0]))
}

fn with_rendered(change: impl FnOnce(&mut Rendered)) -> Probe {
    with_opening(|opening| {
        if let Part::Known(rendered) = &mut opening.rendered {
            change(rendered);
        }
    })
}

fn with_played(change: fn(&mut Episode)) -> Probe {
    Probe { played: Part::Known(played(change)), ..healthy() }
}

fn with_identity(change: impl FnOnce(&mut Identity)) -> Probe {
    let mut probe = healthy();
    if let Part::Known(identity) = &mut probe.identity {
        change(identity);
    }
    probe
}

#[test]
fn a_healthy_probe_has_no_finding() {
    let diagnosis = preflight(&healthy()).unwrap();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:#?}");
    assert!(diagnosis.healthy.len() > 45, "{diagnosis:#?}");
}

#[test]
fn nothing_gathered_is_nothing_found() {
    let diagnosis = preflight(&Probe { recipe: Recipe::parse(HEALTHY, &[]).unwrap(), ..Probe::default() }).unwrap();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:#?}");
    assert!(diagnosis.skipped.len() > 30 && diagnosis.skipped.iter().all(|skipped| !skipped.needs.is_empty()));
}

#[test]
fn a_recipe_that_cannot_be_read() {
    let error = Recipe::parse(HEALTHY, &["sampling.temperature=0".into()]).unwrap_err();
    let diagnosis = finds(&Probe::of_unreadable(error.to_string()), "recipe", Severity::Error);
    assert_eq!(diagnosis.skipped.len() + 1, PREFLIGHT.len());
    assert!(diagnosis.found("recipe").unwrap().finding.says.contains("no gradient"));
}

#[test]
fn waivers_of_nothing() {
    let diagnosis = finds(&recipe(&["doctor.waive.do_nothin=\"fine\""]), "waivers", Severity::Error);
    assert!(diagnosis.found("waivers").unwrap().finding.says.contains("did you mean \"do_nothing\"?"));
    finds(&recipe(&["doctor.waive.do_nothing=\" \""]), "waivers", Severity::Error);
}

#[test]
fn a_waived_error_does_not_refuse() {
    let diagnosis = preflight(&recipe(&["train.learning_rate=0.0"])).unwrap();
    assert!(diagnosis.has_errors());
    let waived = recipe(&["train.learning_rate=0.0", "doctor.waive.learning_rate=\"data path only\""]);
    let diagnosis = preflight(&waived).unwrap();
    assert!(!diagnosis.has_errors());
    assert_eq!(diagnosis.found("learning_rate").unwrap().waived.as_deref(), Some("data path only"));
}

/// Keys, the check, its severity, and a word of what it says.
const RECIPES: [(&[&str], &str, Severity, &str); 25] = [
    (&["train.learning_rate=0.0"], "learning_rate", Severity::Error, "nothing can change"),
    (&["train.learning_rate=5.0"], "learning_rate", Severity::Error, "reaches 5"),
    (&["train.learning_rate=1e-12"], "learning_rate", Severity::Warning, "hardly move"),
    (&["train.learning_rate=0.03"], "learning_rate", Severity::Warning, "more than any"),
    (&["train.warmup=1000"], "learning_rate", Severity::Warning, "train.warmup"),
    (&["train.steps=0"], "learning_rate", Severity::Error, "train.steps"),
    (&["loss=dapo", "loss.clip_high=0.3"], "inert_keys", Severity::Warning, "the ratio is 1"),
    (&["loss=dapo", "loss.kl={coefficient=0.0}"], "inert_keys", Severity::Warning, "coefficient is 0"),
    (&["kl_reward={coefficient=0.0}"], "inert_keys", Severity::Warning, "coefficient is 0"),
    (&["policy.reference=elsewhere"], "inert_keys", Severity::Warning, "nothing compares"),
    (&["async.learner_threads=2"], "inert_keys", Severity::Warning, "take turns"),
    (&["eval.filters=true"], "inert_keys", Severity::Warning, "no top_k"),
    (&["plan.rounds=8"], "inert_keys", Severity::Warning, "replace"),
    (&["train.mini_batch=4096"], "inert_keys", Severity::Warning, "no more sequences"),
    (&["eval.every=4096"], "inert_keys", Severity::Warning, "shorter"),
    (&["sampling.top_k=1"], "sampling_filters", Severity::Error, "likeliest"),
    (&["sampling.top_p=0.9"], "sampling_filters", Severity::Warning, "filter"),
    (&["sampling.min_p=0.00005"], "sampling_filters", Severity::Note, "next to nothing"),
    (&["sampling.temperature=0.01"], "temperature", Severity::Warning, "explores"),
    (&["sampling.temperature=3.0"], "temperature", Severity::Warning, "noise"),
    (&["eval.temperature=0.5"], "decoding_filter", Severity::Note, "0.5"),
    (&["train.group_size=2"], "small_groups", Severity::Note, "50 %"),
    (&["eval.tasks=16"], "small_evaluation", Severity::Note, "16"),
    (
        &["eval.success=parse_penalty", "rubric.component=[{kind=\"tau_state\"},{kind=\"parse_penalty\",weight=0}]"],
        "success_unpaid",
        Severity::Warning,
        "no weight",
    ),
    (&["rollout.window=200"], "context", Severity::Error, "raise rollout.window"),
];

#[test]
fn recipes_with_a_fault() {
    for (settings, check, severity, word) in RECIPES {
        let diagnosis = finds(&recipe(settings), check, severity);
        let found = &diagnosis.found(check).unwrap().finding;
        assert!(found.says.contains(word), "{settings:?}: {found:#?}");
    }
}

#[test]
fn filters_in_the_evaluation() {
    let probe = recipe(&["sampling.top_p=0.9", "eval.filters=true"]);
    finds(&probe, "decoding_filter", Severity::Warning);
}

#[test]
fn a_model_directory_without_a_template() {
    let mut probe = recipe(&["policy.model=nowhere"]);
    probe.texts = Part::Broken("nowhere has no chat template".into());
    probe.refused = Some("nowhere has no chat template".into());
    let diagnosis = finds(&probe, "model_directory", Severity::Error);
    assert!(diagnosis.found("model_directory").unwrap().consequences.iter().any(|named| named.check == "opens"));
}

#[test]
fn an_engine_that_refuses() {
    let probe = Probe { refused: Some("config.json names no hidden_size".into()), ..healthy() };
    finds(&probe, "opens", Severity::Error);
}

#[test]
fn an_environment_that_does_not_open() {
    let probe = with_opening(|opening| {
        *opening =
            Opening { task: "t0".into(), env: "desk".into(), fault: Some("no route".into()), ..Opening::default() }
    });
    let diagnosis = finds(&probe, "environment_opens", Severity::Error);
    assert!(diagnosis.found("environment_opens").unwrap().finding.evidence.lines[0].contains("no route"));
}

#[test]
fn tools_that_cannot_be_used() {
    finds(&with_opening(|opening| opening.tools.clear()), "tool_schemas", Severity::Error);
    let probe = with_opening(|opening| opening.bad_schema = Some("look: type is 7".into()));
    finds(&probe, "tool_schemas", Severity::Error);
    finds(&with_opening(|opening| opening.roles.clear()), "tool_schemas", Severity::Note);
}

/// One broken template explains what follows from it.
#[test]
fn templates_that_cannot_be_trained_with() {
    for (kind, check) in [
        (RefusalKind::ToolsLost, "tools_in_prompt"),
        (RefusalKind::NotAppendOnly, "append_only"),
        (RefusalKind::ObservationLost, "tool_results"),
        (RefusalKind::Other, "template"),
    ] {
        let mut probe = with_opening(|opening| {
            opening.refusal = Some(Refusal { kind, words: "line 7".into() });
            opening.rendered = Part::Left;
        });
        probe.refused = Some("the model does not show how it writes a call".into());
        probe.texts = Part::Known(Texts { model: "model".into(), ..Texts::default() });
        let diagnosis = finds(&probe, check, Severity::Error);
        assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
        assert_eq!(diagnosis.findings[0].consequences.len(), 2, "{diagnosis:#?}");
    }
}

#[test]
fn templates_that_rewrite() {
    let probe = with_rendered(|rendered| rendered.rewrites = vec![Rewrite::Reasoning { line: Some(9) }]);
    finds(&probe, "reasoning_stripped", Severity::Warning);
    let probe = with_rendered(|rendered| rendered.rewrites = vec![Rewrite::Prompt { line: Some(9) }]);
    finds(&probe, "append_only", Severity::Warning);
}

#[test]
fn calls_that_do_not_read_back() {
    let probe = with_rendered(|rendered| rendered.unread = vec![("look()".into(), "missing_name".into())]);
    finds(&probe, "call_format", Severity::Error);
    let mut probe = healthy();
    probe.texts = Part::Known(Texts { model: "model".into(), ..Texts::default() });
    finds(&probe, "call_format", Severity::Error);
    // Nothing was read in the format that the recipe names.
    let mut probe = recipe(&["rollout.format=react"]);
    probe.played = Part::Known(played(|episode| {
        episode.turns.iter_mut().for_each(|turn| (turn.calls, turn.executed, turn.failed) = (Vec::new(), 0, 0));
    }));
    let diagnosis = finds(&probe, "call_format", Severity::Error);
    assert!(diagnosis.found("call_format").unwrap().fix().contains("rollout.format = \"hermes\""));
}

#[test]
fn tokenizers_that_do_not_fit() {
    let texts = |change: fn(&mut Texts)| {
        let mut probe = healthy();
        if let Part::Known(texts) = &mut probe.texts {
            change(texts);
        }
        probe
    };
    finds(&texts(|texts| texts.vocabulary = Some(512)), "vocabulary", Severity::Error);
    finds(&texts(|texts| texts.reference_agrees = Some(false)), "vocabulary", Severity::Error);
    finds(&texts(|texts| texts.context_window = Some(128)), "context", Severity::Error);
    finds(&texts(|texts| texts.context_window = Some(1024)), "context", Severity::Warning);
    let lossy = with_rendered(|rendered| rendered.lossy = Some(("Zürich".into(), "Zrich".into())));
    finds(&lossy, "vocabulary", Severity::Warning);
}

#[test]
fn prompts_of_the_day() {
    finds(&with_rendered(|rendered| rendered.dated = true), "host_date", Severity::Warning);
    let today = hone_chat::template::Clock::host().date();
    let probe = with_opening(|opening| opening.said = format!("Today is {today}."));
    finds(&probe, "host_date", Severity::Warning);
    let stated = with_opening(|opening| {
        opening.said = format!("Today is {today}.");
        opening.stated_date = Some(today.clone());
    });
    assert!(preflight(&stated).unwrap().findings.is_empty());
}

#[test]
fn open_places_in_prompts() {
    for text in ["Hello {{LOGGED_IN_USER}}", "Hello ${LOGGED_IN_USER}", "Hello {LOGGED_IN_USER}!"] {
        finds(&with_opening(|opening| opening.said = text.into()), "placeholders", Severity::Warning);
    }
    for text in ["Answer with {\"A\": 1}", "a set {A, B}", "{}", "{{a}}", "{ABC"] {
        let diagnosis = preflight(&with_opening(|opening| opening.said = text.into())).unwrap();
        assert!(diagnosis.findings.is_empty(), "{text}: {diagnosis:#?}");
    }
}

#[test]
fn a_window_that_is_too_small() {
    let long = with_scripts(|scripts| {
        for reference in &mut scripts.references {
            reference.turns = vec![("look({})".into(), "[1]".into()); 40];
        }
    });
    let diagnosis = finds(&long, "context", Severity::Error);
    assert!(diagnosis.found("context").unwrap().fix().contains("at least 40"));
    finds(&recipe(&["rollout.window=600"]), "context", Severity::Warning);
    let heavy = with_rendered(|rendered| {
        rendered.cost = Some(PromptCost { system: 10, tools: 3000, task: 10, scaffold: 10, total: 3030 });
        rendered.tokens = 3030;
    });
    finds(&heavy, "context", Severity::Note);
}

#[test]
fn environments_that_misbehave_under_scripts() {
    let broken = with_scripts(|scripts| {
        for (first, again) in &mut scripts.again {
            first.fault = Some("KeyError: 'e7'".into());
            again.fault.clone_from(&first.fault);
        }
    });
    finds(&broken, "script_faults", Severity::Error);
    // At the start of a run no scripts are played, and one step is made.
    let started = with_world(|world| {
        world.scripts = Part::default();
        world.first_step = vec![Transcript { fault: Some("KeyError: 'e7'".into()), ..Transcript::default() }; 3];
    });
    let diagnosis = finds(&started, "script_faults", Severity::Error);
    assert!(diagnosis.found("script_faults").unwrap().finding.says.contains("KeyError: 'e7'"));
    let unlike = with_scripts(|scripts| scripts.again.iter_mut().for_each(|(_, again)| again.opened.push('!')));
    finds(&unlike, "determinism", Severity::Error);
    let noisy = with_scripts(|scripts| scripts.again[0].1.turns[0].1.push('!'));
    let diagnosis = finds(&noisy, "determinism", Severity::Warning);
    assert!(diagnosis.found("determinism").unwrap().finding.evidence.lines[0].contains("turn 1, look({})"));
    let leaky = with_scripts(|scripts| scripts.beside[1].1.turns[0].1.push('!'));
    finds(&leaky, "isolation", Severity::Error);
    finds(&with_scripts(|scripts| scripts.kept_state = vec!["t1".into()]), "kept_state", Severity::Error);
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
    let slow = with_scripts(|scripts| scripts.idle[0].slowest_seconds = 25.0);
    finds(&slow, "latency", Severity::Warning);
    let endless = with_scripts(|scripts| {
        for script in scripts.again.iter_mut().flat_map(|(a, b)| [a, b]).chain(&mut scripts.idle) {
            script.done = false;
        }
        scripts.after_done = None;
    });
    finds(&endless, "never_done", Severity::Error);
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
        for script in &mut scripts.idle {
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
