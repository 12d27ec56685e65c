//! Every command line of README.md and docs/ is run, in a scratch directory, with settings that make it small. Lines
//! that cannot run there are listed with the reason, and their arguments are still parsed. A line that is neither fails
//! the test, and so does a list entry that no page needs.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod lines;
mod own;
mod page;
mod scratch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lines::{How, how};
use page::Page;
use scratch::Scratch;

/// A warm start that is too short to be good.
const QUICK_SFT: &str = "--set sft.steps=2 --set sft.batch=4 --set policy.fresh.layers=1 --set policy.fresh.hidden=64";

/// Few tasks: those of a world inside the binary are made when it opens.
const FEW_TASKS: &str = "--set env.tasks=64 --set env.held_out=8";

/// Training that is too short to learn anything.
const QUICK_TRAIN: &str = "--set train.steps=2 --set train.groups=2 --set train.group_size=2 --set eval.tasks=4 \
                           --set rollout.max_turns=2 --samples 0";

/// The program: `HONE` if it is set, so that long commands can run with an optimised build.
fn program() -> PathBuf {
    std::env::var_os("HONE")
        .map_or_else(|| env!("CARGO_BIN_EXE_hone").into(), |path| Path::new(&path).canonicalize().unwrap())
}

/// A shell in a directory, with the program on its path.
fn command(directory: &Path, line: &str) -> Command {
    let program = program();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(directory).env("PATH", path).env("NO_COLOR", "1");
    command
}

fn texts(output: Output) -> [String; 2] {
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

/// A shell's standard output; the test fails if the command does.
fn shell(directory: &Path, line: &str) -> String {
    let output = command(directory, line).output().unwrap();
    let good = output.status.success();
    let [said, aside] = texts(output);
    assert!(good, "{line}\n{said}{aside}");
    said
}

/// Checks that the program accepts the arguments of a `hone` command: with `--help` appended it parses them and shows
/// its help.
fn reads(line: &str) {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let help = |more: &[&str]| Command::new(program()).args(&words).args(more).arg("--help").output().unwrap();
    let output = help(&[]);
    // The text may mention an option without its value.
    let good = output.status.success() || ["1", "permute"].iter().any(|value| help(&[value]).status.success());
    let [said, aside] = texts(output);
    assert!(good, "{line}\n{said}{aside}");
}

/// Runs the commands of a page that belong to this test. Returns how many ran, and how many were only read or passed over.
fn play(page: &Page, scratch: &Scratch, long: bool) -> [usize; 2] {
    let (mut directory, mut block, mut counts) = (scratch.path().to_owned(), 0, [0, 0]);
    for command in &page.commands {
        let line = command.line.replace("cargo run --release -- ", "hone ");
        if block != command.block {
            (directory, block) = (scratch.path().to_owned(), command.block);
        }
        match how(&page.name, &line) {
            How::Run { from, to, long: only } if only == long => {
                let line = if from.is_empty() { format!("{line} {to}") } else { line.replace(from, to) };
                directory = scratch.run(&directory, line.trim());
                counts[0] += 1;
            }
            How::Serve { more } if !long => {
                Scratch::serve(&directory, &format!("{line} {more}"));
                counts[0] += 1;
            }
            How::Read(why) if !long => {
                eprintln!("  read  {line}: {why}");
                reads(&line);
                counts[1] += 1;
            }
            How::Elsewhere(why) if !long => {
                eprintln!("   not  {line}: {why}");
                counts[1] += 1;
            }
            How::Run { .. } | How::Serve { .. } | How::Read(_) | How::Elsewhere(_) => {}
        }
    }
    counts
}

#[test]
fn commands_of_the_pages_run() {
    let scratch = Scratch::new();
    let counts: Vec<[usize; 2]> = Page::all().iter().map(|page| play(page, &scratch, false)).collect();
    let [ran, others] = counts.iter().fold([0, 0], |[ran, others], [more, rest]| [ran + more, others + rest]);
    assert!(ran >= 35 && ran > others, "{ran} commands ran, {others} did not");
}

mod long {
    use super::*;

    #[test]
    #[ignore = "takes minutes without optimisation: HONE=$PWD/target/release/hone cargo test -p hone --test docs -- --ignored long::"]
    fn commands_of_the_pages_run() {
        let scratch = Scratch::new();
        scratch.run(scratch.path(), &format!("hone train my-recipe.toml {QUICK_TRAIN} {FEW_TASKS}"));
        for page in Page::all() {
            let _ = play(&page, &scratch, true);
        }
    }
}

#[test]
fn commands_that_the_text_mentions_are_read() {
    let mut spans: Vec<String> = Page::all().into_iter().flat_map(|page| page.spans).collect();
    spans.sort();
    spans.dedup();
    assert!(spans.len() > 50, "{spans:?}");
    for span in spans {
        // Placeholder names.
        reads(&span.replace("bench NAME", "bench view").replace("--to FORMAT", "--to csv"));
    }
}

#[test]
fn every_entry_of_the_list_is_needed() {
    let pages = Page::all();
    for entry in lines::LIST {
        let fits = |page: &Page| page.commands.iter().any(|command| entry.fits(&page.name, &command.line));
        assert!(pages.iter().any(fits), "no page has {:?} any more: take it off the list", entry.begins());
    }
}
