//! A database that costs nothing to open: shared immutable records under a small per-episode overlay.
//!
//! The base is parsed once. An episode holds only the records it wrote, and those share their unchanged parts with the
//! base. The byte-exact state hash of tau-bench covers megabytes of text; the texts of untouched records and the
//! hasher's state before each of them are cached, so that a hash only costs the part after the first change. Rewards do
//! not hash at all: [`World::same_state`] compares the records that either side wrote.
//!
//! This module knows tables of records and nothing about their contents.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use hone_trace::Digest;
use sha2::{Digest as _, Sha256};

use super::canon::Form;
use super::py::ops::hashed;
use super::py::{Dict, Raised, Value};

/// A table of the database, by its place among the table names in alphabetical order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId(pub usize);

/// The data every episode starts from.
#[derive(Debug)]
pub struct Base {
    form: Form,
    tables: Vec<Table>,
    canon: OnceLock<Canon>,
    indexes: [OnceLock<Option<Index>>; 2],
}

/// First record, in file order, of every text that is derived from a record.
pub(crate) type Index = HashMap<String, Arc<str>>;

/// An index over one table, named by its place among the indexes of its domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexId {
    pub(crate) table: TableId,
    pub(crate) place: usize,
    pub(crate) text: fn(&Value) -> Result<String, Raised>,
}

#[derive(Debug)]
struct Table {
    name: &'static str,
    /// Records in file order, which is visible through tools that search.
    records: Dict,
}

/// The canonical text of the base, cut at record boundaries.
#[derive(Debug)]
struct Canon {
    /// Per table, keys in order with the canonical text of key and record.
    records: Vec<Vec<(Arc<str>, Box<str>)>>,
    /// Per table, the state of the hasher before the separator of record `i`, and once more after the last record.
    before: Vec<Vec<Sha256>>,
    whole: Digest,
}

impl Base {
    /// `tables` in alphabetical order of their names: the order in which the hash reads them.
    pub fn new(form: Form, tables: Vec<(&'static str, Dict)>) -> Self {
        debug_assert!(tables.is_sorted_by_key(|(name, _)| *name));
        let tables = tables.into_iter().map(|(name, records)| Table { name, records }).collect();
        Self { form, tables, canon: OnceLock::new(), indexes: Default::default() }
    }

    pub fn records(&self, table: TableId) -> &Dict {
        &self.tables[table.0].records
    }

    /// `None` where the text of some record cannot be derived.
    fn index(&self, id: IndexId) -> Option<&Index> {
        let build = || {
            let mut index = Index::new();
            for (key, record) in self.records(id.table) {
                index.entry((id.text)(record).ok()?).or_insert_with(|| key.clone());
            }
            Some(index)
        };
        self.indexes[id.place].get_or_init(build).as_ref()
    }

    fn canon(&self) -> &Canon {
        self.canon.get_or_init(|| self.build_canon())
    }

    fn build_canon(&self) -> Canon {
        let mut hasher = Sha256::new();
        let mut records = Vec::new();
        let mut before = Vec::new();
        hasher.update(self.form.open());
        for (at, table) in self.tables.iter().enumerate() {
            hasher.update(self.form.open_table(table.name, at));
            let mut texts: Vec<(Arc<str>, Box<str>)> = (table.records.iter())
                .map(|(key, record)| (key.clone(), self.form.record(key, record).into()))
                .collect();
            texts.sort_by(|a, b| a.0.cmp(&b.0));
            let mut states = Vec::with_capacity(texts.len() + 1);
            for (position, (_, text)) in texts.iter().enumerate() {
                states.push(hasher.clone());
                hasher.update(separator(position));
                hasher.update(text.as_bytes());
            }
            states.push(hasher.clone());
            hasher.update(self.form.close_table(texts.len()));
            records.push(texts);
            before.push(states);
        }
        hasher.update(self.form.close(self.tables.len()));
        Canon { records, before, whole: Digest::from_bytes(hasher.finalize().into()) }
    }
}

fn separator(position: usize) -> &'static str {
    if position == 0 { "" } else { ", " }
}

/// One episode's view of the database.
#[derive(Debug, Clone)]
pub struct World {
    base: Arc<Base>,
    /// Per table, the records this episode wrote.
    written: Vec<BTreeMap<Arc<str>, Value>>,
}

impl World {
    pub fn open(base: Arc<Base>) -> Self {
        let written = vec![BTreeMap::new(); base.tables.len()];
        Self { base, written }
    }

    pub fn get(&self, table: TableId, key: &str) -> Option<&Value> {
        self.written[table.0].get(key).or_else(|| self.base.tables[table.0].records.get(key))
    }

    /// The record under whatever the agent sent as its key.
    pub fn find(&self, table: TableId, key: &Value) -> Result<Option<&Value>, Raised> {
        Ok(hashed(key)?.and_then(|key| self.get(table, key)))
    }

    /// The record of a key that our own data names.
    pub fn require(&self, table: TableId, key: &Value) -> Result<&Value, Raised> {
        self.find(table, key)?.ok_or_else(|| Raised::key(key))
    }

    /// Mutable record. Copied on the first write, shallowly: its contents stay shared.
    pub(crate) fn edit(&mut self, table: TableId, key: &Value) -> Result<&mut Value, Raised> {
        let Some(name) = hashed(key)? else { return Err(Raised::key(key)) };
        let base = self.base.tables[table.0].records.get_key_value(name);
        let written = &mut self.written[table.0];
        match (written.contains_key(name), base) {
            (false, Some((name, record))) => Ok(written.entry(name.clone()).or_insert_with(|| record.clone())),
            _ => written.get_mut(name).ok_or_else(|| Raised::key(key)),
        }
    }

    pub fn put(&mut self, table: TableId, key: &str, record: Value) {
        self.written[table.0].insert(key.into(), record);
    }

    /// Every record: those of the base in file order, then new ones.
    pub fn records(&self, table: TableId) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        let base = &self.base.tables[table.0].records;
        let written = &self.written[table.0];
        let old = base.iter().map(|(key, record)| (key, written.get(key).unwrap_or(record)));
        old.chain(written.iter().filter(|(key, _)| !base.contains_key(*key)))
    }

    /// Index of a table: one lookup instead of a scan. `None` where only a scan can tell: the episode wrote to the table,
    /// or some record has no such text.
    pub(crate) fn index(&self, id: IndexId) -> Option<&Index> {
        self.base.index(id).filter(|_| self.written[id.table.0].is_empty())
    }

    /// The records this episode wrote, table by table.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, &Arc<str>, &Value)> {
        let tables = self.base.tables.iter().zip(&self.written);
        tables.flat_map(|(table, written)| written.iter().map(|(key, record)| (table.name, key, record)))
    }

    /// The record as the base has it.
    pub fn original(&self, table: &str, key: &str) -> Option<&Value> {
        self.base.tables.iter().find(|known| known.name == table)?.records.get(key)
    }

    /// True when the state differs from the base.
    pub fn is_changed(&self) -> bool {
        !self.same_state(&Self::open(self.base.clone()))
    }

    /// True when both episodes, opened on one base, ended in the same state, judged as the hash would.
    pub fn same_state(&self, other: &Self) -> bool {
        debug_assert!(Arc::ptr_eq(&self.base, &other.base), "worlds of one base");
        (0..self.written.len()).map(TableId).all(|table| {
            let keys = self.written[table.0].keys().chain(other.written[table.0].keys());
            keys.into_iter().all(|key| match (self.get(table, key), other.get(table, key)) {
                (Some(a), Some(b)) => self.base.form.same(a, b),
                _ => false,
            })
        })
    }

    /// SHA-256 of the whole state's canonical text.
    pub fn state_hash(&self) -> Digest {
        let canon = self.base.canon();
        let Some((table, position)) = self.first_written(canon) else { return canon.whole };
        let mut hasher = canon.before[table][position].clone();
        for (at, shared) in self.base.tables.iter().enumerate().skip(table) {
            let from = if at == table { position } else { 0 };
            if at > table {
                hasher.update(self.base.form.open_table(shared.name, at));
            }
            self.hash_table(&mut hasher, at, from, &canon.records[at]);
        }
        hasher.update(self.base.form.close(self.base.tables.len()));
        Digest::from_bytes(hasher.finalize().into())
    }

    /// Position of the first written record in the canonical order.
    fn first_written(&self, canon: &Canon) -> Option<(usize, usize)> {
        let (table, written) = self.written.iter().enumerate().find(|(_, written)| !written.is_empty())?;
        let (first, _) = written.first_key_value()?;
        Some((table, canon.records[table].partition_point(|(key, _)| key < first)))
    }

    /// Merges the written records into the texts of the base, from record `from` on.
    fn hash_table(&self, hasher: &mut Sha256, table: usize, from: usize, texts: &[(Arc<str>, Box<str>)]) {
        let mut written = self.written[table].iter().peekable();
        let mut position = from;
        let mut emit = |hasher: &mut Sha256, text: &str| {
            hasher.update(separator(position));
            hasher.update(text.as_bytes());
            position += 1;
        };
        for (key, text) in &texts[from..] {
            while let Some((name, record)) = written.next_if(|(name, _)| *name < key) {
                emit(hasher, &self.base.form.record(name, record));
            }
            match written.next_if(|(name, _)| *name == key) {
                Some((name, record)) => emit(hasher, &self.base.form.record(name, record)),
                None => emit(hasher, text),
            }
        }
        for (name, record) in written {
            emit(hasher, &self.base.form.record(name, record));
        }
        hasher.update(self.base.form.close_table(position));
    }
}
