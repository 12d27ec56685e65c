//! The end-of-run report on a made-up run directory: windows, recounts, Murphy's decomposition, from the record alone.

use std::path::Path;
use std::sync::Arc;

use hone_arena::rewards::calibration::brier;
use hone_trace::rundir::RunDir;
use hone_trace::{
    Boundary, Fault, Outcome, Reward, SamplingParams, ToolCall, ToolSet, ToolSpec, Trace, TraceBuilder, TraceHead,
    TurnRecord,
};
use hone_train::evaluate::count;
use hone_train::ledger::TokenFate;
use hone_train::report::{EpisodeSet, RunReport, Window};
use serde_json::{Map, Value, json};

use crate::common::{Turn, trace};

/// An episode that was right or wrong and said how sure it was.
fn episode(correct: bool, confidence: Option<f64>) -> Trace {
    let success = Reward::scored("tau_state", f64::from(u8::from(correct)), "");
    let rewards = vec![success, Reward::new("calibration", brier(confidence, correct))];
    trace(&[7], &[Turn { sampled: vec![1, 2], answer: vec![] }], rewards)
}

fn metrics(step: u64, reward: f64) -> Map<String, Value> {
    let line = json!({
        "step": step, "batch_reward/total": reward, "batch_reward/a": 1.0, "batch_reward/a/advantage_share": 0.75,
        "batch_reward/total/std": 0.1, "reward/advantage_share_rest": 0.25, "tokens/sampled": 10.0, "tokens/trained": 4.0,
        "tokens/clipped": 6.0, "timing/step": 2.0, "reward/parse_failure_rate": 0.5,
    });
    line.as_object().cloned().unwrap()
}

/// Four steps, evaluated before and after; step 2 was recorded twice, as after a crash.
fn record(directory: &Path) {
    let mut run = RunDir::create(directory, "name = \"made up\"\nseed = 9\n[train]\nsteps = 6\n").unwrap();
    let evaluate = |run: &mut RunDir, step: u64, right: usize| {
        let traces: Vec<_> = (0..4).map(|number| episode(number < right, Some(0.5))).collect();
        let numbers = run.traces(&traces).unwrap();
        // The run's own claims are not what is reported.
        let said = json!({"success": 0.99, "ci": [0.9, 1.0], "parse_failure_rate": 0.9, "n": 99, "faults": 0,
                          "temperature": 1.0, "components": {}});
        let traces = [numbers.start, numbers.end];
        run.event(&json!({"event": "eval", "step": step, "result": said, "traces": traces})).unwrap();
    };
    evaluate(&mut run, 0, 1);
    for (step, reward) in [(1, 0.0), (2, 9.0), (2, 0.5), (3, 0.5), (4, 1.0)] {
        let traces = [episode(true, Some(0.75)), episode(false, Some(0.25)), episode(true, None)];
        let numbers = run.traces(&traces).unwrap();
        run.event(&json!({"event": "step", "step": step, "traces": [numbers.start, numbers.end]})).unwrap();
        run.metrics(&metrics(step, reward)).unwrap();
    }
    evaluate(&mut run, 4, 3);
}

#[test]
fn a_report_is_recomputed_from_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    record(&path);
    let report = RunReport::read(&path).unwrap();
    assert_eq!(
        (report.name.as_str(), report.seed, report.steps, report.planned, report.seconds),
        ("made up", 9, 4, 6, 8.0)
    );
    let (before, after) = (report.before.as_ref().unwrap(), report.after.as_ref().unwrap());
    assert_eq!((before.step, before.result.success, before.result.n), (0, Some(0.25), 4));
    assert_eq!((after.step, after.result.success, after.result.parse_failure_rate), (4, Some(0.75), None));
    assert_eq!(report.gain(), Some(0.5));

    let total = report.components.last().unwrap();
    assert_eq!((total.name.as_str(), total.first, total.last, total.difference), ("total", 0.0, 1.0, 1.0));
    assert_eq!(report.components.len(), 2, "spreads and shares are no components");
    assert_eq!(report.advantage_shares, [("a".to_owned(), 0.75), ("rest".to_owned(), 0.25)].into());
    assert_eq!((report.tokens.sampled, report.tokens.of_fate(TokenFate::Trained)), (40.0, 16.0));

    // Held out: every episode states 0.5, so resolution is 0. In training the confident ones are right.
    let held_out = report.calibration[&EpisodeSet::HeldOut { step: 4 }];
    assert_eq!((held_out.n, held_out.resolution, held_out.uncertainty, held_out.success), (4, 0.0, 0.1875, 0.75));
    let trained = report.calibration[&EpisodeSet::Training(Window::Last)];
    assert_eq!((trained.n, trained.reliability, trained.resolution, trained.uncertainty), (2, 0.0625, 0.25, 0.25));
    let change = held_out.change.unwrap();
    assert!((change.accuracy + change.confidence - change.total).abs() < 1e-12);
    for part in report.calibration.values() {
        assert!((part.brier_loss - (part.reliability - part.resolution + part.uncertainty)).abs() < 1e-12);
    }

    report.save(&path).unwrap();
    let saved: RunReport = serde_json::from_str(&std::fs::read_to_string(path.join("report.json")).unwrap()).unwrap();
    assert_eq!(saved, report);
    assert_eq!(RunReport::read(&path).unwrap(), report, "asked again, it says the same");
    // Fields missing from older reports are absent.
    let mut old = serde_json::to_value(&report).unwrap();
    for set in old["calibration"].as_object_mut().unwrap().values_mut().filter_map(serde_json::Value::as_object_mut) {
        set.retain(|key, _| !["skill", "score_right", "score_wrong", "change"].contains(&key.as_str()));
    }
    let old: RunReport = serde_json::from_value(old).unwrap();
    assert!(old.calibration.values().all(|set| set.skill.is_none() && set.change.is_none()));
    let page = std::fs::read_to_string(path.join("report.md")).unwrap();
    for part in [
        "4 of 6 steps in 8 s",
        "| before, step 0 | 1 | 0.250 |",
        "Steps 1–1 are early training, not the start",
        "| tau_state | 0.2500 | 0.7500 | +0.5000 |",
        "steps 1–1 against 4–4",
        "| total | 0.0000 | 1.0000 | +1.0000 |",
        "| clipped | 24 | 0.600 | the clip set the gradient to zero |",
        "| held-out at step 4 | -0.333 |",
        "one task shows no skill, -0.333: saying 0.75 every time would earn 0.8125, they earn 0.7500.",
    ] {
        assert!(page.contains(part), "{part:?} in\n{page}");
    }
}

#[test]
fn a_run_without_a_step_has_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(RunDir::create(&path, "").unwrap());
    let report = RunReport::read(&path).unwrap();
    assert_eq!((report.steps, report.windows, report.before.is_none(), report.gain()), (0, None, true, None));
    assert!(
        report.markdown().starts_with("# run\n") && report.markdown().contains(" in 0 s."),
        "{}",
        report.markdown()
    );
    assert!(RunReport::read(directory.path()).is_err());
}

/// Only calls that ran count. A name the policy made up is not a tool, and a broken episode does not count.
#[test]
fn calls_are_counted_by_tool() {
    let tool = |name: &str| ToolSpec::new(name, "", json!({"type": "object"}));
    let tools = Arc::new(ToolSet::new(vec![tool("search"), tool("submit"), tool("wait")]).unwrap());
    let episode = |calls: &[&str], executed: u32, outcome: Outcome| {
        let head = TraceHead {
            task: "t".into(),
            env: "e".into(),
            replica: 0,
            seed: 0,
            tools: Arc::clone(&tools),
            sampling: SamplingParams::default(),
        };
        let mut trace = TraceBuilder::new(head, vec![7]).finish(outcome);
        let calls = calls.iter().map(|name| ToolCall::new(*name, Map::new())).collect();
        trace.turns = vec![TurnRecord { calls, executed, ..TurnRecord::default() }];
        trace
    };
    let fault = Outcome::Fault { fault: Fault::new(Boundary::Environment, "down") };
    let counted = count(
        &[
            episode(&["search", "search", "submit"], 3, Outcome::Finished),
            episode(&["search", "dance", "submit"], 2, Outcome::Finished),
            episode(&["submit"], 1, fault),
        ],
        "tau_state",
    );
    assert_eq!(
        counted.evaluation.calls,
        [("search".to_owned(), 1.5), ("submit".to_owned(), 0.5), ("wait".to_owned(), 0.0)].into()
    );
}
