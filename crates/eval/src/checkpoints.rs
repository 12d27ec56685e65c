//! Checkpoint comparison: the first, the best and the last of a run, for held-out environments, held-out tasks and
//! training tasks, and for each environment.

use std::collections::{BTreeMap, HashMap};

use hone_data::table::Table;
use hone_trace::signed;
use hone_train::evaluate::{Difference, paired};
use serde::{Deserialize, Serialize};

use crate::compare::success;
use crate::table::{About, Episode, Row};
use hone_train::interval::bootstrap::{Estimate, sign_flip};

/// One set of tasks over the checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub tasks: usize,
    pub first: At,
    /// The highest of all. The highest of several noisy numbers is biased upwards: quote the last.
    pub best: At,
    pub last: At,
    /// Last minus first, paired by task, with a sign-flip test.
    pub gain: Option<Difference>,
    pub p_value: Option<f64>,
}

/// pass@1 at a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct At {
    pub step: u64,
    pub pass: Estimate,
}

impl Line {
    /// Lines of at least two checkpoints in the order of their steps: splits first, then each environment of a split.
    /// Tasks that some checkpoint was not scored on are excluded.
    pub fn all(played: &BTreeMap<u64, Vec<Episode>>, about: &HashMap<String, About>) -> Vec<Self> {
        let mut groups: Vec<(u8, String)> = Vec::new();
        for about in about.values() {
            groups.extend(names(about));
        }
        groups.sort();
        groups.dedup();
        let line = |(rank, name): &(u8, String)| {
            let own = |episode: &&Episode| {
                about.get(&episode.task).is_some_and(|about| names(about).contains(&(*rank, name.clone())))
            };
            let played: BTreeMap<u64, Vec<Episode>> =
                played.iter().map(|(step, all)| (*step, all.iter().filter(own).cloned().collect())).collect();
            one(name, &played)
        };
        groups.iter().filter_map(line).collect()
    }
}

fn names(about: &About) -> [(u8, String); 2] {
    let group = match about.split.as_str() {
        "train" => "training tasks",
        "held-out" => "held-out tasks",
        _ => "held-out environments",
    };
    [(0, group.to_owned()), (1, format!("{}, {}", about.env, about.split))]
}

fn one(name: &str, played: &BTreeMap<u64, Vec<Episode>>) -> Option<Line> {
    let by_step: BTreeMap<u64, BTreeMap<String, f64>> =
        played.iter().map(|(step, episodes)| (*step, success(episodes))).collect();
    let common = |task: &String| by_step.values().all(|tasks| tasks.contains_key(task));
    let at: Vec<At> = played
        .iter()
        .filter_map(|(step, episodes)| {
            let scored = episodes.iter().filter(|episode| common(&episode.task));
            Some(At { step: *step, pass: Row::of(scored, &[1]).pass()? })
        })
        .collect();
    let (first, last) = (*at.first()?, *at.last()?);
    // The earliest on ties.
    let best = at.iter().copied().reduce(|best, one| if one.pass.mean > best.pass.mean { one } else { best })?;
    let (before, after) = (by_step.get(&first.step)?, by_step.get(&last.step)?);
    let differences: Vec<f64> =
        before.iter().filter(|(task, _)| common(task)).map(|(task, was)| after[task] - was).collect();
    let apart = first.step != last.step;
    Some(Line {
        name: name.to_owned(),
        tasks: first.pass.tasks,
        first,
        best,
        last,
        gain: paired(before, after).filter(|_| apart),
        p_value: sign_flip(&differences).filter(|_| apart),
    })
}

pub fn table(lines: &[Line]) -> Table {
    let first = lines.first().map_or(0, |line| line.first.step);
    let last = lines.first().map_or(0, |line| line.last.step);
    let mut table = Table::new([
        "tasks".to_owned(),
        format!("checkpoint {first}"),
        "best".into(),
        "best step".into(),
        format!("last ({last})"),
        "last less first".into(),
        "95 %".into(),
        "p".into(),
    ]);
    for line in lines {
        let mean = |at: At| format!("{:.3}", at.pass.mean);
        let gain = line
            .gain
            .map_or(["–".to_owned(), "–".to_owned()], |gain| [signed(gain.mean), gain.ci.map(signed).join(" to ")]);
        let p = line.p_value.map_or_else(|| "–".to_owned(), |p| format!("{p:.4}"));
        let mut cells = vec![format!("{} ({})", line.name, line.tasks), mean(line.first), mean(line.best)];
        cells.push(line.best.step.to_string());
        cells.push(mean(line.last));
        cells.extend(gain);
        cells.push(p);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(env: &str, split: &str) -> About {
        About { env: env.into(), split: split.into(), difficulty: None, changes: None }
    }

    fn episode(task: &str, passed: Option<bool>) -> Episode {
        Episode { task: task.into(), fault: passed.is_none(), passed, reward: None, usage: None }
    }

    #[test]
    fn first_best_and_last_of_every_kind_of_task() {
        let known = HashMap::from([
            ("a".to_owned(), about("shop", "train")),
            ("b".to_owned(), about("shop", "held-out")),
            ("c".to_owned(), about("shop", "held-out")),
            ("d".to_owned(), about("mail", "held-out environment")),
        ]);
        let at = |step: u64, passed: [Option<bool>; 4]| {
            (step, ["a", "b", "c", "d"].into_iter().zip(passed).map(|(task, passed)| episode(task, passed)).collect())
        };
        let (yes, no) = (Some(true), Some(false));
        let played =
            BTreeMap::from([at(0, [no, no, no, yes]), at(20, [yes, yes, yes, yes]), at(40, [yes, yes, no, no])]);
        let lines = Line::all(&played, &known);
        let found: Vec<(&str, f64, f64, u64, f64)> = lines
            .iter()
            .map(|line| {
                (line.name.as_str(), line.first.pass.mean, line.best.pass.mean, line.best.step, line.last.pass.mean)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("held-out environments", 1.0, 1.0, 0, 0.0),
                ("held-out tasks", 0.0, 1.0, 20, 0.5),
                ("training tasks", 0.0, 1.0, 20, 1.0),
                ("mail, held-out environment", 1.0, 1.0, 0, 0.0),
                ("shop, held-out", 0.0, 1.0, 20, 0.5),
                ("shop, train", 0.0, 1.0, 20, 1.0),
            ]
        );
        assert!((lines[1].gain.unwrap().mean - 0.5).abs() < 1e-12 && lines[1].p_value == Some(1.0));
        assert!(table(&lines).text().contains("checkpoint 0") && table(&lines).text().contains("last (40)"));
    }

    #[test]
    fn a_task_that_broke_once_is_left_out_of_all_checkpoints() {
        let known = HashMap::from([("a".to_owned(), about("e", "held-out")), ("b".to_owned(), about("e", "held-out"))]);
        let played = BTreeMap::from([
            (0, vec![episode("a", Some(false)), episode("b", Some(true))]),
            (9, vec![episode("a", Some(true)), episode("b", None)]),
        ]);
        let line = &Line::all(&played, &known)[0];
        assert_eq!((line.tasks, line.first.pass.mean, line.last.pass.mean), (1, 0.0, 1.0));
    }
}
