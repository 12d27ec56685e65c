//! Recipes without a policy: what is missing, and the commands that make it or fetch it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_train::recipe::Recipe;
use hone_worlds::registry::EnvSpec;

use crate::policies::Policy;
use crate::recipes::BUILTINS;

/// Learning rate up to which a recipe is meant for a pretrained model. A small policy made from scratch learns nothing at it.
const PRETRAINED: f64 = 1e-5;

/// Width of a fresh policy that takes hours on a CPU.
const LARGE: u32 = 512;

/// The policy that a recipe lacks.
#[derive(Debug)]
pub(crate) enum Missing {
    /// It names none, and none inside this binary fits.
    Unnamed,
    /// The directory it names does not exist.
    Absent(PathBuf),
}

impl Missing {
    fn of(recipe: &Recipe) -> Option<Self> {
        match &recipe.policy.model {
            None if recipe.policy.adapter.is_some() => None,
            None => inside(recipe).is_err().then_some(Self::Unnamed),
            Some(model) => (!model.exists()).then(|| Self::Absent(model.clone())),
        }
    }

    /// The error of a command that needs a policy. `given` and `set` are the recipe and its settings on the command line.
    pub(crate) fn refuse(recipe: &Recipe, given: &str, set: &[String]) -> Result<()> {
        let Some(missing) = Self::of(recipe) else { return Ok(()) };
        let advice = missing.advice(recipe, given, set);
        match missing {
            Self::Unnamed => {
                inside(recipe).map(|_| ()).with_context(|| format!("the recipe names no policy.model\nhint: {advice}"))
            }
            Self::Absent(model) => {
                bail!("policy.model is {}, and there is no such directory\nhint: {advice}", shortest(&model))
            }
        }
    }

    fn advice(&self, recipe: &Recipe, given: &str, set: &[String]) -> String {
        if let Self::Absent(model) = self
            && let Some(advice) = repository(&shortest(model))
        {
            return advice;
        }
        let written = |set: &&String| !set.trim_start().starts_with("policy.model");
        let kept: String = set.iter().filter(written).map(|set| format!(" --set {}", quoted(set))).collect();
        if recipe.train.learning_rate.is_some_and(|rate| rate <= PRETRAINED) && matches!(self, Self::Unnamed) {
            return pretrained(recipe, given, &kept);
        }
        let (out, named) = match self {
            Self::Unnamed => (format!("{}-policy", recipe.name), false),
            Self::Absent(model) => (shortest(model), !set.iter().any(|set| !written(&set))),
        };
        let model = if named { String::new() } else { format!(" --set policy.model={}", quoted(&out)) };
        let gpu = if recipe.policy.fresh.hidden >= LARGE { " It is best made on a GPU: --device cuda." } else { "" };
        format!(
            "`hone sft {given}{kept} --out {}` makes a small policy for it from the tasks' reference calls; then `hone train \
             {given}{kept}{model}`.{gpu} Any model directory in Hugging Face's layout will do",
            quoted(&out)
        )
    }
}

/// Advice for a recipe that is meant for a pretrained model.
fn pretrained(recipe: &Recipe, given: &str, kept: &str) -> String {
    let mut advice = format!(
        "this recipe is for a model that can already write tool calls; {}, then `hone train {given}{kept} --set \
         policy.model=Qwen3-0.6B`",
        download("Qwen/Qwen3-0.6B", "Qwen3-0.6B")
    );
    if let Some(other) = from_scratch(recipe) {
        advice += &format!(
            ". From scratch, on a GPU: `hone sft {other} --device cuda --out {other}-policy`, then `hone train {other} --device \
             cuda --set policy.model={other}-policy`"
        );
    }
    advice
}

/// The recipe of this binary that makes and trains a policy from scratch in the same environment.
fn from_scratch(recipe: &Recipe) -> Option<&'static str> {
    let env = recipe.env.first()?.name();
    BUILTINS.iter().map(|builtin| (builtin.name, builtin.text)).find_map(|(name, text)| {
        let other = Recipe::parse(text, &[]).ok()?;
        let trains = text.contains("[train]") && text.contains("[policy.fresh]");
        (trains && other.env.first()?.name() == env).then_some(name)
    })
}

/// Advice for a name that looks like a repository of the Hugging Face hub.
pub(crate) fn repository(model: &str) -> Option<String> {
    let (_, name) = model.split_once('/')?;
    Some(format!("{}: --set policy.model={}", fetched(model)?, quoted(name)))
}

/// The same advice for a command that takes the model's directory.
pub(crate) fn fetched(model: &str) -> Option<String> {
    let (owner, name) = model.split_once('/')?;
    let plain = |part: &str| !part.is_empty() && !part.starts_with(['.', '~']) && !part.contains(['/', '\\']);
    if !plain(owner) || !plain(name) || Path::new(owner).exists() {
        return None;
    }
    Some(format!("Hone downloads nothing; {}, then name that directory", download(model, name)))
}

fn download(repository: &str, directory: &str) -> String {
    format!(
        "`hf download {repository} --local-dir {directory}` fetches it (or `git clone \
         https://huggingface.co/{repository}`, with git-lfs)"
    )
}

/// An argument as a shell reads it back.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if argument.chars().all(plain) { argument.to_owned() } else { format!("'{}'", argument.replace('\'', r"'\''")) }
}

/// A path relative to the current directory, if it is inside it.
pub(crate) fn shortest(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// The policy inside this binary that was made for the recipe's environments, with the options that they have.
pub(super) fn inside(recipe: &Recipe) -> Result<&'static Policy> {
    let names: Vec<&str> = recipe.env.iter().map(EnvSpec::name).collect();
    let made = || Policy::environments().collect::<Vec<_>>().join(", ");
    let policy = match Policy::of(names[0]) {
        Some(policy) if names.iter().all(|name| *name == names[0]) => policy,
        _ => bail!("this binary has policies for {} and none for {}", made(), names.join(" and ")),
    };
    let otherwise = policy.made_otherwise(recipe)?;
    if !otherwise.is_empty() {
        bail!(
            "the policy inside this binary for {} was made for other options, those of `hone train {}`: {}",
            policy.env,
            policy.recipe,
            otherwise.join(", ")
        );
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::Builtin;

    fn refused(name: &str, set: &[&str]) -> String {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        let recipe = Builtin::find(name).unwrap().source().read(&set).unwrap();
        format!("{:#}", Missing::refuse(&recipe, name, &set).unwrap_err())
    }

    #[test]
    fn a_policy_plays_only_the_options_it_was_made_for() {
        for name in ["triage", "desk-small", "triage-base"] {
            let error = refused(name, &[]);
            assert!(error.contains("names no policy.model") && error.contains("other options"), "{error}");
        }
        for (name, set) in [
            ("quickstart", &[][..]),
            ("quickstart", &["env.tasks=64", "env.held_out=300", "env.seed=3"]),
            ("triage-reader", &[]),
            ("triage-searcher", &["env.tasks=64"]),
        ] {
            let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
            let recipe = Builtin::find(name).unwrap().source().read(&set).unwrap();
            Missing::refuse(&recipe, name, &set).unwrap();
        }
        assert!(refused("quickstart", &["env.difficulty=1"]).contains("difficulty = 3"));
    }

    #[test]
    fn advice_keeps_what_was_set() {
        let error = refused("quickstart", &["env.name=telecom", "env.difficulty=1", "train.steps=5"]);
        let kept = "--set env.name=telecom --set env.difficulty=1 --set train.steps=5";
        assert!(error.contains(&format!("`hone sft quickstart {kept} --out quickstart-policy`")), "{error}");
        assert!(error.contains(&format!("{kept} --set policy.model=quickstart-policy`")), "{error}");
        let error = refused("quickstart", &["policy.model=mine", "name=\"a b\""]);
        assert!(error.contains("hone sft quickstart --set 'name=\"a b\"' --out mine`"), "{error}");
    }

    #[test]
    fn a_recipe_for_pretrained_models_says_so() {
        let error = refused("retail", &[]);
        assert!(error.contains("can already write tool calls") && error.contains("hone sft retail-small"), "{error}");
        assert!(refused("airline", &[]).contains("hf download"));
        let error = refused("retail", &["policy.model=Qwen/Qwen3-0.6B"]);
        assert!(error.contains("hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B"), "{error}");
        assert!(!error.contains("hone sft"), "{error}");
    }
}
