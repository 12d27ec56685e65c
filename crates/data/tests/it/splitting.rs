//! Laws of splits: no task ever moves, near-duplicates stay together, held-out tasks are never trained on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hone_data::split::{Assignment, SplitSettings, Splitter, Why};
use hone_data::{Place, Row};
use hone_trace::{Side, SplitLock, Task};
use proptest::prelude::*;

fn row(env: &str, key: &str, prompt: &str) -> Row {
    Row { task: Task::new(key, env, prompt), side: None, at: Place { file: Arc::from("t"), line: 1 } }
}

/// Prompts that share no three words.
fn distinct(env: &str, at: usize) -> Row {
    let prompt: Vec<String> = (0..12).map(|word| format!("{env}{at}w{word}")).collect();
    row(env, &format!("{env}-{at}"), &prompt.join(" "))
}

fn split(rows: &[Row], settings: &SplitSettings, lock: Option<&SplitLock>) -> Assignment {
    let mut splitter = Splitter::new(settings.clone()).unwrap();
    rows.iter().for_each(|row| splitter.add(row));
    splitter.assign(lock).unwrap()
}

fn sides(rows: &[Row], assignment: &Assignment) -> HashMap<String, Side> {
    rows.iter().zip(&assignment.sides).map(|(row, (side, _))| (row.task.key.clone(), *side)).collect()
}

#[test]
fn growing_from_100_to_2000_tasks_moves_none() {
    let settings = SplitSettings { eval: 0.2, ..SplitSettings::default() };
    let rows: Vec<Row> = (0..2000).map(|at| distinct("github", at)).collect();
    let (small, large) = (split(&rows[..100], &settings, None), split(&rows, &settings, None));
    assert_eq!(small.sides, large.sides[..100]);
    let eval = large.sides.iter().filter(|(side, _)| *side == Side::Eval).count();
    assert!((330..=470).contains(&eval), "{eval} of 2000 at a share of 0.2");
}

#[test]
fn near_duplicates_stay_on_one_side() {
    let settings = SplitSettings { eval: 0.5, ..SplitSettings::default() };
    let words = |at: usize| (0..60).map(|word| format!("{at}w{word}")).collect::<Vec<_>>();
    let mut rows = Vec::new();
    for at in 0..100 {
        rows.push(row("e", &format!("{at}-a"), &words(at).join(" ")));
        let mut edited = words(at);
        edited[30] = "other".into();
        rows.push(row("e", &format!("{at}-b"), &edited.join(" ")));
    }
    let kept = split(&rows, &settings, None);
    assert!(kept.sides.chunks(2).all(|pair| pair[0].0 == pair[1].0));
    assert_eq!(kept.summary.why[&Why::NearDuplicate], 100);
    let apart = split(&rows, &SplitSettings { near: None, ..settings }, None);
    assert!(apart.sides.chunks(2).any(|pair| pair[0].0 != pair[1].0), "without comparing, some pairs are torn");
}

#[test]
fn held_out_environments_and_tasks_are_never_trained_on_and_caps_never_feed_training() {
    let rows: Vec<Row> = (0..300).map(|at| distinct(["booking", "outlook", "github"][at % 3], at)).collect();
    let settings = SplitSettings {
        eval: 0.3,
        held_out_envs: vec!["outlook".into()],
        held_out_tasks: BTreeMap::from([("booking".into(), vec!["0".into(), "booking-99".into()])]),
        max_eval: Some(5),
        max_train: Some(40),
        ..SplitSettings::default()
    };
    let free = split(&rows, &SplitSettings { max_eval: None, max_train: None, ..settings.clone() }, None);
    let capped = split(&rows, &settings, None);
    for (at, row) in rows.iter().enumerate() {
        let (side, was) = (capped.sides[at].0, free.sides[at].0);
        assert!(side == was || side == Side::Unused, "{}: {was} became {side}", row.task.key);
        assert!(row.task.env != "outlook" || side != Side::Train);
    }
    assert_eq!((free.sides[0].0, free.sides[99].0), (Side::Eval, Side::Eval));
    let of = |env: &str, side| capped.summary.environments[env].get(&side).copied().unwrap_or(0);
    assert_eq!((of("outlook", Side::Eval), of("github", Side::Eval), of("github", Side::Train)), (5, 5, 40));
}

#[test]
fn indices_out_of_range_and_unknown_names_are_errors() {
    let rows: Vec<Row> = (0..3).map(|at| distinct("booking", at)).collect();
    let error = |settings: SplitSettings| {
        let mut splitter = Splitter::new(settings).unwrap();
        rows.iter().for_each(|row| splitter.add(row));
        splitter.assign(None).unwrap_err().to_string()
    };
    let pick = |env: &str, task: &str| SplitSettings {
        held_out_tasks: BTreeMap::from([(env.into(), vec![task.into()])]),
        ..SplitSettings::default()
    };
    assert!(error(pick("booking", "3")).contains("out of range: it has 3 tasks"));
    assert!(error(pick("booking", "x")).contains("no task"));
    assert!(
        error(SplitSettings { held_out_envs: vec!["bookin".into()], ..SplitSettings::default() })
            .contains("did you mean \"booking\"")
    );
    assert!(Splitter::new(SplitSettings { eval: 1.5, ..SplitSettings::default() }).is_err());
}

#[test]
fn an_environment_that_was_trained_on_cannot_be_held_out_later() {
    let rows: Vec<Row> = (0..20).map(|at| distinct("booking", at)).collect();
    let first = split(&rows, &SplitSettings::default(), None);
    let mut splitter =
        Splitter::new(SplitSettings { held_out_envs: vec!["booking".into()], ..SplitSettings::default() }).unwrap();
    rows.iter().for_each(|row| splitter.add(row));
    assert!(splitter.assign(Some(&first.lock)).unwrap_err().to_string().contains("locked as train"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tasks of a few environments, arriving in any order and in any number of versions: without a lock no task changes
    /// sides, whatever the shares of earlier versions.
    #[test]
    fn growth_without_a_lock_moves_nothing_between_sides(
        arrivals in prop::collection::vec((0usize..3, 0usize..400), 1..300),
        cuts in prop::collection::vec(0.0f64..1.0, 0..4),
        cap in prop::option::of(1usize..20),
    ) {
        let settings = SplitSettings { eval: 0.3, max_eval: cap, ..SplitSettings::default() };
        let mut seen = std::collections::HashSet::new();
        let rows: Vec<Row> = arrivals.into_iter().filter(|task| seen.insert(*task))
            .map(|(env, at)| distinct(["a", "b", "c"][env], at)).collect();
        let all = sides(&rows, &split(&rows, &settings, None));
        for cut in cuts {
            let part = &rows[..(rows.len() as f64 * cut) as usize];
            for (key, side) in sides(part, &split(part, &settings, None)) {
                let now = all[&key];
                prop_assert!(now == side || now == Side::Unused || side == Side::Unused, "{key}: {side} became {now}");
            }
        }
    }

    /// With a lock nothing changes at all: not by near-duplicates that arrive anywhere, other shares, caps or removals.
    #[test]
    fn a_lock_holds_whatever_else_changes(
        first in prop::collection::hash_set((0usize..3, 0usize..40), 1..60),
        second in prop::collection::hash_set((0usize..3, 0usize..40), 1..60),
        share in 0.0f64..1.0,
        cap in prop::option::of(1usize..10),
    ) {
        // Few words: many prompts are nearly the same.
        let near = |(env, at): (usize, usize)| {
            let prompt: Vec<String> = (0..30).map(|word| format!("w{}", if word == at % 29 { at } else { at % 5 * 100 + word })).collect();
            row(["a", "b", "c"][env], &format!("{env}-{at}"), &prompt.join(" "))
        };
        let before: Vec<Row> = first.iter().copied().map(near).collect();
        let old = split(&before, &SplitSettings { eval: 0.3, ..SplitSettings::default() }, None);
        let mut after: Vec<Row> = second.iter().chain(first.iter().filter(|task| !second.contains(task))).copied().map(near).collect();
        after.truncate(after.len().max(2) - 1);
        let settings = SplitSettings { eval: share, max_eval: cap, seed: 9, ..SplitSettings::default() };
        let new = split(&after, &settings, Some(&old.lock));
        for (key, side) in sides(&after, &new) {
            if let Some(locked) = old.lock.side(&key) {
                prop_assert_eq!(locked, side);
            }
            prop_assert_eq!(new.lock.side(&key), Some(side));
        }
        for (key, side) in sides(&before, &old) {
            prop_assert_eq!(new.lock.side(&key), Some(side), "removed tasks stay locked");
        }
    }
}

#[test]
fn former_evaluation_tasks_that_are_trained_on_are_counted() {
    let mut rows: Vec<Row> = (0..50).map(|at| distinct("github", at)).collect();
    rows.iter_mut().take(20).for_each(|row| row.side = Some(Side::Eval));
    let drawn = split(&rows, &SplitSettings::default(), None);
    let trained = drawn.sides[..20].iter().filter(|(side, _)| *side == Side::Train).count() as u64;
    assert!(trained > 0 && drawn.summary.against == trained);
}
