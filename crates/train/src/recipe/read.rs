//! Reading recipes: a file, settings on top, ranges, and checks across keys.

use hone_arena::rewards::TOTAL;
use hone_arena::rewards::spec::RubricSpec;
use hone_worlds::registry::EnvSpec;
use toml::Table;

use super::Recipe;
use super::text::{read_value, set, table, unread};
use crate::catalogue::did_you_mean;
use crate::checkpoint::BestBy;
use crate::keys;
use crate::penalty::KlReward;

/// Upper limit on the episodes of a step, beyond any machine's memory.
const MOST_EPISODES: usize = 1 << 20;

/// Mistake in a recipe, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecipeError(String);

impl RecipeError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl Recipe {
    /// A recipe from TOML and `key=value` settings over it. Dots reach into tables; values are TOML, or else text.
    pub fn parse(text: &str, settings: &[String]) -> Result<Self, RecipeError> {
        let mut table = table(text)?;
        keys::check(&table)?;
        // The file by itself first: its errors can show the line.
        toml::from_str::<Self>(text).map_err(unread)?;
        for setting in settings {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                RecipeError(format!("--set takes key=value, found {setting:?}; write --set {}=VALUE", setting.trim()))
            })?;
            set(&mut table, key.trim(), read_value(value.trim()))
                .map_err(|what| RecipeError(format!("--set {setting}: {what}")))?;
        }
        if !settings.is_empty() {
            keys::remove_none(&mut table);
        }
        keys::check(&table)?;
        let mut recipe = Self::read(table)?;
        recipe.settle()?;
        recipe.check()?;
        Ok(recipe)
    }

    /// Recipe recorded by a run, in order to read the run. Keys that only a newer version of Hone knows are skipped:
    /// their paths are returned too. Ranges are not enforced, since the run has already happened.
    pub fn recorded(text: &str) -> Result<(Self, Vec<String>), RecipeError> {
        let mut table: Table = toml::from_str(text).map_err(unread)?;
        let passed_over = keys::pass_over_unknown(&mut table);
        let mut recipe = Self::read(table)?;
        recipe.settle()?;
        Ok((recipe, passed_over))
    }

    fn read(table: Table) -> Result<Self, RecipeError> {
        toml::Value::Table(table).try_into().map_err(unread)
    }

    /// Fills in the reward if the recipe names none, and the defaults that follow from it; refuses names that are not
    /// components of it.
    fn settle(&mut self) -> Result<(), RecipeError> {
        if self.rubric.is_empty() {
            self.rubric = self.own_rubric()?;
        }
        // A rubric that cannot be built reports that itself when the run is set up.
        let Ok(rubric) = self.rubric.build() else { return Ok(()) };
        let known: Vec<&str> = rubric.weights().map(|(name, _)| name).collect();
        if self.eval.success.is_empty() {
            let paid = rubric.weights().find(|(_, weight)| *weight > 0.0);
            self.eval.success = paid.map(|(name, _)| name.to_owned()).unwrap_or_default();
        }
        component("eval.success", &self.eval.success, &known)?;
        match &self.checkpoint.best {
            BestBy::Component(name) if name != TOTAL => component("checkpoint.best", name, &known),
            _ => Ok(()),
        }
    }

    /// The environments' own reward.
    fn own_rubric(&self) -> Result<RubricSpec, RecipeError> {
        let mut own = self.env.iter().map(EnvSpec::rubric);
        let first = own.next().unwrap_or_default();
        if own.any(|other| other != first) {
            return Err(RecipeError::new(
                "the recipe has no rubric, and its environments have different ones of their own; write one for all of them, \
                 [[rubric.component]]",
            ));
        }
        Ok(first)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let bad = |what: String| Err(RecipeError(what));
        if !names_a_directory(&self.name) {
            return bad(format!(
                "name is {:?}, and a run's directory is called after it; use letters, digits, spaces, -, _ and dots (not first), \
                 100 characters at most",
                self.name
            ));
        }
        self.loss.build().map_err(|error| RecipeError(error.to_string()))?;
        let episodes = self.train.groups.saturating_mul(self.train.group_size as usize);
        if episodes > MOST_EPISODES {
            return bad(format!(
                "train.groups x train.group_size is {episodes} episodes a step, and at most {MOST_EPISODES} are played; lower \
                 one of them"
            ));
        }
        // A file of tasks has as many as it has: that is seen when it is opened.
        if self.env.tasks() < self.train.groups && !self.env.iter().any(has_task_file) {
            return bad(format!(
                "env.tasks ({}) must be at least train.groups ({}); raise env.tasks or lower train.groups",
                self.env.tasks(),
                self.train.groups
            ));
        }
        // A rubric that cannot be built reports that itself when the run is set up.
        if let Ok(rubric) = self.rubric.build() {
            let components: Vec<_> = rubric.weights().collect();
            self.credit.check(&components).map_err(|error| RecipeError(error.to_string()))?;
        }
        self.policy.fresh.check().map_err(RecipeError)?;
        self.plan.check().map_err(RecipeError)?;
        self.guard.check(self.overlap.staleness).map_err(RecipeError)?;
        self.kl_reward.as_ref().map_or(Ok(()), KlReward::check).map_err(RecipeError)?;
        self.eval.check(self.env.held_out()).map_err(RecipeError)?;
        if (self.train.kl_to_start || self.train.kl_within.is_some()) && self.policy.reference.is_some() {
            return bad(
                "train.kl_to_start and train.kl_within compare with the policy as it began, and policy.reference names \
                 another; leave one of them out"
                    .into(),
            );
        }
        Ok(())
    }

    /// Refuses ids that the model does not have.
    pub(crate) fn check_vocabulary(&self, vocabulary: usize) -> Result<(), RecipeError> {
        match self.sampling.stop_ids.iter().find(|id| **id as usize >= vocabulary) {
            None => Ok(()),
            Some(id) => Err(RecipeError(format!(
                "sampling.stop_ids has {id}, and the model's ids are 0 to {}; leave it out (the model's own end every reply), \
                 or name one of those",
                vocabulary.saturating_sub(1)
            ))),
        }
    }

    /// An evaluation of the held-out tasks is due after this step.
    pub fn evaluates_after(&self, step: u64) -> bool {
        step == self.train.steps || (self.eval.every > 0 && step.is_multiple_of(self.eval.every))
    }

    /// The recipe as TOML, every key resolved.
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        toml::to_string_pretty(self).map_err(|error| RecipeError(format!("the recipe cannot be written: {error}")))
    }
}

/// True if a run of this name stays under `runs/`.
fn names_a_directory(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '+' | '=' | ',' | '@');
    !name.is_empty() && name.chars().count() <= 100 && !name.starts_with('.') && name.chars().all(plain)
}

/// True for an environment whose tasks are in a file.
fn has_task_file(env: &EnvSpec) -> bool {
    serde_json::to_value(env).is_ok_and(|options| options.get("task_file").is_some_and(|file| !file.is_null()))
}

fn component(key: &str, name: &str, known: &[&str]) -> Result<(), RecipeError> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(RecipeError(format!(
        "{key} is {name:?}, which is not a component of the rubric; {}Its components are {}",
        did_you_mean(name, known.iter().copied()),
        known.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use crate::checkpoint::BestBy;
    use crate::recipe::Recipe;

    #[test]
    fn an_empty_recipe_is_the_defaults_and_prints_back() {
        let recipe = Recipe::parse("", &[]).unwrap();
        let text = recipe.to_toml().unwrap();
        assert_eq!(Recipe::parse(&text, &[]).unwrap().to_toml().unwrap(), text);
    }

    #[test]
    fn success_follows_the_rubric() {
        let text = "[[rubric.component]]\nkind = \"format\"\nweight = 0\n[[rubric.component]]\nkind = \"correct\"\n";
        assert_eq!(Recipe::parse(text, &[]).unwrap().eval.success, "correct");
        assert_eq!(Recipe::parse("", &[]).unwrap().eval.success, "tau_state");
        let best = Recipe::parse(text, &["checkpoint.best=total".into(), "eval.success=format".into()]).unwrap();
        assert_eq!((best.checkpoint.best, best.eval.success.as_str()), (BestBy::Component("total".into()), "format"));
    }

    #[test]
    fn settings_lie_over_the_file() {
        let settings =
            ["train.steps=3", "name=x y", "loss.clip_high=0.3", "sampling.stop_ids=[1, 2]"].map(String::from);
        let recipe = Recipe::parse("seed = 7\nloss = \"dapo\"\n[train]\nsteps = 9\ngroups = 4\n", &settings).unwrap();
        assert_eq!((recipe.seed, recipe.train.steps, recipe.train.groups, recipe.name.as_str()), (7, 3, 4, "x y"));
        assert_eq!((recipe.loss.name.as_str(), recipe.loss.hyperparameters["clip_high"]), ("dapo", 0.3));
        assert_eq!(recipe.sampling.stop_ids, [1, 2]);
    }

    #[test]
    fn an_unknown_key_names_the_nearest_and_its_line() {
        let error = Recipe::parse("[train]\nsteps = 1\nlearning_rat = 1e-3\n", &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean `learning_rate`?") && error.contains("line 3"), "{error}");
        let error = Recipe::parse("", &["train.step=1".into()]).unwrap_err().to_string();
        assert!(error.contains("did you mean `steps`?"), "{error}");
        assert!(Recipe::parse("", &["steps".into()]).is_err());
    }

    #[test]
    fn a_key_of_another_table_is_told_its_place_and_a_value_its_type() {
        for (setting, word) in [
            ("steps=3", "did you mean `train.steps` or `sft.steps`?"),
            ("train.temperature=1", "did you mean `sampling.temperature` or `eval.temperature`?"),
            ("train.learning_rate=fast", "hint: write a number"),
            ("train=5", "expected a table\nin `train`\nhint: write a table"),
            ("env.held_out=3,4", "expected a whole number"),
            ("rubric.component=5", "hint: write a table for each: [[rubric.component]]"),
            ("train.steps=many", "hint: write a whole number"),
            ("train.recompute=1", "hint: write true or false"),
            ("name=3", "hint: write text in quotes"),
            ("env.command=python3", "command = [\"python3\", \"my_env.py\"]"),
            ("policy.model", "write --set policy.model=VALUE"),
            ("train.steps=\"50\"", "train.steps = \"50\" is text and takes a whole number"),
            ("train.learning_rate=\"1e-4\"", "write 1e-4 without quotes"),
            ("train.lr=1", "did you mean `learning_rate`?"),
            ("lr=1", "did you mean `train.learning_rate` or `sft.learning_rate`?"),
            ("training.steps=1", "did you mean `train`?"),
            ("policy.lora.r=8", "did you mean `rank`?"),
            ("loss=ppo", "did you mean \"clip\"?"),
        ] {
            let error = Recipe::parse("", &[setting.into()]).unwrap_err().to_string();
            assert!(error.contains(word), "{setting}: {error}");
        }
    }

    #[test]
    fn the_learning_rate_follows_the_size_of_the_model_unless_it_is_named() {
        use crate::recipe::TrainRecipe;
        let rates = [(700_000, false), (700_000, true), (38_000_000, false), (600_000_000, false), (600_000_000, true)]
            .map(|(parameters, adapter)| TrainRecipe::default_rate(parameters, adapter));
        assert_eq!(rates, [1e-4, 1e-4, 5e-5, 1e-6, 1e-5]);
        let rate = |text: &str| Recipe::parse(text, &[]).unwrap().train;
        assert_eq!((rate("").learning_rate, rate("").rate()), (None, 1e-4));
        assert_eq!(rate("[train]\nlearning_rate = 3e-3\n").rate(), 3e-3);
    }

    #[test]
    fn what_toml_holds_and_a_recipe_does_not_is_told_apart() {
        let error = |text: &str| Recipe::parse(text, &[]).unwrap_err().to_string();
        for digits in ["99999999999999999999", "-99999999999999999999", &"9".repeat(60)] {
            let large = error(&format!("[train]\nsteps = {digits}\n"));
            assert!(large.contains("out of range: it is a whole number from 0 to 1000000000"), "{large}");
        }
        let unknown = error("[env]\nname = \"shop\"\nodd = 99999999999999999999\n");
        assert!(unknown.contains("line 3") && unknown.contains("too large") && !unknown.contains("i128"), "{unknown}");
        let single = error("[rubric.component]\nkind = \"correct\"\n");
        assert!(single.ends_with("hint: write a table for each: [[rubric.component]]"), "{single}");
    }

    #[test]
    fn ids_beyond_the_vocabulary_end_no_reply() {
        let recipe = Recipe::parse("[sampling]\nstop_ids = [3, 9999]\n", &[]).unwrap();
        assert!(recipe.check_vocabulary(10_000).is_ok());
        let refused = recipe.check_vocabulary(512).unwrap_err().to_string();
        assert!(refused.contains("has 9999, and the model's ids are 0 to 511"), "{refused}");
    }

    #[test]
    fn a_file_of_tasks_limits_the_groups_and_not_the_default() {
        let env = "[env]\ncommand = [\"x\"]\n";
        let groups = |env: &str| Recipe::parse(env, &["train.groups=65536".into(), "train.group_size=2".into()]);
        assert!(groups(env).unwrap_err().to_string().contains("env.tasks"));
        groups(&format!("{env}task_file = \"tasks.jsonl\"\n")).unwrap();
    }

    #[test]
    fn none_takes_a_number_out_of_a_recipe() {
        let text = "[env]\nname = \"retail\"\ndifficulty = 2\n";
        for text in [text, "[env]\nname = \"retail\"\n"] {
            let recipe = Recipe::parse(text, &["env.difficulty=none".into()]).unwrap();
            assert!(!recipe.to_toml().unwrap().contains("difficulty"));
        }
        assert_eq!(Recipe::parse("", &["name=none".into()]).unwrap().name, "none", "text stays text");
        assert!(Recipe::parse("[env]\nname = \"retail\"\ndifficulty = \"none\"\n", &[]).is_err());
    }

    #[test]
    fn a_recipe_without_a_rubric_has_its_environments_own() {
        let success = |text: &str| Recipe::parse(text, &[]).map(|recipe| recipe.eval.success);
        for (env, wanted) in [("shop", "tau_state"), ("triage-reader", "correct"), ("retail", "tau")] {
            assert_eq!(success(&format!("[env]\nname = {env:?}")).unwrap(), wanted);
        }
        assert_eq!(success("[env]\ncommand = [\"x\"]").unwrap(), "correct");
        let both = "[[env]]\nname = \"shop\"\n[[env]]\nname = \"triage-reader\"\n";
        assert!(success(both).unwrap_err().to_string().contains("[[rubric.component]]"));
        assert_eq!(success(&format!("{both}[[rubric.component]]\nkind = \"correct\"\n")).unwrap(), "correct");
    }

    #[test]
    fn what_cannot_learn_is_refused_with_the_reason() {
        for (text, word) in [
            ("[sampling]\ntemperature = 0.0", "no gradient"),
            ("loss = \"dappo\"", "did you mean \"dapo\"?"),
            ("loss = { name = \"dapo\", clip_hihg = 0.3 }", "did you mean \"clip_high\"? It reads: clip_low"),
            ("[train]\ngroup_size = 1", "siblings"),
            ("name = \"../out\"", "directory is called after it"),
            ("name = \"/tmp/out\"", "directory is called after it"),
            ("name = \"..\"", "directory is called after it"),
            ("name = \"\"", "directory is called after it"),
            ("[env]\ntasks = 3", "train.groups"),
            ("[eval]\ntasks = 999", "held_out"),
            ("[eval]\nsamples = 0", "eval.samples"),
            ("[eval]\nsuccess = \"tau_stat\"", "did you mean \"tau_state\"? Its components are tau_state"),
            ("[checkpoint]\nbest = \"quality\"", "checkpoint.best is \"quality\""),
        ] {
            let error = Recipe::parse(text, &[]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
