//! Stable splits: a keyed hash against a fixed threshold, near-duplicates on one side, a lock.
//!
//! A task is on the eval side if the hash of its environment and key is below the environment's share. The threshold
//! depends on nothing else, so a set may grow freely: no task changes sides. (Shares that are turned into counts move
//! their threshold with every new task, and yesterday's evaluation tasks into training.) A near-duplicate of an earlier
//! prompt joins that prompt's side. Caps move tasks of a side into `unused`, never to the other side. With a lock,
//! assignments never change.

mod minhash;

use std::collections::{BTreeMap, HashMap, HashSet};

use hone_trace::{Seed, Side, SplitLock};
use serde::{Deserialize, Serialize};

use crate::table::{Table, count};
use crate::{DataError, Row};
use minhash::{Signature, near_pairs};

/// Settings of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SplitSettings {
    /// Share of every environment's tasks that is held out.
    pub eval: f64,
    /// Other shares, by environment.
    pub eval_of: BTreeMap<String, f64>,
    /// Environments that are held out entirely.
    pub held_out_envs: Vec<String>,
    /// Tasks that are held out by name, by environment: keys, or positions among the environment's tasks.
    pub held_out_tasks: BTreeMap<String, Vec<String>>,
    /// Maximum tasks of an environment on a side; the rest is unused.
    pub max_eval: Option<usize>,
    pub max_train: Option<usize>,
    /// Prompts at least this similar stay on one side; absent: not compared.
    pub near: Option<f64>,
    /// The key of the hash.
    pub seed: u64,
}

impl Default for SplitSettings {
    fn default() -> Self {
        Self {
            eval: 0.1,
            eval_of: BTreeMap::new(),
            held_out_envs: Vec::new(),
            held_out_tasks: BTreeMap::new(),
            max_eval: None,
            max_train: None,
            near: Some(0.8),
            seed: 0,
        }
    }
}

/// Reason for a task's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    Locked,
    HeldOutEnvironment,
    HeldOutTask,
    Hash,
    /// Same side as a task with a near-duplicate prompt.
    NearDuplicate,
    /// Similar to tasks of both sides, or to a training task although it is held out.
    BothSides,
    EvalCap,
    TrainCap,
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    env: u32,
    hash: f64,
    /// It is an evaluation task in the input.
    evaluated: bool,
}

/// Tasks to split, without their texts.
#[derive(Debug, Default)]
pub struct Splitter {
    settings: SplitSettings,
    entries: Vec<Entry>,
    signatures: Vec<Signature>,
    envs: Vec<String>,
    by_env: HashMap<String, u32>,
}

/// The side of every task, in the order they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub sides: Vec<(Side, Why)>,
    pub lock: SplitLock,
    pub summary: Summary,
}

/// Result of a split.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    pub environments: BTreeMap<String, BTreeMap<Side, u64>>,
    pub why: BTreeMap<Why, u64>,
    /// Locked tasks that the set no longer has. They stay locked.
    pub missing: u64,
    /// Tasks on the eval side in the input and on the train side in this split.
    pub against: u64,
}

impl SplitSettings {
    fn check(&self) -> Result<(), DataError> {
        let shares =
            self.eval_of.iter().map(|(env, share)| (env.as_str(), *share)).chain([("every environment", self.eval)]);
        for (env, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(DataError::Split(format!(
                    "the eval share of {env} is {share}; a share is between 0 and 1"
                )));
            }
        }
        match self.near {
            Some(near) if !(near > 0.0 && near <= 1.0) => Err(DataError::Split(format!(
                "near-duplicates are at least {near} similar; give a share over 0 and up to 1"
            ))),
            _ => Ok(()),
        }
    }
}

impl Splitter {
    pub fn new(settings: SplitSettings) -> Result<Self, DataError> {
        settings.check()?;
        Ok(Self { settings, ..Self::default() })
    }

    pub fn add(&mut self, row: &Row) {
        let task = &row.task;
        let env = self.by_env.get(&task.env).copied().unwrap_or_else(|| {
            let number = self.envs.len() as u32;
            self.envs.push(task.env.clone());
            self.by_env.insert(task.env.clone(), number);
            number
        });
        let hash = Seed::root(self.settings.seed).with("split").with(&task.env).with(&task.key);
        self.entries.push(Entry {
            key: task.key.clone(),
            env,
            hash: hash.rng().unit(),
            evaluated: row.side == Some(Side::Eval),
        });
        if self.settings.near.is_some() {
            self.signatures.push(Signature::of(&task.prompt));
        }
    }

    /// Assigns every task. `lock`: an earlier split of the set, which is kept.
    pub fn assign(self, lock: Option<&SplitLock>) -> Result<Assignment, DataError> {
        let picked = self.picked()?;
        self.check_names()?;
        let locked = |entry: &Entry| lock.and_then(|lock| lock.side(&entry.key));
        let held_out = |entry: &Entry| self.settings.held_out_envs.contains(&self.envs[entry.env as usize]);
        // Locked tasks decide first, then those that can only be held out, then the others in the set's order.
        let rank = |at: usize, entry: &Entry| match (locked(entry), held_out(entry) || picked.contains(&at)) {
            (Some(_), _) => 0,
            (None, true) => 1,
            (None, false) => 2,
        };
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&at| (rank(at, &self.entries[at]), at));
        let neighbours = self.neighbours(&order);
        let mut drawn: Vec<(Side, Why)> = vec![(Side::Unused, Why::Hash); self.entries.len()];
        for (position, &at) in order.iter().enumerate() {
            let entry = &self.entries[at];
            let near = neighbours.get(&(position as u32)).map(Vec::as_slice).unwrap_or_default();
            let sides: HashSet<Side> = near
                .iter()
                .map(|earlier| drawn[order[*earlier as usize]].0)
                .filter(|side| *side != Side::Unused)
                .collect();
            drawn[at] = match locked(entry) {
                Some(Side::Train) if held_out(entry) => return Err(self.locked_as_train(entry)),
                Some(side) => (side, Why::Locked),
                None if held_out(entry) || picked.contains(&at) => {
                    let why = if held_out(entry) { Why::HeldOutEnvironment } else { Why::HeldOutTask };
                    if sides.contains(&Side::Train) { (Side::Unused, Why::BothSides) } else { (Side::Eval, why) }
                }
                None => self.draw(entry, &sides),
            };
        }
        self.cap(&mut drawn, Side::Eval, self.settings.max_eval, Why::EvalCap);
        self.cap(&mut drawn, Side::Train, self.settings.max_train, Why::TrainCap);
        Ok(self.finish(drawn, lock))
    }

    fn draw(&self, entry: &Entry, near: &HashSet<Side>) -> (Side, Why) {
        let mut sides = near.iter();
        match (sides.next(), sides.next()) {
            (Some(_), Some(_)) => (Side::Unused, Why::BothSides),
            (Some(side), None) => (*side, Why::NearDuplicate),
            (None, _) => {
                let env = &self.envs[entry.env as usize];
                let share = self.settings.eval_of.get(env).copied().unwrap_or(self.settings.eval);
                (if entry.hash < share { Side::Eval } else { Side::Train }, Why::Hash)
            }
        }
    }

    /// For each position in the order, the earlier positions whose prompts are nearly the same.
    fn neighbours(&self, order: &[usize]) -> HashMap<u32, Vec<u32>> {
        let Some(least) = self.settings.near else { return HashMap::new() };
        let sorted: Vec<Signature> = order.iter().map(|&at| self.signatures[at]).collect();
        let mut found: HashMap<u32, Vec<u32>> = HashMap::new();
        for (later, earlier) in near_pairs(&sorted, least) {
            found.entry(later).or_default().push(earlier);
        }
        found
    }

    /// Positions of the tasks that are held out by name.
    fn picked(&self) -> Result<HashSet<usize>, DataError> {
        let mut picked = HashSet::new();
        for (env, names) in &self.settings.held_out_tasks {
            let number = self.by_env.get(env).ok_or_else(|| self.unknown_env(env))?;
            let own: Vec<usize> = (0..self.entries.len()).filter(|&at| self.entries[at].env == *number).collect();
            for name in names {
                let keyed = own.iter().copied().find(|&at| self.entries[at].key == *name);
                let at = match (keyed, name.parse::<usize>()) {
                    (Some(at), _) => at,
                    (None, Ok(index)) => *own.get(index).ok_or_else(|| {
                        DataError::Split(format!(
                            "held-out task {index} of {env} is out of range: it has {} tasks, numbered from 0 to {}",
                            own.len(),
                            own.len().saturating_sub(1)
                        ))
                    })?,
                    (None, Err(_)) => {
                        return Err(DataError::Split(format!("{env} has no task {name:?}; give a key or a number")));
                    }
                };
                picked.insert(at);
            }
        }
        Ok(picked)
    }

    fn check_names(&self) -> Result<(), DataError> {
        let named = self.settings.held_out_envs.iter().chain(self.settings.eval_of.keys());
        match named.into_iter().find(|env| !self.by_env.contains_key(*env)) {
            Some(env) => Err(self.unknown_env(env)),
            None => Ok(()),
        }
    }

    fn unknown_env(&self, env: &str) -> DataError {
        let known = self.envs.iter().map(String::as_str);
        let near = hone_trace::nearest(env, known.clone()).unwrap_or_default();
        let known = known.collect::<Vec<_>>().join(", ");
        DataError::Split(format!("the set has no environment {env:?}; did you mean {near:?}? It has {known}"))
    }

    fn locked_as_train(&self, entry: &Entry) -> DataError {
        let env = &self.envs[entry.env as usize];
        DataError::Split(format!(
            "{env} cannot be held out: its task {} is locked as train by an earlier split; hold out another environment, or \
             split into a new directory without that lock",
            entry.key
        ))
    }

    /// Moves tasks over a cap out of a side: locked ones stay; of the others, those with the largest hashes go.
    fn cap(&self, drawn: &mut [(Side, Why)], side: Side, most: Option<usize>, why: Why) {
        let Some(most) = most else { return };
        for env in 0..self.envs.len() as u32 {
            let mut own: Vec<usize> =
                (0..drawn.len()).filter(|&at| self.entries[at].env == env && drawn[at].0 == side).collect();
            own.sort_by(|&a, &b| {
                let free = |at: usize| drawn[at].1 != Why::Locked;
                free(a).cmp(&free(b)).then(self.entries[a].hash.total_cmp(&self.entries[b].hash))
            });
            for &at in own.iter().skip(most).filter(|&&at| drawn[at].1 != Why::Locked).collect::<Vec<_>>() {
                drawn[at] = (Side::Unused, why);
            }
        }
    }

    fn finish(self, drawn: Vec<(Side, Why)>, old: Option<&SplitLock>) -> Assignment {
        let settings = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut lock = old.cloned().unwrap_or_default();
        lock.settings = settings;
        lock.held_out_envs.clone_from(&self.settings.held_out_envs);
        let mut summary = Summary::default();
        let before = lock.len() as u64;
        let mut met = 0;
        for (entry, &(side, why)) in self.entries.iter().zip(&drawn) {
            let env = &self.envs[entry.env as usize];
            met += u64::from(why == Why::Locked);
            summary.against += u64::from(entry.evaluated && side == Side::Train);
            lock.set(&entry.key, env, side);
            *summary.environments.entry(env.clone()).or_default().entry(side).or_default() += 1;
            *summary.why.entry(why).or_default() += 1;
        }
        summary.missing = before - met;
        Assignment { sides: drawn, lock, summary }
    }
}

impl Summary {
    pub fn table(&self) -> Table {
        let sides = [Side::Train, Side::Eval, Side::Unused];
        let mut table = Table::new(["environment", "train", "eval", "unused", "total"]);
        let mut all = BTreeMap::new();
        let row = |name: &str, counts: &BTreeMap<Side, u64>| {
            let numbers = sides.map(|side| counts.get(&side).copied().unwrap_or(0));
            let total = numbers.iter().sum();
            std::iter::once(name.to_owned()).chain(numbers.map(count)).chain([count(total)]).collect::<Vec<_>>()
        };
        for (name, counts) in &self.environments {
            table.row(row(name, counts));
            counts.iter().for_each(|(side, number)| *all.entry(*side).or_default() += number);
        }
        table.row(row("all", &all));
        table
    }
}
