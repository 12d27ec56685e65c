//! Floors: the most that policies without any understanding earn. The table is in `triage::rubric`'s documentation.

use hone_trace::{Task, ToolCall};
use hone_worlds::triage::{Mode, Size, TaskSpec, TriageArena, rubric};
use serde_json::{Value, json};

use crate::play::{play, score};

/// Id and text of every document the agent was shown.
type Shown = Vec<(String, String)>;
type Policy = fn(&Task, &Shown) -> Option<Value>;

const FILLER: &str =
    "A long time ago in a galaxy far away a young pilot left the desert to learn the ways of old knights";

fn all(shown: &Shown) -> Vec<&String> {
    shown.iter().map(|(id, _)| id).collect()
}

fn submit(resolution: &str, citations: &[&String], confidence: f64, escalate: bool) -> Value {
    let citations: Vec<&str> = citations.iter().map(|id| id.as_str()).collect();
    json!({"resolution": resolution, "citations": citations, "confidence": confidence, "escalate": escalate})
}

const POLICIES: [(&str, f64, Policy); 8] = [
    ("does nothing", 0.0, |_, _| None),
    ("submits the ticket, cites nothing, confidence 0", 0.20, |task, _| Some(submit(&task.prompt, &[], 0.0, false))),
    ("submits the ticket, cites everything, confidence 0", 0.27, |task, shown| {
        Some(submit(&task.prompt, &all(shown), 0.0, false))
    }),
    ("submits filler, cites everything, confidence 0", 0.27, |_, shown| Some(submit(FILLER, &all(shown), 0.0, false))),
    ("takes the first document, confidence 0.5", 0.42, |_, shown| {
        let (id, text) = shown.first()?;
        let fix = text.split("Fix: ").nth(1).unwrap_or(text);
        Some(submit(fix, &[id], 0.5, false))
    }),
    ("copies all documents, confidence 0.5", 0.27, |_, shown| {
        let text: Vec<&str> = shown.iter().map(|(_, text)| text.as_str()).collect();
        Some(submit(&text.join(" "), &all(shown), 0.5, false))
    }),
    ("always escalates, confidence 1", 0.27, |task, _| Some(submit(&escalation(task), &[], 1.0, true))),
    ("always escalates, confidence 0.2", 0.34, |task, _| Some(submit(&escalation(task), &[], 0.2, true))),
];

/// The exact reply to a ticket without an answer.
fn escalation(task: &Task) -> String {
    let area = task.prompt.trim_start_matches("Area:").trim_start_matches('[').trim_start();
    let area = area.split([',', '\n']).next().unwrap();
    format!("No document covers this. Escalate to the {area} team.")
}

#[test]
fn policies_without_understanding_stay_under_their_floors() {
    let rubric = rubric().build().unwrap();
    for mode in [Mode::Reader, Mode::Searcher] {
        for size in [Size::Brief, Size::Full] {
            let spec = TaskSpec { mode, size, seed: 11, train: 100, dev: 0, test: 50, ..TaskSpec::default() };
            let splits = spec.generate().unwrap();
            let arena = TriageArena::default();
            for (name, floor, policy) in POLICIES {
                let mut sum = 0.0;
                let mut count = 0.0;
                for task in splits.train.iter().chain(splits.test.iter()) {
                    // A searcher searches once for the ticket's own words.
                    let look = ToolCall::new("search_kb", json!({"query": task.prompt}).as_object().unwrap().clone());
                    let mut calls = if mode == Mode::Searcher { vec![look] } else { Vec::new() };
                    let looked = play(&arena, task, &calls);
                    let shown: Shown = serde_json::from_value::<indexmap::IndexMap<String, String>>(
                        looked.end.facts["context"].clone(),
                    )
                    .unwrap()
                    .into_iter()
                    .collect();
                    match policy(task, &shown) {
                        Some(arguments) => {
                            calls.push(ToolCall::new("submit_resolution", arguments.as_object().unwrap().clone()));
                        }
                        None => calls.clear(),
                    }
                    sum += score(&rubric, &play(&arena, task, &calls)).0;
                    count += 1.0;
                }
                let mean: f64 = sum / count;
                println!("{mode:?} {size:?} {name}: {mean:.3} (floor {floor})");
                assert!(mean <= floor, "{mode:?} {size:?} {name}: {mean:.3} is over its floor {floor}");
            }
        }
    }
}
