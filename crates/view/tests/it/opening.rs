//! Incomplete runs still open, and report what was skipped.

use std::fs;
use std::io::Write as _;

use hone_view::run::{Filter, Origin, Part, Run, Worth};

use crate::made::{HOSTILE, Made, STEPS};

fn append(path: &std::path::Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_run_is_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    assert!(run.notes().is_empty(), "{:?}", run.notes());
    assert_eq!((run.done(), run.planned(), run.success()), (STEPS, Some(STEPS), Some("solved")));
    assert_eq!(run.metrics.points("batch_reward/total").len(), 6);
    assert!(run.metrics.points("policy/policy_kl").is_empty(), "null is absent");
    let (groups, notes) = run.groups(&Part::Step(3), &Filter::default()).unwrap();
    assert!(notes.is_empty());
    let shape: Vec<(String, usize, (usize, usize))> =
        groups.iter().map(|group| (group.task.clone(), group.rollouts.len(), group.solved(run.success()))).collect();
    assert_eq!(shape[..2], [("task-0".to_owned(), 4, (2, 4)), ("task-1".to_owned(), 4, (2, 4))]);
    assert!(matches!(groups[2].rollouts[0].advantage, Worth::Nothing(_)));
    assert_eq!(groups[0].rollouts[0].advantage, Worth::Whole(1.0));
}

#[test]
fn every_token_says_whether_it_was_trained_and_why() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    let (group, _) = run.group(&Part::Step(3), 1).unwrap();
    let full = run.trace(group.rollouts[0].trace).unwrap();
    let tokens = run.tokens(&full);
    assert_eq!(tokens.len(), full.brief.tokens);
    let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
    assert!(text.contains("find my order") && text.contains("Your refund is on its way."), "{text}");
    assert!(tokens.iter().any(|token| token.special && token.text == "<|im_start|>"));
    for token in &tokens {
        assert_eq!(token.trained || token.clipped == Some(true), token.origin.is(Origin::Sampled), "{token:?}");
        assert_eq!(token.gap, token.logprob.map(|logprob| -0.25 - logprob));
    }
    assert_eq!(tokens.iter().filter(|token| token.clipped == Some(true)).count(), 1);
    let eval = run.trace(0).unwrap();
    assert!(
        run.tokens(&eval)
            .iter()
            .filter(|token| token.origin.is(Origin::Sampled))
            .all(|token| token.because.contains("evaluation"))
    );
}

#[test]
fn search_and_filters_choose_rollouts() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    let count = |filter: Filter| {
        run.groups(&Part::Step(2), &filter).unwrap().0.iter().map(|group| group.rollouts.len()).sum::<usize>()
    };
    let text = |text: &str| Filter { text: Some(text.to_owned()), ..Filter::default() };
    assert_eq!(count(Filter::default()), 16);
    assert_eq!((count(text("REFUND")), count(text("onerror")), count(text("no such words"))), (12, 8, 0));
    assert_eq!(count(Filter { outcome: Some("fault".into()), ..Filter::default() }), 1);
    assert_eq!(count(Filter { failure: Some("malformed_json".into()), ..Filter::default() }), 4);
    assert_eq!(count(Filter { least: Some(0.5), ..Filter::default() }), 10);
}

#[test]
fn a_run_that_was_cut_off_opens() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(directory.path()));
    append(&directory.path().join("metrics.jsonl"), b"{\"step\": 7, \"batch_rew");
    let segment = directory.path().join("traces/00000.jsonl.zst");
    let length = fs::metadata(&segment).unwrap().len();
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(length - 5).unwrap();
    let run = Run::open(directory.path()).unwrap();
    let notes = run.notes().join("\n");
    assert!(notes.contains("metrics.jsonl: the last 22 bytes") && notes.contains("traces: events name"), "{notes}");
    assert_eq!(run.done(), STEPS);
    assert_eq!(run.groups(&Part::Step(1), &Filter::default()).unwrap().0.len(), 4);
}

#[test]
fn a_run_of_a_newer_version_opens() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(directory.path()));
    append(
        &directory.path().join("events.jsonl"),
        b"{\"event\": \"of_tomorrow\", \"x\": {}}\nnot JSON\n[1]\n\xff\xfe\n",
    );
    append(&directory.path().join("metrics.jsonl"), b"{\"step\": 7, \"new/metric\": {\"deep\": 1}, \"other\": 2.0}\n");
    let run = Run::open(directory.path()).unwrap();
    let notes = run.notes().join("\n");
    let version = directory.path().join("version");
    fs::write(&version, "9.4.0\n").unwrap();
    append(&directory.path().join("metrics.jsonl"), b"{\"reward\": 1.0}\n");
    let newer = Run::open(directory.path()).unwrap().notes().join("\n");
    assert!(newer.contains("hone 9.4.0 recorded this run") && newer.contains("1 lines name no step"), "{newer}");
    assert!(newer.contains("no numbers were skipped: new/metric"), "{newer}");
    fs::write(&version, concat!(env!("CARGO_PKG_VERSION"), "\n")).unwrap();
    assert!(!Run::open(directory.path()).unwrap().notes().join("\n").contains("recorded this run"));
    assert!(notes.contains("of_tomorrow (1)") && notes.contains("events.jsonl: 3 lines"), "{notes}");
    assert_eq!((run.done(), run.metrics.at(7, "other"), run.metrics.at(7, "new/metric")), (7, Some(2.0), None));
}

#[test]
fn a_live_run_is_read_on_and_a_resumed_one_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut made = Made::begin(directory.path());
    made.step(1);
    let mut run = Run::open(directory.path()).unwrap();
    assert_eq!((run.done(), run.refresh().unwrap()), (1, false));
    made.step(2);
    assert!(run.refresh().unwrap());
    assert_eq!((run.done(), run.groups(&Part::Step(2), &Filter::default()).unwrap().0.len()), (2, 4));
    let metrics = directory.path().join("metrics.jsonl");
    let first = fs::read_to_string(&metrics).unwrap().lines().next().unwrap().len() as u64 + 1;
    fs::OpenOptions::new().write(true).open(&metrics).unwrap().set_len(first).unwrap();
    assert!(run.refresh().unwrap());
    assert_eq!(run.done(), 1);
}

#[test]
fn the_terminal_gets_no_escape_of_a_model() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    let page = hone_view::text::Page { colour: false, columns: 120 };
    let (group, _) = run.group(&Part::Step(3), 1).unwrap();
    let full = run.trace(group.rollouts[2].trace).unwrap();
    assert!(full.messages.iter().any(|message| message.content == HOSTILE));
    for printed in [
        hone_view::text::conversation(&full, page, true),
        hone_view::text::tokens(&run.tokens(&full), page),
        hone_view::text::group(&run, &Part::Step(3), 1, &Filter::default(), page).unwrap(),
        hone_view::text::found(&run, &Filter { text: Some("refund".into()), ..Filter::default() }, page).unwrap(),
        hone_view::text::part(&run, &Part::Step(3), &Filter::default(), page).unwrap(),
    ] {
        let bad = printed
            .chars()
            .find(|c| (c.is_control() && *c != '\n' && *c != '\t') || matches!(c, '\u{202e}' | '\u{2066}'));
        assert_eq!(bad, None, "{printed}");
    }
}

const PAGE: hone_view::text::Page = hone_view::text::Page { colour: false, columns: 120 };

#[test]
fn the_terminal_says_which_groups_teach_nothing_and_which_rollout_is_which() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    let part = |part: Part, filter: &Filter| hone_view::text::part(&run, &part, filter, PAGE).unwrap();
    let step = part(Part::Step(3), &Filter::default());
    assert!(step.contains("1 of 4 groups have no signal and train nothing: every rollout"), "{step}");
    assert!(step.contains("(1 solved by every rollout, 0 by none)"), "{step}");
    let eval = part(Part::Played("eval-0-greedy".into()), &Filter::default());
    assert!(!eval.contains("advantage") && !eval.contains("not recorded"), "an evaluation has none: {eval}");
    let nothing = part(Part::Step(3), &Filter { text: Some("no such words".into()), ..Filter::default() });
    assert_eq!(nothing.lines().next().unwrap().split("step-3").last(), Some("  0 groups, 0 rollouts that match"));
    let (group, _) = run.group(&Part::Step(3), 1).unwrap();
    let second = run.trace(group.rollouts[1].trace).unwrap();
    assert!(hone_view::text::conversation(&second, PAGE, false).contains("rollout 2  finished"));
    let tokens = hone_view::text::tokens(&run.tokens(&second), PAGE);
    assert!(tokens.contains('"') && !tokens.contains("\\\""), "a quote is a quote: {tokens}");
}

#[test]
fn words_are_found_at_every_level() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    let run = Run::open(directory.path()).unwrap();
    let words = |text: &str| Filter { text: Some(text.to_owned()), ..Filter::default() };
    let found = hone_view::text::found(&run, &words("refund"), PAGE).unwrap();
    let step = found.lines().find(|line| line.trim_start().starts_with("step-2 ")).unwrap();
    assert!(step.ends_with("    12  group 1: 1 2 4; group 2: 1 2 4; group 3: 1 2 4; group 4: 1 2 4"), "{found}");
    assert!(found.contains("eval-0-greedy"), "{found}");
    let group = hone_view::text::group(&run, &Part::Step(2), 1, &words("onerror"), PAGE).unwrap();
    assert!(group.contains("2 rollouts that match") && group.contains("3  (trace 22)"), "{group}");
    // Every rollout has the same system prompt: its words match no rollout.
    assert!(run.found(&words("you are a shop")).unwrap().0.is_empty());
    let full = run.trace(20).unwrap();
    let said: Vec<&str> =
        full.messages.iter().filter(|message| message.has("FIND")).map(|message| message.role.as_str()).collect();
    assert_eq!(said, ["user", "assistant", "tool"]);
}

#[test]
fn controls_of_one_kind_have_names_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(directory.path()));
    let control = |from: u64| {
        format!(
            "{{\"event\": \"control\", \"step\": 6, \"kind\": \"probe\", \"result\": {{}}, \"traces\": [{from}, {}]}}\n",
            from + 2
        )
    };
    append(&directory.path().join("events.jsonl"), (control(0) + &control(2)).as_bytes());
    let run = Run::open(directory.path()).unwrap();
    let first = |name: &str| run.groups(&Part::parse(name), &Filter::default()).unwrap().0[0].rollouts[0].trace;
    assert_eq!([first("control-6-probe"), first("control-6-probe-2")], [0, 2]);
}

/// Kinds that this version does not know keep their names, and what can be read of them is shown.
#[test]
fn evaluations_of_a_newer_version_are_shown_under_their_own_names() {
    let directory = tempfile::tempdir().unwrap();
    drop(Made::whole(directory.path()));
    append(
        &directory.path().join("events.jsonl"),
        b"{\"event\": \"eval\", \"step\": 4, \"kind\": \"beam\", \"result\": {\"success\": 0.5}, \"traces\": [0, 2]}
{\"event\": \"control\", \"step\": 6, \"kind\": \"of_tomorrow\"}
{\"event\": \"eval\", \"result\": {}}
",
    );
    let run = Run::open(directory.path()).unwrap();
    let names: Vec<String> = run.events.played.iter().map(hone_view::run::Played::name).collect();
    assert_eq!(names, ["eval-0-greedy", "eval-6-greedy", "eval-4-beam", "control-6-of_tomorrow"]);
    assert_eq!(run.events.evaluations().last().unwrap().success, Some(0.5));
    assert_eq!(run.groups(&Part::parse("eval-4-beam"), &Filter::default()).unwrap().0.len(), 2);
    assert!(run.notes().join("\n").contains("eval (1)"), "an evaluation of no step: {:?}", run.notes());
}

#[test]
fn groups_whose_traces_are_gone_are_answered_with_what_to_restore() {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(directory.path());
    fs::remove_dir_all(directory.path().join("traces")).unwrap();
    let error = Run::open(directory.path()).unwrap().group(&Part::Step(3), 1).unwrap_err().to_string();
    assert!(error.contains("its traces are missing; restore traces/ from a copy of the run"), "{error}");
}
