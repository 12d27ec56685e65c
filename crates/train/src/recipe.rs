//! Recipes: a complete program for `hone train`, parsed once, layered plainly and printed back.
//!
//! What was typed (a TOML file, then `--set key=value`) becomes what it means here. Unknown keys are errors that name the
//! nearest known one.

use std::path::PathBuf;

use hone_arena::rewards::TOTAL;
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rollout::RolloutSettings;
use hone_trace::{AdamWSettings, LearnerSpec, LoraSpec, SamplingParams, documented, with_nearest};
use hone_worlds::EnvSpecs;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::ahead::AsyncRecipe;
use crate::catalogue::did_you_mean;
use crate::checkpoint::CheckpointRecipe;
use crate::credit::CreditRecipe;
use crate::evaluate::Kind;
use crate::fresh::FreshRecipe;
use crate::guard::GuardRecipe;
use crate::keys;
use crate::log::LogRecipe;
use crate::loss::LossRecipe;
use crate::penalty::KlReward;
use crate::placebo::Placebo;
use crate::plan::PlanRecipe;
use crate::schedule::Decay;

documented! {
    /// Everything a run needs to know. Every key has a default; the resolved recipe is written into the run.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Recipe {
        /// Name of the run: its directory is runs/NAME-1, or the first number that is free.
        pub name: String,
        /// The root of all randomness.
        pub seed: u64 where seed(),
        /// The advantage estimator, by name: docs/algorithms.md.
        pub credit: CreditRecipe where table::<CreditRecipe>(),
        /// The objective, by name or as a table: docs/algorithms.md.
        pub loss: LossRecipe where table::<LossRecipe>(),
        /// Train no episode that a length limit cut short.
        pub overlong_filter: bool,
        /// Advantages that know nothing of the rewards: a control of a run, see `hone train --placebo`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub placebo: Option<Placebo>,
        /// The policy that is trained.
        pub policy: PolicyRecipe where table::<PolicyRecipe>(),
        /// What serves and trains the policy.
        pub engine: EngineRecipe where table::<EngineRecipe>(),
        /// The environment: `[env]`, or several `[[env]]`; their keys: docs/environments-reference.md.
        pub env: EnvSpecs where named(hone_worlds::registry::keys),
        /// How replies are sampled.
        pub sampling: SamplingParams where table::<SamplingParams>(),
        /// How episodes are played: limits, deadlines, malformed replies.
        pub rollout: RolloutSettings where table::<RolloutSettings>(),
        /// The reward: components and products of them.
        pub rubric: RubricSpec where table::<RubricSpec>(),
        /// KL to the reference policy, paid out of the reward; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kl_reward: Option<KlReward> where table::<KlReward>(),
        /// Which tasks are played.
        pub plan: PlanRecipe where table::<PlanRecipe>(),
        /// Steps, batches and the optimizer.
        pub train: TrainRecipe where table::<TrainRecipe>(),
        /// The warm start, `hone sft`.
        pub sft: SftRecipe where table::<SftRecipe>(),
        /// Evaluation on held-out tasks.
        pub eval: EvalRecipe where table::<EvalRecipe>(),
        /// Which checkpoints are kept.
        pub checkpoint: CheckpointRecipe where table::<CheckpointRecipe>(),
        /// A fall of the success rate: said, and taken back where the recipe wants it.
        pub guard: GuardRecipe where table::<GuardRecipe>(),
        /// Sampling while the step before is learned from.
        #[serde(rename = "async")]
        pub overlap: AsyncRecipe where table::<AsyncRecipe>().key("async"),
        /// Logs for other tools.
        #[serde(skip_serializing_if = "LogRecipe::is_empty")]
        pub log: LogRecipe where table::<LogRecipe>(),
        /// Waivers of checks.
        #[serde(skip_serializing_if = "DoctorRecipe::is_empty")]
        pub doctor: DoctorRecipe where table::<DoctorRecipe>(),
    }
}

documented! {
    /// `[doctor]`
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct DoctorRecipe {
        /// Checks whose findings do not stop the run, each with the reason: `waive = { do_nothing = "…" }`.
        pub waive: std::collections::BTreeMap<String, String>,
    }
}

impl DoctorRecipe {
    fn is_empty(&self) -> bool {
        self.waive.is_empty()
    }
}

documented! {
    /// `[policy]`
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct PolicyRecipe {
        /// A model directory in Hugging Face's layout; absent: the policy inside the binary, in the worlds that have one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<PathBuf>,
        /// A PEFT adapter on the model, to continue from: it is trained, not the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub adapter: Option<PathBuf>,
        /// Low-rank adapters: train those instead of the model; absent: the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lora: Option<LoraSpec> where table::<LoraSpec>(),
        /// What a KL compares with: a model directory. Absent: the policy as it was at the start.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reference: Option<PathBuf>,
        /// Threads of the engine; 0: all cores.
        pub threads: usize where whole(0, 4_096),
        /// The size of the policy that `hone sft` makes where no model is named.
        pub fresh: FreshRecipe where table::<FreshRecipe>(),
    }
}

documented! {
    /// `[engine]`: what serves and trains the policy.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct EngineRecipe {
        /// "native": the model on this machine. Which others there are is the program's to say.
        pub kind: String,
        /// Other keys are the engine's own.
        #[serde(flatten)]
        pub options: serde_json::Map<String, serde_json::Value> where others(),
    }
}

impl Default for EngineRecipe {
    fn default() -> Self {
        Self { kind: "native".into(), options: serde_json::Map::new() }
    }
}

documented! {
    /// `[train]`
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct TrainRecipe {
        /// Steps of the run: each samples, learns and records once.
        pub steps: u64 where whole(0, 1_000_000_000),
        /// Tasks a step.
        pub groups: usize where whole(1, 65_536),
        /// Episodes a task.
        pub group_size: u32 where whole(2, 65_536).because("an episode is judged against its siblings"),
        /// Sequences of one optimizer step; 0: all of the step's.
        pub mini_batch: usize where whole(0, 100_000_000),
        /// How often a step's sequences are gone through.
        pub epochs_per_batch: u32 where whole(1, 1_000),
        /// Learning rate after the warm-up.
        pub learning_rate: f64 where real(0.0, 10.0),
        /// Steps over which the learning rate grows to that.
        pub warmup: u64 where whole(0, 1_000_000_000),
        /// Course of the learning rate after the warm-up.
        pub decay: Decay,
        /// Norm to which larger gradients are scaled down.
        pub max_grad_norm: f64 where over(0.0, 1e9),
        /// Tokens the learner computes at once.
        pub batch_tokens: usize where whole(1, 1_000_000_000),
        /// Recompute activations in the backward pass: less memory, a third more work, the same numbers.
        pub recompute: bool,
        /// Megabytes of activations; 0: what the machine has free when the run starts.
        pub activation_mb: u64 where whole(0, 16_777_216),
        /// Steps in a row from which nothing could be learned (every episode broke, no episode was scored, every gradient was
        /// not finite) after which the run stops.
        pub patience: u32 where whole(1, 1_000_000),
        /// Record the KL to the policy as it began, after every step: `policy/kl_to_start`.
        pub kl_to_start: bool,
        /// A run directory with that metric: no step of this run may go further from the start than that run's did.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kl_within: Option<PathBuf>,
        /// Constants of the optimizer.
        pub adamw: AdamWSettings where table::<AdamWSettings>(),
    }
}

documented! {
    /// `[sft]`
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct SftRecipe {
        /// Steps of imitation.
        pub steps: u64 where whole(0, 1_000_000_000),
        /// Imitates traces of this run directory. Absent: the oracle.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub traces: Option<PathBuf>,
        /// Of those, the ones whose `eval.success` component is at least this.
        pub at_least: f64 where real(-1e6, 1e6),
        /// Episodes a step.
        pub batch: usize where whole(1, 65_536),
        /// Learning rate after the warm-up.
        pub learning_rate: f64 where real(0.0, 10.0),
        /// Steps over which the learning rate grows to that.
        pub warmup: u64 where whole(0, 1_000_000_000),
        /// Course of the learning rate after the warm-up.
        pub decay: Decay,
        /// Weight of the tokens the agent did not write, relative to its own.
        pub context_weight: f64 where real(0.0, 100.0),
        /// Share of repeated random sequences at the start, fading out: they teach copying.
        pub copying: f64 where real(0.0, 1.0),
        /// The share of the steps after which none are mixed in.
        pub copying_until: f64 where real(0.0, 1.0),
        /// The share of the steps that imitate the solutions of tasks whose demonstrations are imperfect: knowing how comes
        /// before doing it badly.
        pub solutions_until: f64 where real(0.0, 1.0),
        /// Stop as soon as success on the held-out tasks is at least this: a warm start needs no mastery.
        pub stop_at: Option<f64> where real(0.0, 1.0),
        /// Steps between two looks at the held-out tasks, where `stop_at` is set.
        pub check_every: u64 where whole(1, 1_000_000_000),
    }
}

documented! {
    /// `[eval]`
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct EvalRecipe {
        /// Steps between evaluations; 0: only before and after.
        pub every: u64 where whole(0, 1_000_000_000),
        /// Held-out tasks of one evaluation, the first so many.
        pub tasks: usize where whole(0, 1_000_000),
        /// Temperature of the sampled evaluation; absent: training's. 0 makes the greedy evaluation, which is always made too, the
        /// headline.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub temperature: Option<f32> where real(0.0, 100.0),
        /// Episodes a task, sampled.
        pub samples: u32 where whole(1, 10_000),
        /// Sample through the recipe's top_k, top_p and min_p. They flatter a policy whose tail is wrong.
        pub filters: bool,
        /// Seed of the episodes, apart from the run's and the tasks'.
        pub seed: u64 where seed(),
        /// The component whose value of 1 is success. Empty: the first of the rubric with a weight.
        pub success: String,
        /// Play the controls when training is over: the start again, and the start sharpened to the end's entropy.
        pub controls: bool,
    }
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            name: "run".into(),
            seed: 0,
            credit: CreditRecipe::named("grpo"),
            loss: LossRecipe::named("dapo"),
            overlong_filter: false,
            placebo: None,
            policy: PolicyRecipe::default(),
            engine: EngineRecipe::default(),
            env: EnvSpecs::default(),
            sampling: SamplingParams::default(),
            rollout: RolloutSettings::default(),
            rubric: RubricSpec::single("tau_state", serde_json::Map::new()),
            kl_reward: None,
            plan: PlanRecipe::default(),
            train: TrainRecipe::default(),
            sft: SftRecipe::default(),
            eval: EvalRecipe::default(),
            checkpoint: CheckpointRecipe::default(),
            guard: GuardRecipe::default(),
            overlap: AsyncRecipe::default(),
            log: LogRecipe::default(),
            doctor: DoctorRecipe::default(),
        }
    }
}

impl Default for TrainRecipe {
    fn default() -> Self {
        Self {
            steps: 20,
            groups: 32,
            group_size: 8,
            mini_batch: 0,
            epochs_per_batch: 1,
            learning_rate: 1e-4,
            warmup: 0,
            decay: Decay::Constant,
            max_grad_norm: 1.0,
            batch_tokens: 8192,
            recompute: false,
            activation_mb: 0,
            patience: 3,
            kl_to_start: false,
            kl_within: None,
            adamw: AdamWSettings::default(),
        }
    }
}

impl Default for SftRecipe {
    fn default() -> Self {
        Self {
            steps: 600,
            traces: None,
            at_least: 1.0,
            batch: 48,
            learning_rate: 2e-3,
            warmup: 50,
            decay: Decay::Cosine,
            context_weight: 0.1,
            copying: 0.95,
            copying_until: 0.7,
            solutions_until: 0.0,
            stop_at: None,
            check_every: 20,
        }
    }
}

impl Default for EvalRecipe {
    fn default() -> Self {
        Self {
            every: 0,
            tasks: 256,
            temperature: None,
            samples: 1,
            filters: false,
            seed: 0,
            success: String::new(),
            controls: true,
        }
    }
}

impl EvalRecipe {
    /// The evaluation that `checkpoint.best` and the first line of a report go by: sampled, unless the recipe asks for
    /// temperature 0.
    pub fn headline(&self) -> Kind {
        if self.temperature == Some(0.0) { Kind::Greedy } else { Kind::Sampled }
    }

    fn check(&self, held_out: usize) -> Result<(), String> {
        if self.tasks > held_out {
            return Err(format!(
                "eval.tasks ({}) is more than env.held_out ({held_out}); lower the one or raise the other",
                self.tasks
            ));
        }
        Ok(())
    }
}

impl PolicyRecipe {
    /// Threads of the sampler, and of everything else where the learner has none of its own; 0: all cores.
    pub fn sampler_threads(&self, overlap: &AsyncRecipe) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        match (self.threads, overlap.staleness, overlap.learner_threads) {
            (0, 1.., taken @ 1..) => all().saturating_sub(taken).max(1),
            (threads, ..) => threads,
        }
    }
}

impl TrainRecipe {
    /// The learner of a run, without a reference policy.
    pub fn learner(&self) -> LearnerSpec {
        let limit = (self.activation_mb > 0).then_some(self.activation_mb << 20);
        let (adamw, recompute) = (self.adamw, self.recompute);
        LearnerSpec { adamw, recompute, activation_limit: limit, ..LearnerSpec::default() }
    }
}

/// Episodes of one step that anybody has memory for.
const MOST_EPISODES: usize = 1 << 20;

/// What is wrong with a recipe, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecipeError(String);

impl RecipeError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl Recipe {
    /// A recipe from TOML and `key=value` settings over it. Dots reach into tables; values are TOML, or text where they
    /// are not.
    pub fn parse(text: &str, settings: &[String]) -> Result<Self, RecipeError> {
        let mut table: Table = toml::from_str(text).map_err(|error| RecipeError(with_nearest(&error.to_string())))?;
        keys::check(&table)?;
        // The file by itself first: its errors can show the line.
        toml::from_str::<Self>(text).map_err(|error| RecipeError(with_nearest(&error.to_string())))?;
        for setting in settings {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| RecipeError(format!("--set takes key=value, found {setting:?}")))?;
            set(&mut table, key.trim(), read_value(value.trim()))
                .map_err(|what| RecipeError(format!("--set {setting}: {what}")))?;
        }
        keys::check(&table)?;
        let mut recipe = Self::read(table)?;
        recipe.settle()?;
        recipe.check()?;
        Ok(recipe)
    }

    /// The recipe that a run recorded, to read the run by. Keys that only a newer version of Hone knows are passed over:
    /// their paths come back with it. Ranges are not enforced: the run has been.
    pub fn recorded(text: &str) -> Result<(Self, Vec<String>), RecipeError> {
        let mut table: Table = toml::from_str(text).map_err(|error| RecipeError(with_nearest(&error.to_string())))?;
        let passed_over = keys::pass_over_unknown(&mut table);
        let mut recipe = Self::read(table)?;
        recipe.settle()?;
        Ok((recipe, passed_over))
    }

    fn read(table: Table) -> Result<Self, RecipeError> {
        Value::Table(table).try_into().map_err(|error: toml::de::Error| RecipeError(with_nearest(&error.to_string())))
    }

    /// Fills in what follows from the rubric, and refuses what names no component of it.
    fn settle(&mut self) -> Result<(), RecipeError> {
        // A rubric that cannot be built says so itself when the run is set up.
        let Ok(rubric) = self.rubric.build() else { return Ok(()) };
        let known: Vec<&str> = rubric.weights().map(|(name, _)| name).collect();
        if self.eval.success.is_empty() {
            let paid = rubric.weights().find(|(_, weight)| *weight > 0.0);
            self.eval.success = paid.map(|(name, _)| name.to_owned()).unwrap_or_default();
        }
        component("eval.success", &self.eval.success, &known)?;
        match self.checkpoint.best.as_str() {
            "" | "success" | TOTAL => Ok(()),
            best => component("checkpoint.best", best, &known),
        }
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
        if self.env.tasks() < self.train.groups {
            return bad(format!(
                "env.tasks ({}) must be at least train.groups ({}); raise env.tasks or lower train.groups",
                self.env.tasks(),
                self.train.groups
            ));
        }
        // A rubric that cannot be built says so itself when the run is set up.
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

    /// An evaluation of the held-out tasks is due after this step.
    pub fn evaluates_after(&self, step: u64) -> bool {
        step == self.train.steps || (self.eval.every > 0 && step.is_multiple_of(self.eval.every))
    }

    /// The recipe as TOML, every key resolved.
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        toml::to_string_pretty(self).map_err(|error| RecipeError(format!("the recipe cannot be written: {error}")))
    }
}

/// Whether a run of this name stays under `runs/`.
fn names_a_directory(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '+' | '=' | ',' | '@');
    !name.is_empty() && name.chars().count() <= 100 && !name.starts_with('.') && name.chars().all(plain)
}

fn component(key: &str, name: &str, known: &[&str]) -> Result<(), RecipeError> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(RecipeError(format!(
        "{key} is {name:?}, which is no component of the rubric; {}Its components are {}",
        did_you_mean(name, known.iter().copied()),
        known.join(", ")
    )))
}

fn read_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set(inner, rest, value),
            // `loss = "dapo"` and then `loss.clip_high=0.3`: the name becomes the table's.
            other => {
                let name = std::mem::replace(other, Value::Table(Table::new()));
                let Value::Table(inner) = other else { return Err(format!("{first} is not a table")) };
                inner.insert("name".into(), name);
                set(inner, rest, value)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((best.checkpoint.best.as_str(), best.eval.success.as_str()), ("total", "format"));
    }

    #[test]
    fn settings_lie_over_the_file() {
        let settings =
            ["train.steps=3", "name=x y", "loss.clip_high=0.3", "sampling.stop_ids=[1, 2]"].map(String::from);
        let recipe = Recipe::parse("seed = 7\nloss = \"dapo\"\n[train]\nsteps = 9\ngroups = 4\n", &settings).unwrap();
        assert_eq!((recipe.seed, recipe.train.steps, recipe.train.groups, recipe.name.as_str()), (7, 3, 4, "x y"));
        assert_eq!((recipe.loss.name.as_str(), recipe.loss.knobs["clip_high"]), ("dapo", 0.3));
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
