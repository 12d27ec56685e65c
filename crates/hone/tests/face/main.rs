//! User-visible output: help, errors and the small commands.
//!
//! Snapshots are in `snapshots/`. After an intended change, review the difference and accept it with
//! `INSTA_UPDATE=always cargo test -p hone --test face`.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod commands;
mod errors;
mod help;
mod hostile;
mod mistakes;
mod newcomer;
mod records;
mod sets;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A committed input of these tests.
fn input(name: &str) -> String {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/face/inputs")).join(name).display().to_string()
}

/// Runs `hone` in a directory, and records what a terminal would show: exit code, standard output, standard error.
fn run(directory: &Path, arguments: &[&str], stdin: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hone"))
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that reads nothing closes its input: not a failure.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let mut shown = format!("exit code {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let text = String::from_utf8(bytes).unwrap();
        if !text.is_empty() {
            shown.extend(["── ", name, "\n", text.trim_end_matches('\n'), "\n"]);
        }
    }
    // Local paths must not appear in a snapshot.
    let places = [
        (directory.canonicalize().unwrap().display().to_string(), "DIR"),
        (directory.display().to_string(), "DIR"),
        (input(""), "INPUTS/"),
        (hone_testdata::committed("").display().to_string(), "DATA/"),
    ];
    places.iter().fold(shown, |text, (place, name)| text.replace(place, name))
}

/// Like [`run`], in an empty directory, without input.
fn hone(arguments: &[&str]) -> String {
    run(tempfile::tempdir().unwrap().path(), arguments, "")
}
