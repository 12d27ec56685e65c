//! Rows of an evaluation: by environment, split and difficulty, by whether the reference changes state, and over all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hone_arena::rewards::TOTAL;
use hone_data::table::Table;
use hone_trace::{Task, Trace, Usage, rounded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::passes::{pass_at, pass_hat};
use crate::spent::{Price, Spent, money};
use hone_train::interval::bootstrap::{Estimate, over_tasks};

/// Criterion of passing: the success component at its threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passing {
    pub component: String,
    pub at_least: f64,
}

/// One episode, as needed by the tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    pub task: String,
    /// Something outside the policy broke. Never a failure.
    pub fault: bool,
    /// True if it passed; `None` if it was not scored.
    pub passed: Option<bool>,
    pub reward: Option<f64>,
    /// Tokens; `None` if they were not counted.
    pub usage: Option<Usage>,
}

impl Episode {
    pub fn of(trace: &Trace, passing: &Passing) -> Self {
        let fault = !trace.outcome.is_scorable();
        let scored = |component: &str| trace.reward(component).filter(|_| !fault);
        Self {
            task: trace.task.clone(),
            fault,
            passed: scored(&passing.component).map(|value| value >= passing.at_least - 1e-6),
            reward: scored(TOTAL),
            usage: trace.usage().filter(|usage| *usage != Usage::default()),
        }
    }
}

/// Facts of a task beside its episodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    pub env: String,
    pub split: String,
    pub difficulty: Option<u8>,
    /// True when the reference changes state; `None`: not known.
    pub changes: Option<bool>,
}

impl About {
    /// Facts of a task in a split. `trace`: an episode of it, whose facts may say whether anything had to be changed.
    pub fn of(task: &Task, split: &str, trace: Option<&Trace>) -> Self {
        let wanted =
            trace.and_then(|trace| trace.facts.get("changes")?.get("wanted")?.as_array().map(|list| !list.is_empty()));
        let by_states = || {
            let states = trace?.facts.get("states")?;
            Some(states.get("initial") != states.get("reference"))
        };
        let empty = || task.reference.as_ref().filter(|calls| calls.is_empty()).map(|_| false);
        Self {
            env: task.env.clone(),
            split: split.to_owned(),
            difficulty: task.difficulty,
            changes: wanted.or_else(by_states).or_else(empty),
        }
    }
}

/// One row: a policy on some tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub tasks: usize,
    /// Episodes played: scored, unscored and broken ones.
    pub episodes: usize,
    /// Episodes counted: the denominator.
    pub scored: usize,
    pub passed: usize,
    pub unscored: usize,
    pub faults: usize,
    /// Mean total reward over tasks.
    pub reward: Option<Estimate>,
    /// By k; only tasks with at least k scored episodes count, and the estimate gives their number.
    pub pass_at: BTreeMap<usize, Estimate>,
    pub pass_hat: BTreeMap<usize, Estimate>,
    /// Absent if the tokens of an episode are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

impl Row {
    /// Counts episodes; `ks` are the k of pass@k and pass^k.
    pub fn of<'a>(episodes: impl IntoIterator<Item = &'a Episode>, ks: &[usize]) -> Self {
        Self::priced(episodes, ks, None)
    }

    /// Counts episodes and their cost.
    pub fn priced<'a>(episodes: impl IntoIterator<Item = &'a Episode>, ks: &[usize], price: Option<Price>) -> Self {
        let mut by_task: BTreeMap<&str, Vec<&Episode>> = BTreeMap::new();
        for episode in episodes {
            by_task.entry(&episode.task).or_default().push(episode);
        }
        let all = || by_task.values().flatten();
        let count = |pick: &dyn Fn(&Episode) -> bool| all().filter(|episode| pick(episode)).count();
        let trials: Vec<(usize, usize)> = by_task
            .values()
            .map(|own| {
                let scored = own.iter().filter_map(|episode| episode.passed);
                (scored.clone().count(), scored.filter(|passed| *passed).count())
            })
            .collect();
        let means: Vec<f64> = by_task
            .values()
            .filter_map(|own| {
                let rewards: Vec<f64> = own.iter().filter_map(|episode| episode.reward).collect();
                (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
            })
            .collect();
        let by_k = |pass: fn(usize, usize, usize) -> Option<f64>| {
            let one = |&k: &usize| {
                let values: Vec<f64> = trials.iter().filter_map(|&(n, c)| pass(n, c, k)).collect();
                over_tasks(&values, true).map(|estimate| (k, estimate))
            };
            ks.iter().filter_map(one).collect()
        };
        let passed = count(&|episode| episode.passed == Some(true));
        let used = all().filter(|episode| episode.passed.is_some()).map(|episode| episode.usage);
        Self {
            tasks: by_task.len(),
            episodes: all().count(),
            scored: count(&|episode| episode.passed.is_some()),
            passed,
            unscored: count(&|episode| !episode.fault && episode.passed.is_none()),
            faults: count(&|episode| episode.fault),
            reward: over_tasks(&means, false),
            pass_at: by_k(pass_at),
            pass_hat: by_k(pass_hat),
            spent: Spent::of(used, passed, price),
        }
    }

    /// Tokens read and written per passed episode, as text.
    pub(crate) fn tokens_per_solved(&self) -> String {
        let tokens = self.spent.and_then(|spent| spent.tokens_per_solved);
        tokens.map_or_else(|| "–".into(), |tokens| hone_data::table::count(tokens.round() as u64))
    }

    pub(crate) fn cost_per_solved(&self) -> String {
        self.spent.and_then(|spent| spent.cost_per_solved).map_or_else(|| "–".into(), money)
    }

    /// Mean share of a task's episodes that pass.
    pub fn pass(&self) -> Option<Estimate> {
        self.pass_at.get(&1).copied()
    }
}

/// A policy's episodes under its name.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub episodes: Vec<Episode>,
    pub price: Option<Price>,
}

/// Rows of every group, by policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub policies: Vec<(String, Row)>,
}

/// An evaluation, counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub passing: Passing,
    /// All tasks first, then by split, environment, difficulty, and by whether the reference changes state.
    pub groups: Vec<Group>,
    /// Tasks by what their reference does to the state.
    #[serde(default)]
    pub effects: BTreeMap<String, usize>,
}

impl Results {
    pub fn of(columns: &[Column], about: &HashMap<String, About>, passing: Passing, ks: &[usize]) -> Self {
        let mut names: Vec<(u8, String)> = vec![(0, "all".into())];
        for about in about.values() {
            names.extend(groups_of(about));
        }
        names.sort();
        names.dedup();
        // A group that contains all tasks adds nothing.
        let members = |name: &(u8, String)| about.values().filter(|about| is_in(about, name)).count();
        names.retain(|name| name.0 == 0 || members(name) < about.len());
        let mut effects = BTreeMap::new();
        for about in about.values() {
            *effects.entry(effect(about.changes).to_owned()).or_default() += 1;
        }
        let group = |name: (u8, String)| {
            let row = |column: &Column| {
                let own = column
                    .episodes
                    .iter()
                    .filter(|episode| about.get(&episode.task).is_some_and(|about| is_in(about, &name)));
                (column.name.clone(), Row::priced(own, ks, column.price))
            };
            Group {
                policies: columns.iter().map(row).filter(|(_, row)| row.episodes > 0).collect(),
                name: name.1.clone(),
            }
        };
        Self { passing, groups: names.into_iter().map(group).collect(), effects }
    }

    /// The first policy on all tasks.
    pub fn headline(&self) -> Option<&Row> {
        self.groups.first()?.policies.first().map(|(_, row)| row)
    }

    /// Rows by group and policy. `intervals`: an interval beside every estimate; otherwise only beside pass@1.
    pub fn table(&self, intervals: bool) -> Table {
        let rows = || self.groups.iter().flat_map(|group| group.policies.iter().map(|(_, row)| row));
        let ks: BTreeSet<usize> = rows().flat_map(|row| row.pass_at.keys().copied()).filter(|k| *k > 1).collect();
        let tokens = rows().any(|row| row.spent.is_some());
        let cost = rows().any(|row| row.spent.is_some_and(|spent| spent.cost.is_some()));
        let mut head: Vec<String> =
            ["tasks", "policy", "reward", "pass@1", "95 %", "passed"].map(str::to_owned).to_vec();
        head.retain(|name| !intervals || name != "95 %");
        head.extend(ks.iter().flat_map(|k| [format!("pass@{k}"), format!("pass^{k}")]));
        head.extend(tokens.then(|| "tokens per solved".to_owned()));
        head.extend(cost.then(|| "cost per solved".to_owned()));
        head.extend(["unscored".to_owned(), "faults".to_owned()]);
        let number = |estimate: Option<&Estimate>| match estimate {
            Some(Estimate { mean, ci: [low, high], .. }) if intervals => {
                let [mean, low, high] = [*mean, *low, *high].map(|value| rounded(value, 3));
                format!("{mean:.3} [{low:.3}, {high:.3}]")
            }
            Some(estimate) => format!("{:.3}", rounded(estimate.mean, 3)),
            None => "–".into(),
        };
        let mut table = Table::new(head);
        for (group, (name, row)) in
            self.groups.iter().flat_map(|group| group.policies.iter().map(move |row| (group, row)))
        {
            let mut cells = vec![format!("{} ({})", group.name, row.tasks), name.clone()];
            cells.extend([number(row.reward.as_ref()), number(row.pass().as_ref())]);
            if !intervals {
                cells.push(
                    row.pass()
                        .map_or_else(|| "–".into(), |Estimate { ci, .. }| format!("{:.3} to {:.3}", ci[0], ci[1])),
                );
            }
            cells.push(format!("{} of {}", row.passed, row.scored));
            cells.extend(ks.iter().flat_map(|k| [number(row.pass_at.get(k)), number(row.pass_hat.get(k))]));
            cells.extend(tokens.then(|| row.tokens_per_solved()));
            cells.extend(cost.then(|| row.cost_per_solved()));
            cells.extend([row.unscored.to_string(), row.faults.to_string()]);
            table.row(cells);
        }
        table
    }

    /// Effect of the tasks' references, if it is known and the same for all: rows by effect would add nothing.
    pub fn effect(&self) -> Option<String> {
        let [(name, tasks)] = self.effects.iter().collect::<Vec<_>>()[..] else { return None };
        if name == effect(None) {
            return None;
        }
        Some(format!("{name} in all {tasks} tasks"))
    }

    /// The page of an evaluation. `what`: a line about the policy and how it was played.
    pub fn markdown(&self, what: &str) -> String {
        format!(
            "# Evaluation\n\n{what}\n\nAn episode passes where {} is at least {}. Means weigh tasks the same; intervals are 95 %, \
             Wilson's over tasks played once, else by bootstrap over tasks. Faults (something outside the policy broke) and unscored episodes are in no denominator: \
             \"passed\" says of how many.\n\n{}",
            self.passing.component,
            self.passing.at_least,
            self.table(true).markdown()
        ) + &self.effect().map(|effect| format!("\nThe {effect}.\n")).unwrap_or_default()
    }
}

fn groups_of(about: &About) -> Vec<(u8, String)> {
    let mut groups = vec![(1, format!("split {}", about.split)), (2, format!("{}, {}", about.env, about.split))];
    groups.extend(about.difficulty.map(|level| (3, format!("difficulty {level}"))));
    groups.push((4, effect(about.changes).to_owned()));
    groups
}

fn effect(changes: Option<bool>) -> &'static str {
    match changes {
        Some(true) => "reference changes state",
        Some(false) => "reference changes nothing",
        None => "effect of the reference is unknown",
    }
}

fn is_in(about: &About, name: &(u8, String)) -> bool {
    name.0 == 0 || groups_of(about).contains(name)
}

/// The conversation in an episode's facts, as JSON; empty if it was not recorded.
pub(crate) fn messages(trace: &Trace) -> Vec<hone_trace::Message> {
    let list: Option<&Value> = trace.facts.get("messages");
    list.and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(task: &str, passed: Option<bool>, fault: bool) -> Episode {
        Episode {
            task: task.into(),
            fault,
            passed,
            reward: passed.map(|passed| f64::from(u8::from(passed))),
            usage: None,
        }
    }

    #[test]
    fn faults_are_no_failures_and_the_denominator_is_there() {
        let episodes = [
            episode("a", Some(true), false),
            episode("a", None, true),
            episode("b", Some(false), false),
            episode("b", None, false),
            episode("c", None, true),
        ];
        let row = Row::of(&episodes, &[1, 2]);
        assert_eq!((row.tasks, row.episodes, row.scored, row.passed, row.unscored, row.faults), (3, 5, 2, 1, 1, 2));
        let pass = row.pass().unwrap();
        assert_eq!((pass.mean, pass.tasks), (0.5, 2));
        assert!(!row.pass_at.contains_key(&2), "no task has two scored episodes");
    }

    #[test]
    fn groups_split_by_what_is_known_of_a_task() {
        let about =
            |env: &str, difficulty, changes| About { env: env.into(), split: "held-out".into(), difficulty, changes };
        let known = HashMap::from([
            ("a".to_owned(), about("retail", Some(1), Some(true))),
            ("b".to_owned(), about("retail", Some(2), Some(false))),
            ("c".to_owned(), about("airline", Some(1), Some(true))),
        ]);
        let columns = [Column {
            name: "p".into(),
            episodes: vec![
                episode("a", Some(true), false),
                episode("b", Some(true), false),
                episode("c", Some(false), false),
            ],
            price: None,
        }];
        let passing = Passing { component: "tau".into(), at_least: 1.0 };
        let results = Results::of(&columns, &known, passing, &[1]);
        let passed: Vec<(&str, usize, usize)> = results
            .groups
            .iter()
            .map(|group| (group.name.as_str(), group.policies[0].1.passed, group.policies[0].1.scored))
            .collect();
        assert_eq!(
            passed,
            [
                ("all", 2, 3),
                ("airline, held-out", 0, 1),
                ("retail, held-out", 2, 2),
                ("difficulty 1", 1, 2),
                ("difficulty 2", 1, 1),
                ("reference changes nothing", 1, 1),
                ("reference changes state", 1, 2),
            ]
        );
    }

    #[test]
    #[ignore = "needs tau-bench's data (see CONTRIBUTING.md)"]
    fn the_200_recorded_airline_trajectories() {
        let path = hone_testdata::third_party("data/tau/tau-bench/historical_trajectories/gpt-4o-airline.json");
        let recorded: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let played = |line: &Value| {
            let passed = (line["reward"].as_f64().unwrap() - 1.0).abs() <= 1e-6;
            episode(&line["task_id"].to_string(), Some(passed), false)
        };
        let episodes: Vec<Episode> = recorded.iter().map(played).collect();
        let row = Row::of(&episodes, &[1, 2, 3, 4]);
        assert_eq!((row.tasks, row.scored), (50, 200));
        for (k, published) in [(1, 0.42), (2, 0.2733), (3, 0.22), (4, 0.20)] {
            assert!((row.pass_hat[&k].mean - published).abs() < 1e-4, "pass^{k} is {}", row.pass_hat[&k].mean);
        }
        assert!((row.pass_at[&1].mean - 0.42).abs() < 1e-9 && row.pass_at[&4].mean > row.pass_at[&2].mean);
    }
}
