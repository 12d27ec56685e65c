//! Atomic checkpoints: directories that are complete or absent.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{RunDir, RunDirError, RunReader, UNFINISHED, children, io_error, remove_if_there};

/// The link to the best checkpoint.
const BEST: &str = "best";

impl RunDir {
    /// Writes a checkpoint directory atomically: `write` fills a temporary directory, which is then renamed. Everything
    /// appended to the run so far is synced to disk before the checkpoint is.
    pub async fn checkpoint(
        &mut self,
        step: u64,
        write: impl AsyncFnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, RunDirError> {
        self.sync()?;
        let directory = self.path.join("checkpoints");
        let path = directory.join(name(step));
        let unfinished = path.with_extension(UNFINISHED);
        remove_if_there(&unfinished)?;
        fs::create_dir_all(&unfinished).map_err(io_error("cannot create", &unfinished))?;
        let written = write(&unfinished).await.and_then(|()| sync_tree(&unfinished));
        if let Err(error) = written {
            // The half-written directory may be what filled the disk. The first error is the one to report.
            let _ = remove_if_there(&unfinished);
            return Err(io_error("cannot write the checkpoint", &unfinished)(error));
        }
        remove_if_there(&path)?;
        fs::rename(&unfinished, &path).map_err(io_error("cannot rename into place", &path))?;
        sync_directory(&directory).map_err(io_error("cannot sync", &directory))?;
        Ok(path)
    }

    /// Removes the checkpoints that `keep` does not want; returns their steps.
    pub fn prune(&mut self, keep: impl Fn(u64) -> bool) -> Result<Vec<u64>, RunDirError> {
        let mut removed = Vec::new();
        for (step, path) in found(&self.path)? {
            if !keep(step) {
                // Renamed first: an interrupted removal leaves no partial checkpoint under its name.
                let unfinished = path.with_extension(UNFINISHED);
                remove_if_there(&unfinished)?;
                fs::rename(&path, &unfinished).map_err(io_error("cannot rename", &path))?;
                remove_if_there(&unfinished)?;
                removed.push(step);
            }
        }
        Ok(removed)
    }

    /// Points `checkpoints/best` at the checkpoint of a step.
    pub fn mark_best(&mut self, step: u64) -> Result<(), RunDirError> {
        let link = self.path.join("checkpoints").join(BEST);
        let unfinished = link.with_extension(UNFINISHED);
        let marked = fs::remove_file(&unfinished)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .and_then(|()| link_to(&name(step), &unfinished))
            .and_then(|()| fs::rename(&unfinished, &link));
        marked.map_err(io_error("cannot point at the best checkpoint", &link))
    }
}

impl RunReader {
    /// Complete checkpoints, oldest first, with their steps.
    pub fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>, RunDirError> {
        found(&self.path)
    }
}

fn name(step: u64) -> String {
    format!("step-{step:08}")
}

fn found(run: &Path) -> Result<Vec<(u64, PathBuf)>, RunDirError> {
    let mut found = Vec::new();
    for path in children(&run.join("checkpoints"))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(step) = name.strip_prefix("step-").and_then(|step| step.parse().ok()) {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn clear_unfinished(directory: &Path) -> Result<(), RunDirError> {
    fs::create_dir_all(directory).map_err(io_error("cannot create", directory))?;
    for path in children(directory)? {
        if path.extension().is_some_and(|extension| extension == UNFINISHED) && !path.is_symlink() {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link_to(target: &str, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// A file names the directory on systems where links need privileges.
#[cfg(not(unix))]
fn link_to(target: &str, link: &Path) -> io::Result<()> {
    fs::write(link, target)
}

/// Everything in a directory, then the directory itself.
fn sync_tree(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { sync_tree(&path)? } else { files.push(File::open(&path)?) }
    }
    sync_files(&files.iter().collect::<Vec<_>>())?;
    sync_directory(directory)
}

/// Syncs files concurrently: the file system then writes its journal once for all of them, not once for each.
pub(super) fn sync_files(files: &[&File]) -> io::Result<()> {
    std::thread::scope(|scope| {
        let syncing: Vec<_> = files.iter().map(|file| scope.spawn(|| file.sync_all())).collect();
        let panicked = |_| Err(io::Error::other("a thread that synced a file panicked"));
        syncing.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
