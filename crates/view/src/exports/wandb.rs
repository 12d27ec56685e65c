//! W&B's offline run: a log of `Record`s in protobuf that `wandb sync` uploads.

mod account;
mod blocks;
mod send;
mod upload;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::ExportError;
use super::proto::{Field, Message, field};
use super::rows::{Origin, Row};
use super::stream::{self, Stream};
use crate::run::Run;

pub use account::{Account, Mode};
pub use send::send;
pub(super) use upload::{Named, Upload};

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    stream::write(run, &place(&Origin::of(run), into), Box::new(Wandb::from_env()))
}

/// The file of a run in W&B's directory.
pub(super) fn place(origin: &Origin, directory: &Path) -> PathBuf {
    let name = format!("offline-run-{}-{}", origin.stamp(), origin.id);
    directory.join(name).join(format!("run-{}.wandb", origin.id))
}

/// A W&B run and its project.
#[derive(Debug)]
pub(super) struct Wandb {
    project: String,
    /// Absent: W&B uses the user's own.
    entity: Option<String>,
}

impl Wandb {
    /// As W&B's own settings: `WANDB_PROJECT` and `WANDB_ENTITY`.
    pub(super) fn from_env() -> Self {
        Self { project: account::project(), entity: account::entity() }
    }

    /// The run as described to a server.
    pub(super) fn named(self, run: &Run, origin: &Origin) -> Named {
        let Self { project, entity } = self;
        Named { id: origin.id.clone(), name: run.name.clone(), project, entity, config: config(run) }
    }
}

/// The recipe, by table.
fn config(run: &Run) -> Map<String, Value> {
    run.recipe.iter().filter_map(|(key, value)| Some((key.clone(), serde_json::to_value(value).ok()?))).collect()
}

/// A row of the history.
pub(super) fn line(origin: &Origin, row: &Row) -> Map<String, Value> {
    let time = origin.began as f64 + row.seconds;
    let own = [("_step", row.step.into()), ("_runtime", row.seconds.into()), ("_timestamp", time.into())];
    let values = row.values.iter().map(|(name, value)| (name.as_str(), Value::from(*value)));
    values.chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Fields of `Record`.
mod record {
    pub(super) const NUMBER: u32 = 1;
    pub(super) const HISTORY: u32 = 2;
    pub(super) const SUMMARY: u32 = 3;
    pub(super) const RUN: u32 = 17;
    pub(super) const EXIT: u32 = 18;
    pub(super) const HEADER: u32 = 21;
}

/// An item of a config, a history or a summary: key = 1, value_json = 16.
fn item(key: &str, value: &Value) -> Message {
    Message::default().text(1, key).text(16, &value.to_string())
}

/// A list of items: `update` = 1 in config and summary, `item` = 1 in history.
fn items(all: &Map<String, Value>) -> Message {
    all.iter().fold(Message::default(), |list, (key, value)| list.message(1, &item(key, value)))
}

impl Stream for Wandb {
    /// A name, a magic number and the version of the log.
    fn magic(&self) -> &'static [u8] {
        b":W&B\xe1\xbe\x00"
    }

    /// header { version_info = 1 { producer = 1, min_consumer = 2 } }; run { run_id = 1, entity = 2, project = 3, config = 4,
    /// display_name = 8, start_time = 17 { seconds = 1 } }.
    fn head(&self, run: &Run, origin: &Origin) -> Vec<Message> {
        let producer = concat!("hone-", env!("CARGO_PKG_VERSION"));
        let version = Message::default().text(1, producer).text(2, "0.40.0");
        let header = Message::default().message(1, &version);
        let config = items(&config(run));
        let named = Message::default().text(1, &origin.id);
        let named = self.entity.iter().fold(named, |named, entity| named.text(2, entity));
        let began = named.text(3, &self.project).message(4, &config).text(8, &run.name);
        let began = began.message(17, &Message::default().number(1, origin.began));
        vec![Message::default().message(record::HEADER, &header), Message::default().message(record::RUN, &began)]
    }

    /// summary, then history { item = 1, step = 2 { num = 1 } }.
    fn row(&self, origin: &Origin, row: &Row) -> Vec<Message> {
        let list = items(&line(origin, row));
        let history = list.clone().message(2, &Message::default().number(1, row.step));
        vec![Message::default().message(record::SUMMARY, &list), Message::default().message(record::HISTORY, &history)]
    }

    /// exit { exit_code = 1, runtime = 2 }.
    fn end(&self, seconds: f64) -> Vec<Message> {
        let exit = Message::default().number(1, 0).number(2, seconds.round() as u64);
        vec![Message::default().message(record::EXIT, &exit)]
    }

    fn frame(&self, at: u64, number: u64, record: &Message) -> Vec<u8> {
        let mut numbered = Message::default().number(record::NUMBER, number);
        numbered.0.extend(&record.0);
        blocks::framed(at, &numbered.0)
    }

    fn read(&self, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        if bytes.starts_with(self.magic()) { blocks::read(bytes, self.magic().len()) } else { Vec::new() }
    }

    fn step(&self, record: &[u8]) -> Option<u64> {
        let history = field(record, record::HISTORY.into())?.as_bytes()?;
        field(field(history, 2)?.as_bytes()?, 1).and_then(Field::as_number)
    }
}
