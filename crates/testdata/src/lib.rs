//! Test data and its location, and what tests of several crates share.
//!
//! [`committed`] data is part of the repository: figures recorded from other implementations, and our own inputs.
//! [`third_party`] data belongs to other projects and is not committed; a test that needs it is marked `#[ignore =
//! "needs … (see CONTRIBUTING.md)"]`, so that cargo counts it when it does not run, and it fails when run without the
//! data. No test passes by returning early.

use std::path::PathBuf;

/// A file or directory below `crates/testdata/data`.
///
/// # Panics
/// If it does not exist: the test names a file that was never committed.
#[must_use]
pub fn committed(path: &str) -> PathBuf {
    let found = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data")).join(path);
    assert!(found.exists(), "no {} in the repository", found.display());
    found
}

/// A file or directory of other projects' data, below `$HONE_SHARED` or the directory `shared` beside the checkout.
///
/// # Panics
/// If it does not exist, with how to get it.
#[must_use]
pub fn third_party(path: &str) -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let root = std::env::var_os("HONE_SHARED").map_or_else(beside, PathBuf::from);
    let found = root.join(path);
    assert!(
        found.exists(),
        "{} is not there; CONTRIBUTING.md (\"Data that is not ours\") says how to get it, and HONE_SHARED names its directory",
        found.display()
    );
    found
}

/// Checks a generated page in `docs/` against the text that the code gives; with `HONE_BLESS=1` in the environment, writes
/// it first. `command` is the one that does so.
///
/// # Panics
/// If the page is another one, or cannot be read or written.
#[track_caller]
pub fn page_is(page: &str, text: &str, command: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page);
    if std::env::var_os("HONE_BLESS").is_some() {
        let written = std::fs::write(&path, text);
        assert!(written.is_ok(), "cannot write {}: {written:?}", path.display());
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/{page} is out of date; run `HONE_BLESS=1 {command}`");
}
