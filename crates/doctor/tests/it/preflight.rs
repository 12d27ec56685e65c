//! Broken twins of a probe: a healthy one with exactly one fault put in.

mod episodes;
mod texts;

use hone_chat::budget::PromptCost;
use hone_chat::parse::Format;
use hone_doctor::probe::{
    AfterDone, Closed, Identity, Opening, Part, Played, Rendered, Scripts, Texts, Transcript, Update, World,
};
use hone_doctor::{Diagnosis, PREFLIGHT, Probe, Severity, given, preflight};
use hone_trace::Trace;
use hone_train::recipe::Recipe;

use crate::twin::{Episode, HEALTHY, Stage};

/// A recipe with settings over the healthy one.
fn recipe(settings: &[&str]) -> Probe {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let recipe = Recipe::parse(HEALTHY, &settings).unwrap();
    Probe { recipe, given: given(HEALTHY, &settings), ..healthy() }
}

pub(crate) fn healthy() -> Probe {
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
        idle_again: (0..8).map(|task| script(task, false)).collect(),
        kept_state: Vec::new(),
        spoiled: Vec::new(),
        after_done: Some(AfterDone::Holds),
        closed: Closed { asked: 2, ..Closed::default() },
        gone: None,
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
pub(crate) fn finds(probe: &Probe, check: &str, severity: Severity) -> Diagnosis {
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
const RECIPES: [(&[&str], &str, Severity, &str); 28] = [
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
    (&["sampling.temperature=0.2"], "temperature", Severity::Warning, "explores"),
    (&["sampling.temperature=0.01"], "temperature", Severity::Error, "explores"),
    (&["sampling.temperature=2.0"], "temperature", Severity::Warning, "noise"),
    (&["sampling.temperature=3.0"], "temperature", Severity::Error, "noise"),
    (&["loss={name=\"dapo\", clip_high=0.3}"], "inert_keys", Severity::Warning, "the ratio is 1"),
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
    let silent = finds(&with_opening(|opening| opening.roles.clear()), "tool_schemas", Severity::Note);
    assert!(silent.found("tool_schemas").unwrap().finding.fix.as_ref().unwrap().contains("role `user`"));
}
