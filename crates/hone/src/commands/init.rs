//! `hone init`: a working starter project.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

/// Begin a project: an environment in Python, its tasks, a recipe and a README of five commands
///
/// Everything works out of the box:
///
///   hone init garden && cd garden
///   hone env show recipe.toml
///   hone env play recipe.toml --as oracle
///   hone sft recipe.toml --out policy
///   hone train recipe.toml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Directory to make it in; files that are there are never overwritten
    #[arg(default_value = ".")]
    dir: PathBuf,
}

static FILES: [(&str, &str); 3] = [
    ("garden.py", include_str!("init/template/garden.py")),
    ("recipe.toml", include_str!("init/template/recipe.toml")),
    ("README.md", include_str!("init/template/README.md")),
];
const TASKS: &str = "tasks.jsonl";
/// Tasks of the project, 64 of them held out.
const COUNT: &str = "600";

#[expect(clippy::needless_pass_by_value, reason = "every command's run takes its arguments whole")]
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let dir = &args.dir;
    let unmade =
        || format!("cannot make the directory {}; name one that can be made: hone init my-project", dir.display());
    std::fs::create_dir_all(dir).with_context(unmade)?;
    for name in FILES.iter().map(|(name, _)| *name).chain([TASKS]) {
        if dir.join(name).exists() {
            bail!("{} exists; name another directory: hone init my-project", dir.join(name).display());
        }
    }
    for (name, text) in FILES {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    make_tasks(dir)?;
    let place = if dir == Path::new(".") { String::new() } else { format!("cd {}\n  ", dir.display()) };
    crate::output::note!(
        "made garden.py (an environment), tasks.jsonl, recipe.toml and README.md\n\nnext\n  {place}hone env show recipe.toml\n  \
         hone env play recipe.toml --as oracle\n  hone sft recipe.toml --out policy\n  hone train recipe.toml"
    );
    Ok(ExitCode::SUCCESS)
}

/// Generates the environment's tasks by running the program itself, as its owner would.
fn make_tasks(dir: &Path) -> Result<()> {
    let later = format!("install Python 3, then `python3 garden.py --tasks {COUNT} > {TASKS}` in {}", dir.display());
    let mut python = Command::new("python3");
    python.args(["garden.py", "--tasks", COUNT]).current_dir(dir).stdin(Stdio::null());
    let made = python.output().with_context(|| format!("cannot start python3; {later}"))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        bail!("python3 garden.py: {}; {later}", said.trim().lines().next_back().unwrap_or("it failed"));
    }
    let path = dir.join(TASKS);
    std::fs::write(&path, &made.stdout).with_context(|| format!("cannot write {}", path.display()))
}
