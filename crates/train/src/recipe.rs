//! Recipes: a complete program for `hone train`, parsed once, layered plainly and printed back.
//!
//! A recipe is a TOML file with `--set key=value` over it. The tables and their defaults are here, reading and checking them
//! in `read`. Unknown keys are errors that name the nearest known one.

mod read;
mod text;

use std::path::PathBuf;

use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rollout::RolloutSettings;
use hone_trace::{AdamWSettings, LearnerSpec, LoraSpec, NativeOptions, SamplingParams, Task, documented};
use hone_worlds::EnvSpecs;
use serde::{Deserialize, Serialize};

use crate::ahead::AsyncRecipe;
use crate::checkpoint::CheckpointRecipe;
use crate::credit::CreditRecipe;
use crate::evaluate::Kind;
use crate::fresh::FreshRecipe;
use crate::guard::GuardRecipe;
use crate::log::LogRecipe;
use crate::loss::LossRecipe;
use crate::penalty::KlReward;
use crate::placebo::Placebo;
use crate::plan::PlanRecipe;
use crate::schedule::{Decay, Schedule};

pub use read::RecipeError;

/// Default learning rate of models under 10 million parameters, and of models of unknown size.
const SMALL_MODEL: f64 = 1e-4;
/// Default number of evaluation tasks: enough to show a gain of about 6 points.
const TASKS: usize = 256;

documented! {
    /// Recipe: everything a run needs to know. Every key has a default; the resolved recipe is written into the run.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Recipe {
        /// Name of the run: its directory is runs/NAME-1, or the first number that is free.
        pub name: String,
        /// Root of all randomness.
        pub seed: u64 where seed(),
        /// The advantage estimator, by name: docs/algorithms.md.
        pub credit: CreditRecipe where table::<CreditRecipe>(),
        /// The objective, by name or as a table: docs/algorithms.md.
        pub loss: LossRecipe where table::<LossRecipe>(),
        /// Train on no episode that was truncated by a length limit.
        pub overlong_filter: bool,
        /// Advantages that ignore the rewards: a control of a run, see `hone train --placebo`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub placebo: Option<Placebo>,
        /// The policy that is trained.
        pub policy: PolicyRecipe where table::<PolicyRecipe>(),
        /// Engine that serves and trains the policy.
        pub engine: EngineRecipe where table::<EngineRecipe>(),
        /// The environment: `[env]`, or several `[[env]]`; their keys: docs/environments-reference.md.
        pub env: EnvSpecs where named(hone_worlds::registry::keys),
        /// Sampling of replies.
        pub sampling: SamplingParams where table::<SamplingParams>(),
        /// Rollouts: limits, deadlines, malformed replies.
        pub rollout: RolloutSettings where table::<RolloutSettings>(),
        /// The reward: components and products of them; absent: the environment's own.
        pub rubric: RubricSpec where table::<RubricSpec>(),
        /// KL penalty in the reward, relative to the reference policy; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kl_reward: Option<KlReward> where table::<KlReward>(),
        /// Selection of tasks.
        pub plan: PlanRecipe where table::<PlanRecipe>(),
        /// Steps, batches and the optimizer.
        pub train: TrainRecipe where table::<TrainRecipe>(),
        /// The warm start, `hone sft`.
        pub sft: SftRecipe where table::<SftRecipe>(),
        /// Evaluation on held-out tasks.
        pub eval: EvalRecipe where table::<EvalRecipe>(),
        /// Retention of checkpoints.
        pub checkpoint: CheckpointRecipe where table::<CheckpointRecipe>(),
        /// Guard against sudden drops in the success rate: reported, and rolled back if the recipe asks for it.
        pub guard: GuardRecipe where table::<GuardRecipe>(),
        /// Asynchronous training: sampling while the previous step is being learned.
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
        /// A model directory in Hugging Face's layout; absent: the embedded policy, for environments that have one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<PathBuf> where path(),
        /// A PEFT adapter on the model, to continue from: it is trained, not the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub adapter: Option<PathBuf> where path(),
        /// Low-rank adapters: train those instead of the model; absent: the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lora: Option<LoraSpec> where table::<LoraSpec>(),
        /// Reference policy of a KL penalty: a model directory. Absent: the policy as it was at the start.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reference: Option<PathBuf> where path(),
        /// Threads of the engine; 0: all cores.
        pub threads: usize where whole(0, 4_096).may_change(),
        /// Size of the policy that `hone sft` creates if no model is named; what is left out here and in `[sft]` it chooses
        /// from the environment's solved episodes.
        pub fresh: FreshRecipe where table::<FreshRecipe>(),
    }
}

documented! {
    /// `[engine]`: the engine that serves and trains the policy.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct EngineRecipe {
        /// Kind of the engine. "native": the model on this machine, which the other keys are for.
        pub kind: String,
        /// Other keys are the engine's own.
        #[serde(flatten)]
        pub options: serde_json::Map<String, serde_json::Value> where others::<NativeOptions>(),
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
        pub steps: u64 where whole(0, 1_000_000_000).may_change(),
        /// Tasks per step.
        pub groups: usize where whole(1, 65_536),
        /// Episodes per task.
        pub group_size: u32 where whole(2, 65_536).because("an episode is judged against its siblings"),
        /// Sequences of one optimizer step; 0: all of the step's.
        pub mini_batch: usize where whole(0, 100_000_000),
        /// Passes over a step's sequences.
        pub epochs_per_batch: u32 where whole(1, 1_000),
        /// Learning rate after the warm-up. Absent, by the model's size: 1e-4 under 10 million parameters, 5e-5 under 100
        /// million, 1e-6 from there on; an adapter (`policy.lora`) on a model of 10 million and more is trained at 1e-5.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub learning_rate: Option<f64> where real(0.0, 10.0),
        /// Warm-up: steps over which the learning rate rises to `learning_rate`.
        pub warmup: u64 where whole(0, 1_000_000_000),
        /// Learning-rate schedule after the warm-up.
        pub decay: Decay,
        /// Gradient clipping: maximum global norm.
        pub max_grad_norm: f64 where real(1e-9, 1e9),
        /// Micro-batch size in tokens.
        pub batch_tokens: usize where whole(1, 1_000_000_000).may_change(),
        /// Gradient checkpointing: recompute activations in the backward pass. Less memory, a third more work, the same
        /// numbers.
        pub recompute: bool where open().may_change(),
        /// Megabytes of activations; 0: the machine's free memory when the run starts.
        pub activation_mb: u64 where whole(0, 16_777_216),
        /// Steps in a row from which nothing could be learned (every episode broke, no episode was scored, every gradient was
        /// not finite) after which the run stops.
        pub patience: u32 where whole(1, 1_000_000).may_change(),
        /// Record the KL divergence from the starting policy after every step: `policy/kl_to_start`.
        pub kl_to_start: bool,
        /// A run directory with that metric: no step of this run may move further from the start than that run's did.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub kl_within: Option<PathBuf> where path(),
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
        /// Run directory whose traces are imitated. Absent: the oracle is imitated.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub traces: Option<PathBuf> where path(),
        /// Minimum `eval.success` of imitated traces, if `traces` is set.
        pub at_least: f64 where real(-1e6, 1e6),
        /// Episodes per step.
        pub batch: usize where whole(1, 65_536),
        /// Learning rate after the warm-up.
        pub learning_rate: f64 where real(0.0, 10.0),
        /// Warm-up: steps over which the learning rate rises to `learning_rate`.
        pub warmup: u64 where whole(0, 1_000_000_000),
        /// Learning-rate schedule after the warm-up.
        pub decay: Decay,
        /// Weight of the tokens the agent did not write, relative to its own.
        pub context_weight: f64 where real(0.0, 100.0),
        /// Share of repeated random sequences at the start, fading out: they teach copying.
        pub copying: f64 where real(0.0, 1.0),
        /// Share of the steps after which none are mixed in.
        pub copying_until: f64 where real(0.0, 1.0),
        /// Curriculum: the first turns of an episode that are imitated before whole episodes are. Openings teach copying at a
        /// fraction of the tokens. 0: whole episodes from the first step.
        pub opening_turns: u32 where whole(0, 10_000),
        /// Share of the steps that imitate openings alone, if `opening_turns` is set.
        pub opening_until: f64 where real(0.0, 1.0),
        /// Share of the steps that imitate the solutions of tasks with imperfect demonstrations, before those
        /// demonstrations are imitated.
        pub solutions_until: f64 where real(0.0, 1.0),
        /// Stop as soon as success on the held-out tasks is at least this: a warm start need not be perfect.
        pub stop_at: Option<f64> where real(0.0, 1.0),
        /// Steps between evaluations on the held-out tasks, if `stop_at` is set.
        pub check_every: u64 where whole(1, 1_000_000_000),
    }
}

documented! {
    /// `[eval]`
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct EvalRecipe {
        /// Steps between evaluations; 0: only before and after.
        pub every: u64 where whole(0, 1_000_000_000).may_change(),
        /// Number of held-out tasks of one evaluation, from the first; absent: 256, or all if fewer are held out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tasks: Option<usize> where whole(0, 1_000_000),
        /// Temperature of the sampled evaluation; absent: training's. 0 makes the greedy evaluation, which is always made too, the
        /// headline.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub temperature: Option<f32> where real(0.0, 100.0),
        /// Sampled episodes per task.
        pub samples: u32 where whole(1, 10_000),
        /// Sample through the recipe's top_k, top_p and min_p. They inflate the score of a policy with wrong low-probability tokens.
        pub filters: bool,
        /// Seed of the episodes, separate from the run's and the tasks'.
        pub seed: u64 where seed(),
        /// Success component: an episode with value 1 is a success. Empty or absent: the first of the rubric with a weight.
        pub success: String,
        /// Evaluate the controls when training is over: the start again, and the start sharpened to the end's entropy.
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
            rubric: RubricSpec::default(),
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
            learning_rate: None,
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
            opening_turns: 0,
            opening_until: 0.5,
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
            tasks: None,
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
    /// Headline evaluation, used by `checkpoint.best` and the first line of a report: sampled, unless the recipe asks
    /// for temperature 0.
    pub(crate) fn headline(&self) -> Kind {
        if self.temperature == Some(0.0) { Kind::Greedy } else { Kind::Sampled }
    }

    /// Maximum number of held-out tasks in one evaluation.
    pub fn most_tasks(&self) -> usize {
        self.tasks.unwrap_or(TASKS)
    }

    /// The held-out tasks used for evaluation.
    pub fn tasks_of<'a>(&self, held_out: &'a [Task]) -> &'a [Task] {
        &held_out[..self.most_tasks().min(held_out.len())]
    }

    fn check(&self, held_out: usize) -> Result<(), String> {
        match self.tasks {
            Some(tasks) if tasks > held_out => Err(format!(
                "eval.tasks ({tasks}) is more than env.held_out ({held_out}); lower the one or raise the other"
            )),
            _ => Ok(()),
        }
    }
}

impl PolicyRecipe {
    /// Threads of the sampler, and of everything else if the learner has no setting; 0: all cores.
    pub fn sampler_threads(&self, overlap: &AsyncRecipe) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        match (self.threads, overlap.staleness, overlap.learner_threads) {
            (0, 1.., taken @ 1..) => all().saturating_sub(taken).max(1),
            (threads, ..) => threads,
        }
    }
}

impl TrainRecipe {
    /// The learning rate over the run's steps.
    pub fn schedule(&self) -> Schedule {
        // One past the last: a rate of 0 would train nothing and still count its tokens as trained.
        Schedule { peak: self.rate(), warmup: self.warmup, total: self.steps + 1, decay: self.decay, floor: 0.0 }
    }

    /// Learning rate after the warm-up: the recipe's, or that of a small model.
    pub fn rate(&self) -> f64 {
        self.learning_rate.unwrap_or(SMALL_MODEL)
    }

    /// Default learning rate for a model of this size, trained whole or by an adapter.
    pub(crate) fn default_rate(parameters: u64, adapter: bool) -> f64 {
        match (parameters, adapter) {
            (0..10_000_000, _) => SMALL_MODEL,
            (_, true) => 1e-5,
            (..100_000_000, false) => 5e-5,
            (_, false) => 1e-6,
        }
    }

    /// Learner of a run, without a reference policy.
    pub(crate) fn learner(&self) -> LearnerSpec {
        let limit = (self.activation_mb > 0).then_some(self.activation_mb << 20);
        let (adamw, recompute) = (self.adamw, self.recompute);
        LearnerSpec { adamw, recompute, activation_limit: limit, ..LearnerSpec::default() }
    }
}
