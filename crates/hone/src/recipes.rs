//! Recipes by file or by name: embedded ones are named after their file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_train::recipe::{Recipe, RecipeError};
use serde_json::Value;

/// A recipe inside the binary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../../recipes/", $name, ".toml")) }
    };
}

/// The recipe that `hone train` runs when it is given none.
pub(crate) static QUICKSTART: Builtin = builtin!("quickstart");

pub(crate) static BUILTINS: [Builtin; 10] = [
    QUICKSTART,
    builtin!("triage-reader"),
    builtin!("triage-searcher"),
    builtin!("triage"),
    builtin!("retail"),
    builtin!("airline"),
    builtin!("tiny-policy"),
    builtin!("triage-base"),
    builtin!("desk-small"),
    builtin!("retail-small"),
];

impl Builtin {
    /// The first sentence of its opening comment.
    pub(crate) fn about(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with('#'));
        let words = lines.map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ");
        words.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
    }

    pub(crate) fn find(name: &str) -> Result<&'static Self> {
        let names = || BUILTINS.iter().map(|builtin| builtin.name);
        BUILTINS.iter().find(|builtin| builtin.name == name).ok_or_else(|| {
            let near = hone_chat::parse::nearest(name, names());
            let near = near.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
            let all = names().collect::<Vec<_>>().join(", ");
            anyhow!("there is no recipe called {name:?} in this binary; {near}There are: {all}")
        })
    }
}

/// A recipe and its source, as given on the command line and named in advice.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) text: String,
    /// Directory its paths are relative to.
    directory: PathBuf,
    /// As it was typed.
    pub(crate) given: String,
}

impl Source {
    /// A file, or else a recipe of this binary.
    pub(crate) fn find(given: &Path) -> Result<Self> {
        let shown = given.display().to_string();
        let unread = match std::fs::read_to_string(given) {
            Ok(text) if is_task_file(&text) => bail!(
                "{shown} is a task file, not a recipe; name the recipe that has it as its env.task_file, such as recipe.toml"
            ),
            Ok(text) => {
                let directory = given.parent().unwrap_or(Path::new("")).to_owned();
                return Ok(Self { text, directory, given: shown });
            }
            Err(error) => error,
        };
        if unread.kind() == ErrorKind::InvalidData {
            bail!("{shown} is not UTF-8; save it as UTF-8");
        }
        // A name has no directory and no ending.
        if given.components().count() == 1 && given.extension().is_none() && !given.exists() {
            return Ok(Builtin::find(&shown).with_context(|| format!("cannot read {shown}"))?.source());
        }
        if given.is_dir() {
            bail!("{shown} is a directory, not a recipe; {}", inside(given));
        }
        Err(unread)
            .with_context(|| format!("cannot read {shown}; `hone recipe list` has the recipes inside this binary"))
    }

    pub(crate) fn read(&self, settings: &[String]) -> Result<Recipe> {
        self.parsed(settings).with_context(|| match self.culprit(settings) {
            Some(setting) => format!("in --set {setting}"),
            None => format!("in {}", self.given),
        })
    }

    fn parsed(&self, settings: &[String]) -> Result<Recipe, RecipeError> {
        Recipe::parse_in(&self.text, settings, &self.directory)
    }

    /// The first setting with which a recipe cannot be read that can be read without it.
    fn culprit<'a>(&self, settings: &'a [String]) -> Option<&'a String> {
        let refused = (0..=settings.len()).find(|count| self.parsed(&settings[..*count]).is_err())?;
        settings.get(refused.checked_sub(1)?)
    }
}

impl Builtin {
    pub(crate) fn source(self) -> Source {
        Source { text: self.text.into(), directory: PathBuf::new(), given: self.name.into() }
    }
}

/// True for JSON objects: one a line, or a list of them. TOML has none at its start.
fn is_task_file(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{') || text.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('{'))
}

/// Advice if a directory was named: the run or the recipe it contains.
fn inside(directory: &Path) -> String {
    let recipe = directory.join("recipe.toml");
    if directory.join("checkpoints").is_dir() && recipe.is_file() {
        let run = directory.display();
        return format!("it holds a run: `hone train --resume {run}` resumes it, policy.model={run} starts from it");
    }
    if recipe.is_file() {
        return format!("name the recipe in it, {}", recipe.display());
    }
    "name a file, or one of `hone recipe list`".to_owned()
}

/// `--set KEY=VALUE` of commands that read no recipe: the value as TOML, as a recipe would have it, else as text.
pub(crate) fn setting(text: &str) -> Result<(String, Value)> {
    let example = "write for example --set difficulty=2 or --set size=full";
    let (key, value) =
        text.split_once('=').with_context(|| format!("--set takes KEY=VALUE, found {text:?}; {example}"))?;
    let (key, value) = (key.trim().to_owned(), value.trim());
    let read = toml::from_str::<toml::Table>(&format!("value = {value}"));
    match read.ok().and_then(|mut table| table.remove("value")) {
        Some(read) => Ok((key, serde_json::to_value(read)?)),
        None if value.starts_with(['{', '[']) => {
            bail!("--set {text}: the value is no TOML; write lists as [1, 2] and tables as {{ a = 1, b = \"x\" }}")
        }
        None => Ok((key, value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_of_the_tree_is_inside_but_the_one_that_needs_its_files() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.retain(|name| name != "stdio");
        names.sort();
        let mut inside: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        inside.sort_unstable();
        assert_eq!(names, inside);
    }

    #[test]
    fn every_recipe_inside_can_be_read_and_says_what_it_is() {
        for builtin in BUILTINS {
            builtin.source().read(&[]).unwrap();
            assert!(builtin.about().len() > 20, "{}", builtin.about());
        }
    }

    #[test]
    fn a_recipe_in_another_encoding_is_said_to_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("u16.toml");
        std::fs::write(&path, b"\xff\xfe[\0t\0]\0").unwrap();
        let error = Source::find(&path).unwrap_err().to_string();
        assert!(error.ends_with("is not UTF-8; save it as UTF-8"), "{error}");
    }

    #[test]
    fn settings_are_toml_where_they_can_be() {
        let read = |text: &str| setting(text).unwrap().1;
        assert_eq!(setting("level = 2").unwrap(), ("level".into(), serde_json::json!(2)));
        assert_eq!(read("size=full"), serde_json::json!("full"));
        assert_eq!(read("command=[\"python3\", \"e.py\"]"), serde_json::json!(["python3", "e.py"]));
        assert_eq!(read("user={ model = \"x\" }"), serde_json::json!({"model": "x"}));
        assert_eq!(read("prompt=a = b"), serde_json::json!("a = b"));
        for bad in ["size", "user={\"model\": 1}", "list=[1, 2"] {
            assert!(setting(bad).is_err(), "{bad}");
        }
    }
}
