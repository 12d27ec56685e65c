//! Differences between two versions of a task set: additions, removals, edits and leaks.

use std::collections::{BTreeMap, HashMap};

use hone_trace::Side;
use serde::Serialize;

use crate::Row;
use crate::hash::{hash64, of_json};
use crate::table::{Table, count, percent};

/// A task, reduced to what a comparison needs.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    env: u32,
    side: Option<Side>,
    has_variables: bool,
    prompt: u64,
    variables: u64,
    reference: u64,
    verifier: u64,
    rest: u64,
}

/// One version of a set, reduced to what a comparison needs.
#[derive(Debug, Default)]
pub struct Version {
    tasks: HashMap<String, Known>,
    /// Keys in the order they were read.
    order: Vec<String>,
    envs: Vec<String>,
}

impl Version {
    pub fn add(&mut self, row: &Row) {
        let task = &row.task;
        let env = self.envs.iter().position(|env| *env == task.env).unwrap_or_else(|| {
            self.envs.push(task.env.clone());
            self.envs.len() - 1
        });
        let known = Known {
            env: env as u32,
            side: row.side,
            has_variables: !task.variables.is_empty(),
            prompt: hash64(task.prompt.as_bytes()),
            variables: of_json(&task.variables),
            reference: of_json(&(&task.reference, &task.outputs)),
            verifier: of_json(&task.verifier),
            rest: of_json(&(&task.modality, &task.difficulty, &task.extra)),
        };
        self.order.push(task.key.clone());
        self.tasks.insert(task.key.clone(), known);
    }

    fn env(&self, known: &Known) -> &str {
        self.envs.get(known.env as usize).map_or("", String::as_str)
    }
}

/// Changes in one environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvDiff {
    pub before: u64,
    pub after: u64,
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub edited: Vec<Edited>,
    /// Tasks with variables, before and after.
    pub with_variables: [u64; 2],
    pub moved: Vec<Moved>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edited {
    pub key: String,
    pub fields: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub key: String,
    pub from: Option<Side>,
    pub to: Option<Side>,
}

/// An evaluation task of the old version that the new one trains on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leak {
    pub env: String,
    pub key: String,
    /// The training task: the same key, or another with the same prompt.
    pub trained_as: String,
}

/// Everything that changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diff {
    pub environments: BTreeMap<String, EnvDiff>,
    pub leaks: Vec<Leak>,
}

impl Diff {
    pub fn of(before: &Version, after: &Version) -> Self {
        let mut diff = Self::default();
        let mut trained: HashMap<u64, &str> = HashMap::new();
        for key in &after.order {
            let known = &after.tasks[key];
            let env = diff.environments.entry(after.env(known).to_owned()).or_default();
            env.after += 1;
            env.with_variables[1] += u64::from(known.has_variables);
            match before.tasks.get(key) {
                None => env.added.push(key.clone()),
                Some(old) => {
                    let fields = edits(before, old, after, known);
                    if !fields.is_empty() {
                        env.edited.push(Edited { key: key.clone(), fields });
                    }
                    if old.side != known.side {
                        env.moved.push(Moved { key: key.clone(), from: old.side, to: known.side });
                    }
                }
            }
            if known.side == Some(Side::Train) {
                trained.entry(known.prompt).or_insert(key);
            }
        }
        for key in &before.order {
            let old = &before.tasks[key];
            let name = before.env(old);
            let env = diff.environments.entry(name.to_owned()).or_default();
            env.before += 1;
            env.with_variables[0] += u64::from(old.has_variables);
            let now = after.tasks.get(key);
            if now.is_none() {
                env.removed.push(key.clone());
            }
            if old.side == Some(Side::Eval) {
                let same = now.filter(|now| now.side == Some(Side::Train)).map(|_| key.as_str());
                if let Some(found) = same.or_else(|| trained.get(&old.prompt).copied()) {
                    diff.leaks.push(Leak { env: name.to_owned(), key: key.clone(), trained_as: found.to_owned() });
                }
            }
        }
        diff
    }

    pub fn added(&self) -> usize {
        self.environments.values().map(|env| env.added.len()).sum()
    }

    pub fn removed(&self) -> usize {
        self.environments.values().map(|env| env.removed.len()).sum()
    }

    pub fn edited(&self) -> usize {
        self.environments.values().map(|env| env.edited.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.added() + self.removed() + self.edited() == 0 && self.environments.values().all(|env| env.moved.is_empty())
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new([
            "environment",
            "before",
            "after",
            "added",
            "removed",
            "edited",
            "variables before",
            "after",
            "moved",
            "leaks",
        ]);
        let mut all = EnvDiff::default();
        let row = |name: &str, env: &EnvDiff, leaks: usize| {
            let counts =
                [env.before, env.after, env.added.len() as u64, env.removed.len() as u64, env.edited.len() as u64];
            let mut cells = vec![name.to_owned()];
            cells.extend(counts.map(count));
            cells.push(percent(env.with_variables[0], env.before));
            cells.push(percent(env.with_variables[1], env.after));
            cells.extend([count(env.moved.len() as u64), count(leaks as u64)]);
            cells
        };
        for (name, env) in &self.environments {
            table.row(row(name, env, self.leaks.iter().filter(|leak| leak.env == *name).count()));
            all.before += env.before;
            all.after += env.after;
            all.added.extend(env.added.iter().cloned());
            all.removed.extend(env.removed.iter().cloned());
            all.edited.extend(env.edited.iter().cloned());
            all.moved.extend(env.moved.iter().cloned());
            (0..2).for_each(|at| all.with_variables[at] += env.with_variables[at]);
        }
        table.row(row("all", &all, self.leaks.len()));
        table
    }

    /// The tasks behind the table: at most `limit` of each kind and environment, and the number of the others.
    pub fn names(&self, limit: usize) -> String {
        let mut text = String::new();
        let mut list = |title: String, names: Vec<String>| {
            if names.is_empty() {
                return;
            }
            text += &format!("\n{title}: {}\n", names.len());
            text.extend(names.iter().take(limit).map(|name| format!("  {name}\n")));
            if names.len() > limit {
                text += &format!("  … and {} more; --all names every task\n", names.len() - limit);
            }
        };
        let leak = |leak: &Leak| format!("{} ({}), trained as {}", leak.key, leak.env, leak.trained_as);
        list("leaks (evaluated on before, trained on after)".into(), self.leaks.iter().map(leak).collect());
        for (name, env) in &self.environments {
            list(format!("{name}, removed"), env.removed.clone());
            list(format!("{name}, added"), env.added.clone());
            let edited = |edited: &Edited| format!("{}: {}", edited.key, edited.fields.join(", "));
            list(format!("{name}, edited"), env.edited.iter().map(edited).collect());
            let side = |side: Option<Side>| side.map_or("no split", Side::name);
            let moved = |moved: &Moved| format!("{}: {} to {}", moved.key, side(moved.from), side(moved.to));
            list(format!("{name}, moved"), env.moved.iter().map(moved).collect());
        }
        text
    }
}

fn edits(before: &Version, old: &Known, after: &Version, new: &Known) -> Vec<&'static str> {
    let mut fields = Vec::new();
    fields.extend((before.env(old) != after.env(new)).then_some("environment"));
    fields.extend((old.prompt != new.prompt).then_some("prompt"));
    fields.extend((old.variables != new.variables).then_some("variables"));
    fields.extend((old.reference != new.reference).then_some("reference"));
    fields.extend((old.verifier != new.verifier).then_some("verifier"));
    fields.extend((old.rest != new.rest).then_some("other fields"));
    fields
}
