//! Lines that do not run as written: how to run them, or why they are not run.

use super::{QUICK_SFT, QUICK_TRAIN};

/// Treatment of a command line.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Run, with `from` replaced by `to`, or `to` appended if `from` is empty; `long`: by the test of long commands.
    Run { from: &'static str, to: &'static str, long: bool },
    /// Started, and stopped when it has printed its address.
    Serve { more: &'static str },
    /// Only its arguments are parsed; the reason why it is not run.
    Read(&'static str),
    /// Neither run nor parsed here; the reason.
    Elsewhere(&'static str),
}

/// Treatment of lines with this prefix.
pub(crate) struct Entry(&'static str, How);

impl Entry {
    pub(crate) fn begins(&self) -> &'static str {
        self.0
    }

    /// True for the entry of a line; one that begins with a page's name applies only to that page.
    pub(crate) fn fits(&self, page: &str, line: &str) -> bool {
        let line = line.replace("cargo run --release -- ", "hone ");
        self.0 == page || line.starts_with(self.0)
    }
}

const fn with(more: &'static str) -> How {
    How::Run { from: "", to: more, long: false }
}

const fn long(more: &'static str) -> How {
    How::Run { from: "", to: more, long: true }
}

const fn instead(from: &'static str, to: &'static str) -> How {
    How::Run { from, to, long: false }
}

/// The first that fits counts. A `hone` command that matches none is run as written.
pub(crate) const LIST: &[Entry] = &[
    Entry("docs/own-environment.md", How::Elsewhere("own.rs runs the page, in an empty directory")),
    Entry("cargo test", How::Elsewhere("the suite does not run itself")),
    Entry("cargo install", How::Elsewhere("installs into the user's home")),
    Entry("jq ", How::Elsewhere("jq is not needed to work on Hone")),
    Entry("zstd ", How::Elsewhere("zstd is not needed to work on Hone")),
    Entry("cat > tools.json", How::Run { from: "", to: "", long: false }),
    Entry("echo '<tool_call>", How::Run { from: "", to: "", long: false }),
    Entry("hone train RECIPE --device cuda", How::Read("needs a GPU")),
    Entry("hone sft RECIPE --device cuda", How::Read("needs a GPU")),
    Entry("hone train --resume runs/X", with("--samples 0")),
    Entry("hone train retail", with("--set env.tasks=64")),
    Entry("hone train --view", with(QUICK_TRAIN)),
    Entry("hone train", with(QUICK_TRAIN)),
    Entry("hone sft", with(QUICK_SFT)),
    Entry("hone audit docs/examples/film-trivia.toml", long("--tasks 1 --search 0")),
    Entry("hone audit recipes/triage-reader.toml", long("--tasks 2 --search 0")),
    Entry(
        "hone audit my-recipe.toml --tasks 32 --verbose",
        How::Run { from: "--tasks 32", to: "--tasks 2 --search 2", long: true },
    ),
    Entry("hone audit my-recipe.toml --run", long("--tasks 2 --search 0")),
    Entry("hone show runs/X --trace 1234", instead("1234", "12")),
    Entry("hone env serve triage-reader --addr 0.0.0.0:8000", How::Serve { more: "" }),
    Entry("hone env serve", How::Serve { more: "--addr 127.0.0.1:0" }),
    Entry("hone eval https://", How::Read("asks a server that is not there")),
    Entry("hone eval runs/X", with("--tasks 4 --samples 1")),
    Entry("hone compare evals/small", How::Read("compares with what a server that is not there was measured at")),
    Entry("hone view runs/X --export", with("")),
    Entry("hone view", How::Serve { more: "--addr 127.0.0.1:0" }),
];

/// Treatment of a line of a page.
pub(crate) fn how(page: &str, line: &str) -> How {
    match LIST.iter().find(|entry| entry.fits(page, line)) {
        Some(Entry(_, how)) => *how,
        None if line.starts_with("hone ") || line.starts_with("cd ") => with(""),
        None => panic!("{page}: {line:?} is neither run nor on the list of tests/docs/lines.rs"),
    }
}
