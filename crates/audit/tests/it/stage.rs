//! Probes are policies: what they say goes the way of a policy's replies.

use hone_audit::{PROBES, Stage, Subject, write_texts};
use hone_trace::{Outcome, Seed};
use std::sync::Arc;

use crate::recipe;

#[tokio::test]
async fn an_episode_of_a_probe_is_tokens_through_the_parser_the_environment_and_the_rubric() {
    let subject = Subject::open(recipe("recipes/triage-reader.toml")).unwrap();
    let texts = tempfile::tempdir().unwrap();
    write_texts(&*subject.arena, &subject.tasks, texts.path()).await.unwrap();
    let (arena, rubric) = (Arc::clone(&subject.arena), Arc::clone(&subject.rubric));
    let stage = Stage::new(&subject.recipe, arena, rubric, texts.path(), Seed::root(0)).unwrap();
    let scene = stage.scene(&subject.tasks[0]).await.unwrap();
    for probe in PROBES {
        for variant in probe.variants(&scene) {
            let trace = stage.play(&scene.task, &variant.replies).await.unwrap();
            let (_, node) = trace.sampled().next().unwrap();
            let text = stage.rollouts.renderer.tokenizer().decode(node.tokens()).unwrap();
            let cut = matches!(trace.outcome, Outcome::Truncated { .. });
            assert!(cut || text.starts_with(&variant.replies[0]), "{}: {text:?}", variant.label);
            assert!(!trace.turns.is_empty() && trace.reward("total").is_some(), "{}", variant.label);
        }
    }
}

/// A probe that knows nothing about a task cannot hold its solution.
#[tokio::test]
async fn junk_does_not_hold_the_solution() {
    let subject = Subject::open(recipe("recipes/quickstart.toml")).unwrap();
    let texts = tempfile::tempdir().unwrap();
    write_texts(&*subject.arena, &subject.tasks, texts.path()).await.unwrap();
    let (arena, rubric) = (Arc::clone(&subject.arena), Arc::clone(&subject.rubric));
    let stage = Stage::new(&subject.recipe, arena, rubric, texts.path(), Seed::root(0)).unwrap();
    for task in &subject.tasks[..6] {
        let scene = stage.scene(task).await.unwrap();
        for variant in PROBES.iter().flat_map(|probe| probe.variants(&scene)) {
            let trace = stage.play(task, &variant.replies).await.unwrap();
            let solved = trace.reward("tau_state") == Some(1.0);
            match variant.role {
                hone_audit::Role::Junk => assert!(!solved, "{}", variant.label),
                hone_audit::Role::Oracle => assert!(solved, "{}", variant.label),
                _ => {}
            }
        }
    }
}
