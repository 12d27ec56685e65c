//! Reading task files, one row at a time, in any format.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use hone_trace::Side;
use serde_json::{Map, Value};

use crate::forms::{self, Context, Trouble, domain_of, side_of};
use crate::hash::{hash64, of_json};
use crate::issue::Cause;
use crate::scan::{Element, Elements};
use crate::source::Source;
use crate::{DataError, Issue, IssueKind, Place, Row};

/// Item yielded by a reader.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every item is a row")]
pub enum Item {
    Row(Row),
    Issue(Issue),
}

/// Options of a reading.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The environment of tasks that name none; the domain of tau-bench's.
    pub env: Option<String>,
    /// Tasks that name no environment, and get none by `env`, get the name of their file: `garden` of `garden.jsonl`.
    pub env_by_file: bool,
}

/// Reads inputs in order. A key that was seen before is an issue: exact repetitions and conflicts are dropped.
#[derive(Debug, Default)]
pub struct Reader {
    options: ReadOptions,
    /// Hashes of contents, by hashes of keys.
    seen: HashMap<u64, u64>,
    /// Environments that were named after files, because the tasks name none.
    named_by_file: BTreeSet<String>,
}

/// An input and the side that its name gives its rows: `train=PATH`, or by the file's own name.
fn labelled(input: &str) -> (Option<Side>, &str) {
    match input.split_once('=') {
        Some((label, path)) if !label.contains(['/', '.', ':']) && side_of(label).is_some() => (side_of(label), path),
        _ => (None, input),
    }
}

/// Resolved inputs, which can be read several times.
#[derive(Debug)]
pub struct Inputs(Vec<(Option<Side>, Source)>);

impl Inputs {
    /// Finds paths, URLs, directories and `-`; `train=PATH` and `eval=PATH` give a file's side of the split.
    pub fn open<S: AsRef<str>>(names: &[S]) -> Result<Self, DataError> {
        let mut inputs = Vec::new();
        for name in names {
            let (side, path) = labelled(name.as_ref());
            inputs.extend(Source::all(path)?.into_iter().map(|source| (side, source)));
        }
        Ok(Self(inputs))
    }

    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(|(_, source)| source)
    }
}

impl Reader {
    pub fn new(options: ReadOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// The environments of tasks that name none: see [`ReadOptions::env_by_file`].
    pub fn named_by_file(&self) -> &BTreeSet<String> {
        &self.named_by_file
    }

    /// Calls `each` with every row and issue of the inputs; an error from it stops the reading.
    pub fn read(
        &mut self,
        inputs: &Inputs,
        each: &mut dyn FnMut(Item) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        inputs.0.iter().try_for_each(|(side, source)| self.file(source, *side, each))
    }

    fn file(
        &mut self,
        source: &Source,
        side: Option<Side>,
        each: &mut dyn FnMut(Item) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let stem = source.name.rsplit(['/', '\\']).next().unwrap_or_default();
        let side = side.or_else(|| side_of(stem));
        let context = Context {
            env: self.options.env.clone(),
            env_by_file: self.options.env_by_file.then(|| env_of_file(source, stem)),
            domain: domain_of(&source.name),
            split: stem.strip_prefix("tasks_").and_then(|rest| rest.split('.').next()).unwrap_or("all").to_owned(),
        };
        let mut file = OneFile { reader: self, name: source.name.as_str().into(), side, context, splits: None, at: 0 };
        if source.extension() == "parquet" {
            return parquet(&mut file, source, each);
        }
        file.splits = tau2_splits(source.path());
        let mut elements = Elements::new(source.open()?);
        let read = |error| DataError::Read { path: source.name.clone(), source: error };
        while let Some(Element { line, text, fault }) = elements.next().map_err(read)? {
            let fields = match fault {
                Some(fault) => Err(fault.to_owned()),
                None => serde_json::from_slice::<Map<String, Value>>(&text).map_err(|error| {
                    // Lines of the element, not of the file, unless it is one line long.
                    let at = if error.line() > 1 { format!("line {} of it, ", error.line()) } else { String::new() };
                    format!("{} ({at}column {})", plain(&error), error.column())
                }),
            };
            file.row(line, fields, each)?;
        }
        Ok(())
    }
}

/// An environment's name for the tasks of a file.
fn env_of_file(source: &Source, file_name: &str) -> String {
    let stem = file_name.split('.').next().unwrap_or_default();
    // Standard input and the like.
    let plain = !stem.is_empty() && stem.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if plain && !source.extension().is_empty() { stem.to_owned() } else { "tasks".to_owned() }
}

/// serde_json's message without its position.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

#[cfg(not(feature = "parquet"))]
fn parquet(
    _: &mut OneFile<'_>,
    source: &Source,
    _: &mut dyn FnMut(Item) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let what =
        "this build of hone reads no parquet; build it with `cargo build --release --features parquet`, or write the \
                rows as JSON lines (pandas: df.to_json(\"tasks.jsonl\", orient=\"records\", lines=True))"
            .to_owned();
    Err(DataError::Form { path: source.name.clone(), what })
}

#[cfg(feature = "parquet")]
fn parquet(
    file: &mut OneFile<'_>,
    source: &Source,
    each: &mut dyn FnMut(Item) -> Result<(), DataError>,
) -> Result<(), DataError> {
    crate::parquet_rows::read(source, &mut |line, fields| file.row(line, fields, each))
}

/// The sides of tau2-bench's tasks, by id: from the file beside `tasks.json`.
fn tau2_splits(path: &Path) -> Option<HashMap<String, Side>> {
    let beside = path.parent()?.join("split_tasks.json");
    let splits: Map<String, Value> = serde_json::from_slice(&std::fs::read(beside).ok()?).ok()?;
    let mut sides = HashMap::new();
    for (name, side) in [("train", Side::Train), ("test", Side::Eval)] {
        for id in splits.get(name)?.as_array()? {
            sides.insert(id.as_str().map_or_else(|| id.to_string(), str::to_owned), side);
        }
    }
    Some(sides)
}

struct OneFile<'a> {
    reader: &'a mut Reader,
    name: Arc<str>,
    side: Option<Side>,
    context: Context,
    splits: Option<HashMap<String, Side>>,
    /// Rows so far: tau-bench's tasks are identified by position.
    at: usize,
}

impl OneFile<'_> {
    fn row(
        &mut self,
        line: u64,
        fields: Result<Map<String, Value>, String>,
        each: &mut dyn FnMut(Item) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let at = self.at;
        self.at += 1;
        let fields = match fields {
            Ok(fields) => fields,
            Err(reason) => {
                let trouble = Trouble::new("", reason, "write one JSON object per task");
                return each(self.issue(IssueKind::Dropped, line, None, trouble));
            }
        };
        let key = ["key", "task_key", "task_id", "id"].iter().find_map(|name| fields.get(*name)?.as_str());
        let key = key.map(str::to_owned);
        let read = match forms::read(fields, at, &self.context) {
            Ok(read) => read,
            Err(trouble) => return each(self.issue(IssueKind::Dropped, line, key, trouble)),
        };
        if read.env_by_file {
            self.reader.named_by_file.insert(read.task.env.clone());
        }
        if let Some(trouble) = self.repeats(&read.task) {
            return each(self.issue(IssueKind::Dropped, line, Some(read.task.key), trouble));
        }
        for repair in read.repairs {
            each(self.issue(IssueKind::Repaired, line, Some(read.task.key.clone()), repair))?;
        }
        let listed = || self.splits.as_ref()?.get(read.task.key.rsplit('/').next()?).copied();
        let side = read.side.or_else(listed).or(self.side);
        each(Item::Row(Row { task: read.task, side, at: Place { file: Arc::clone(&self.name), line } }))
    }

    fn repeats(&mut self, task: &hone_trace::Task) -> Option<Trouble> {
        let (key, content) = (hash64(task.key.as_bytes()), of_json(task));
        let before = self.reader.seen.insert(key, content)?;
        // Later ones are still compared with the first.
        self.reader.seen.insert(key, before);
        let trouble = if before == content {
            Trouble::new("key", "duplicate: the same task was read before", "remove one of the two")
        } else {
            Trouble::new("key", "duplicate key: another task of this key was read before", "give one another key")
        };
        Some(Trouble { cause: Cause::Duplicate, ..trouble })
    }

    fn issue(&self, kind: IssueKind, line: u64, key: Option<String>, trouble: Trouble) -> Item {
        let Trouble { field, reason, fix, cause } = trouble;
        Item::Issue(Issue { kind, file: self.name.to_string(), line, key, field: field.into(), reason, fix, cause })
    }
}
