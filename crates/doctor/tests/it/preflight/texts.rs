//! Faults of templates, tokenizers, prompts and windows.

use hone_chat::budget::PromptCost;
use hone_chat::render::Rewrite;
use hone_doctor::probe::{Part, Refusal, RefusalKind, Texts};
use hone_doctor::{Severity, preflight};

use super::{finds, healthy, played, recipe, with_opening, with_rendered, with_scripts};

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
