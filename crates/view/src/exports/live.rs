//! Logs of a run in progress: the files of `hone export`, with one more row after every step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ExportError;
use super::rows::{Origin, rows};
use super::stream::{Stream, Writer};
use super::tensorboard::{self, TensorBoard};
use super::wandb::{self, Account, Upload, Wandb};
use crate::run::{Run, ViewError};

/// Longest wait for the last rows at the end of a run.
const PATIENCE: Duration = Duration::from_secs(30);

/// Logs of one run. They read the run's records and append what they have not written yet; a resumed run continues its
/// file.
#[derive(Debug)]
pub struct Logs {
    path: PathBuf,
    /// Opened once there is something to read.
    run: Option<Run>,
    files: Vec<Log>,
    online: Online,
}

/// State of the upload to W&B's server.
#[derive(Debug, Default)]
enum Online {
    #[default]
    Not,
    /// Uploads start with the first rows.
    To(Account),
    Open(Upload),
}

#[derive(Debug)]
struct Log {
    format: &'static str,
    directory: PathBuf,
    writer: Option<Writer>,
}

impl Logs {
    /// Logs of the run in `path`, each in a directory that other runs may also log to.
    pub fn new(path: &Path, tensorboard: Option<&Path>, wandb: Option<&Path>) -> Self {
        let log = |format, directory: &Path| Log { format, directory: directory.to_owned(), writer: None };
        let tensorboard = tensorboard.map(|directory| log("tensorboard", directory));
        let wandb = wandb.map(|directory| log("wandb", directory));
        Self {
            path: path.to_owned(),
            run: None,
            files: tensorboard.into_iter().chain(wandb).collect(),
            online: Online::Not,
        }
    }

    /// The same, with the W&B rows also sent to its server.
    #[must_use]
    pub fn online(self, account: Account) -> Self {
        Self { online: Online::To(account), ..self }
    }

    /// Writes the steps recorded since the last call, up to the step `before` if that one is incomplete. A log that
    /// cannot be written is abandoned; the returned messages say so, once.
    pub fn update(&mut self, before: Option<u64>) -> Vec<String> {
        let mut warnings = self.each(|writer, run| writer.rows(run, before));
        if let Err(error) = self.upload(before) {
            self.online = Online::Not;
            warnings.push(self.offline(&error));
        }
        warnings
    }

    /// Writes the rest when the run ends, finally or until it is resumed.
    pub fn finish(&mut self) -> Vec<String> {
        let mut warnings = self.each(Writer::finish);
        self.files.clear();
        let sent = self.upload(None);
        let done = self.run.as_ref().is_some_and(Run::is_complete);
        let ended = match std::mem::take(&mut self.online) {
            Online::Open(upload) => upload.finish(done, PATIENCE),
            Online::Not | Online::To(_) => Ok(()),
        };
        warnings.extend(sent.and(ended).err().map(|error| self.offline(&error)));
        warnings
    }

    /// Sends the new rows.
    fn upload(&mut self, before: Option<u64>) -> Result<(), String> {
        let Some(run) = &self.run else { return Ok(()) };
        let origin = Origin::of(run);
        if let Online::To(account) = &self.online {
            let named = Wandb::from_env().named(run, &origin);
            self.online = Online::Open(Upload::start(account.clone(), named));
        }
        let Online::Open(upload) = &mut self.online else { return Ok(()) };
        let finished = rows(run, None).take_while(|row| before.is_none_or(|before| row.step < before));
        let new = finished.skip(upload.sent).map(|row| wandb::line(&origin, &row).into());
        upload.rows(new.collect())
    }

    fn offline(&self, error: &str) -> String {
        format!(
            "log.wandb: {error}; the run continues without sending, `hone export {} --to wandb` and `wandb sync` \
             upload it later",
            self.path.display()
        )
    }

    fn each(&mut self, mut write: impl FnMut(&mut Writer, &Run) -> Result<(), ExportError>) -> Vec<String> {
        // A run that was refused before it began has no directory, and no log.
        if self.files.is_empty() || !self.path.join("recipe.toml").is_file() {
            return Vec::new();
        }
        let read = refreshed(&mut self.run, &self.path);
        let path = &self.path;
        let mut warnings = Vec::new();
        self.files.retain_mut(|log| {
            let written = match &read {
                Ok(run) => log.writer(run).and_then(|writer| write(writer, run)).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = &written {
                warnings.push(format!(
                    "log.{format}: {error}; the run continues without this log, `hone export {} --to {format}` \
                     writes it later",
                    path.display(),
                    format = log.format,
                ));
            }
            written.is_ok()
        });
        warnings
    }
}

fn refreshed<'a>(run: &'a mut Option<Run>, path: &Path) -> Result<&'a Run, ViewError> {
    match run {
        Some(run) => {
            run.refresh()?;
            Ok(run)
        }
        None => Ok(run.insert(Run::open(path)?)),
    }
}

impl Log {
    fn writer(&mut self, run: &Run) -> Result<&mut Writer, ExportError> {
        let writer = if let Some(writer) = self.writer.take() {
            writer
        } else {
            let origin = Origin::of(run);
            let (path, stream): (PathBuf, Box<dyn Stream>) = match self.format {
                "wandb" => (wandb::place(&origin, &self.directory), Box::new(Wandb::from_env())),
                _ => (tensorboard::place(run, &origin, &self.directory), Box::new(TensorBoard)),
            };
            Writer::open(&path, stream, run, &origin)?
        };
        Ok(self.writer.insert(writer))
    }
}
