//! `hone init`: a working starter project.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use hone_worlds::registry;

use crate::recipes::Builtin;

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
    let name = project_name(dir);
    for (file, text) in FILES {
        let path = dir.join(file);
        std::fs::write(&path, named(text, &name)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    make_tasks(dir)?;
    let place = if dir == Path::new(".") { String::new() } else { format!("cd {}\n  ", dir.display()) };
    crate::output::note!(
        "made garden.py (an environment), tasks.jsonl, recipe.toml and README.md\n\nnext\n  {place}hone env show recipe.toml\n  \
         hone env play recipe.toml --as oracle\n  hone sft recipe.toml --out policy\n  hone train recipe.toml"
    );
    Ok(ExitCode::SUCCESS)
}

/// The template's text with the project's name as that of the recipe, its environment and its runs.
fn named(text: &str, name: &str) -> String {
    text.replace("name = \"garden\"", &format!("name = \"{name}\""))
        .replace("runs/garden-1", &format!("runs/{name}-1"))
        .replace("# A garden for Hone", &format!("# {name}, a garden for Hone"))
}

/// The directory's name, as far as a run's directory may have it.
fn project_name(dir: &Path) -> String {
    let path = std::path::absolute(dir).unwrap_or_default();
    let given = path.components().next_back().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = given.unwrap_or_default().trim_start_matches('.').chars().take(60).map(plain).collect();
    match name.as_str() {
        "" | "-" => "garden".to_owned(),
        // The name of an embedded environment is taken.
        name if Builtin::find(name).is_ok() || registry::find(name).is_ok() => format!("my-{name}"),
        _ => name,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_by_its_directory() {
        for (dir, name) in [
            ("my-env", "my-env"),
            ("/tmp/a b", "a-b"),
            ("x/.hidden", "hidden"),
            ("retail", "my-retail"),
            ("/", "garden"),
        ] {
            assert_eq!(project_name(Path::new(dir)), name);
            for (_, text) in FILES {
                assert!(name == "garden" || !named(text, name).contains("runs/garden"));
            }
        }
        assert!(named(FILES[1].1, "my-env").contains("name = \"my-env\"\ncommand"));
    }
}
