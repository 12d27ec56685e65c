//! Scratch directories: removed when they are dropped, and when a signal ends the command.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Directories that a signal would leave behind.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A scratch directory.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        crate::progress::watch();
        let made = tempfile::tempdir().context("cannot make a scratch directory; TMPDIR names where it is made")?;
        all().push(made.path().to_owned());
        Ok(Self(made))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        all().retain(|path| path != self.0.path());
    }
}

/// Removes this directory too if a signal ends the command before [`keep`].
pub(crate) fn remove_at_stop(path: &Path) {
    crate::progress::watch();
    all().push(path.to_owned());
}

/// This directory is worth keeping.
pub(crate) fn keep(path: &Path) {
    all().retain(|kept| kept != path);
}

/// Removes the directories that there are, before the process exits.
pub(crate) fn remove_all() {
    for path in all().drain(..) {
        // Best effort: nobody reads an error now.
        let _ = std::fs::remove_dir_all(path);
    }
}

// Held for a few instructions, and by the last thread of an exiting process.
fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}
