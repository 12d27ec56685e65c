//! A made-up run, healthy unless a twin says otherwise.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hone_doctor::{Diagnosis, examine};
use hone_trace::rundir::RunDir;
use hone_trace::{
    Digest, Lesson, Node, Outcome, PolicyVersion, Reward, Sampled, SamplingParams, ToolCall, ToolSet, ToolSpec, Trace,
    TraceBuilder, TraceHead, TurnRecord,
};
use serde_json::{Map, Value, json};

pub(crate) const STEPS: u64 = 24;
pub(crate) const TASKS: usize = 64;

/// When an episode was played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    Training(u64),
    Greedy {
        after: bool,
    },
    Sampled {
        after: bool,
    },
    Sharpened,
    /// Greedily at the end, with the tools changed.
    Perturbed(&'static str),
}

/// An episode before it is recorded.
#[derive(Debug, Clone)]
pub(crate) struct Episode {
    pub task: usize,
    pub replica: u32,
    pub seed: u64,
    pub sampling: SamplingParams,
    pub replies: Vec<Vec<u32>>,
    pub turns: Vec<TurnRecord>,
    pub outcome: Outcome,
    pub rewards: Vec<Reward>,
    /// Recorded total, where it is not the sum; NaN: there is none.
    pub total: Option<f64>,
    /// Key of the task, where it is not the stage's own.
    pub key: Option<String>,
    /// The policy that sampled it, and its name.
    pub weights: u64,
    pub served: &'static str,
    /// Tokens of the prompt, and of every answer.
    pub prompt: Vec<u32>,
    pub answer: Vec<u32>,
    /// Name of the one tool on offer.
    pub tool: &'static str,
    /// Logprob of every token.
    pub logprob: f32,
    pub facts: Map<String, Value>,
    /// Outcome of learning from it.
    pub lesson: Option<Lesson>,
}

/// A run with one fault.
pub(crate) struct Twin {
    pub recipe: &'static str,
    pub metrics: fn(u64, &mut Map<String, Value>),
    pub episode: fn(Stage, &mut Episode),
    pub events: fn() -> Vec<Value>,
    /// Files that lie beside the records.
    pub files: fn(&Path),
}

impl Default for Twin {
    fn default() -> Self {
        Self {
            recipe: "",
            metrics: |_, _| {},
            episode: |_, _| {},
            events: || vec![json!({"event": "overlap", "result": {"held_out": TASKS, "prompts": 0.0, "calls": 0.0}})],
            files: |_| {},
        }
    }
}

impl Twin {
    pub(crate) fn diagnosis(&self) -> Diagnosis {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        self.record(&path);
        (self.files)(&path);
        examine(&path).unwrap()
    }

    pub(crate) fn record(&self, path: &Path) {
        let recipe = if self.recipe.is_empty() { HEALTHY } else { self.recipe };
        let mut run = RunDir::create(path, recipe).unwrap();
        for event in (self.events)() {
            run.event(&event).unwrap();
        }
        self.evaluate(&mut run, 0, false);
        for step in 1..=STEPS {
            let episodes = (0..4).flat_map(|task| (0..4).map(move |replica| (task, replica)));
            let traces: Vec<Trace> =
                episodes.map(|(task, replica)| self.played(Stage::Training(step), task, replica)).collect();
            let numbers = run.traces(&traces).unwrap();
            run.event(&json!({"event": "step", "step": step, "traces": [numbers.start, numbers.end]})).unwrap();
            let made =
                json!({"event": "optimizer_step", "step": step, "batch": 0, "sequences": 16, "policy_step": step});
            run.event(&made).unwrap();
            let mut line = line(step);
            let tokens: usize = traces.iter().flat_map(Trace::sampled).map(|(_, node)| node.tokens().len()).sum();
            line.insert("tokens/sampled".into(), json!(tokens));
            line.extend(earned(&traces));
            (self.metrics)(step, &mut line);
            run.metrics(&line).unwrap();
        }
        self.evaluate(&mut run, STEPS, true);
        let event = json!({"event": "control", "step": STEPS, "kind": "sharpened"});
        self.play(&mut run, Stage::Sharpened, event);
        for kind in ["order_reversed", "names_exchanged"] {
            self.play(&mut run, Stage::Perturbed(kind), json!({"event": "control", "step": STEPS, "kind": kind}));
        }
    }

    fn evaluate(&self, run: &mut RunDir, step: u64, after: bool) {
        for (kind, stage) in [("greedy", Stage::Greedy { after }), ("sampled", Stage::Sampled { after })] {
            self.play(run, stage, json!({"event": "eval", "step": step, "kind": kind}));
        }
    }

    fn play(&self, run: &mut RunDir, stage: Stage, mut event: Value) {
        let traces: Vec<Trace> = (0..TASKS).map(|task| self.played(stage, task, 0)).collect();
        let numbers = run.traces(&traces).unwrap();
        event["traces"] = json!([numbers.start, numbers.end]);
        run.event(&event).unwrap();
    }

    fn played(&self, stage: Stage, task: usize, replica: u32) -> Trace {
        let mut episode = Episode::healthy(stage, task, replica);
        (self.episode)(stage, &mut episode);
        episode.trace(stage)
    }
}

pub(crate) const HEALTHY: &str = "
name = \"twin\"
[train]
steps = 24
groups = 4
group_size = 4
[[rubric.component]]
kind = \"tau_state\"
[[rubric.component]]
kind = \"parse_penalty\"
";

impl Episode {
    /// A policy that goes from 0.3 to 0.9, and explores. Every other episode meets an error and carries on.
    pub(crate) fn healthy(stage: Stage, task: usize, replica: u32) -> Self {
        let solved = match stage {
            Stage::Training(step) => (task as u64 + u64::from(replica) + step).is_multiple_of(2),
            Stage::Greedy { after: false } | Stage::Sampled { after: false } => task % 10 < 3,
            Stage::Greedy { after: true } | Stage::Sampled { after: true } | Stage::Perturbed(_) => task % 10 < 9,
            Stage::Sharpened => task % 20 < 7,
        };
        let training = matches!(stage, Stage::Training(_));
        let temperature = match stage {
            Stage::Greedy { .. } | Stage::Perturbed(_) => 0.0,
            Stage::Sharpened => 0.5,
            _ => 1.0,
        };
        let call = TurnRecord {
            node: 1,
            calls: vec![ToolCall::new("look", Map::new())],
            executed: 1,
            failed: u32::from(task % 2 == 1),
            ..TurnRecord::default()
        };
        let say = TurnRecord { node: 3, ..TurnRecord::default() };
        // Half as sure at the start as later: the end's entropy is lower.
        let logprob = if matches!(stage, Stage::Sampled { after: false }) { -0.2 } else { -0.1 };
        let weights = match stage {
            Stage::Training(step) => step - 1,
            Stage::Greedy { after } | Stage::Sampled { after } => STEPS * u64::from(after),
            Stage::Sharpened => 0,
            Stage::Perturbed(_) => STEPS,
        };
        // No two policies give the same bits.
        let logprob = if training { logprob - 1e-4 * weights as f32 } else { logprob };
        Self {
            total: None,
            key: None,
            weights,
            served: "twin",
            prompt: vec![7, 8, if training { 1000 } else { 2000 } + task as u32],
            answer: vec![30, 31],
            tool: "look",
            logprob,
            facts: Map::new(),
            lesson: None,
            task,
            replica,
            seed: 10_000 * weights + 100 * task as u64 + u64::from(replica),
            sampling: SamplingParams { temperature, ..SamplingParams::default() },
            replies: vec![vec![10 + replica, 11, 12], vec![20 + task as u32, 2]],
            turns: vec![call, say],
            outcome: Outcome::Finished,
            rewards: vec![
                Reward::scored("tau_state", f64::from(u8::from(solved)), ""),
                Reward::scored("parse_penalty", if solved { 0.0 } else { -0.1 }, ""),
            ],
        }
    }

    pub(crate) fn score(&mut self, component: &str, value: f64) {
        self.rewards.retain(|reward| reward.component != component);
        self.rewards.push(Reward::scored(component, value, ""));
    }

    pub(crate) fn solve(&mut self, solved: bool) {
        self.score("tau_state", f64::from(u8::from(solved)));
    }

    pub(crate) fn trace(self, stage: Stage) -> Trace {
        let look = ToolSpec::new(self.tool, "Looks.", json!({"type": "object", "properties": {}}));
        let split = if matches!(stage, Stage::Training(_)) { "train" } else { "held-out" };
        let head = TraceHead {
            task: self.key.unwrap_or_else(|| format!("{split}-{}", self.task)),
            env: "made-up".into(),
            replica: self.replica,
            seed: self.seed,
            tools: Arc::new(ToolSet::new(vec![look]).unwrap()),
            sampling: self.sampling,
        };
        let weights = Digest::of(&self.weights.to_le_bytes());
        let version = PolicyVersion { run: self.served.into(), step: self.weights, weights };
        let mut builder = TraceBuilder::new(head, self.prompt);
        let mut turns = self.turns.into_iter();
        for reply in self.replies {
            let sampled = Sampled::by(version.clone(), vec![self.logprob; reply.len()]);
            builder.push(Node::sampled(reply, sampled).unwrap());
            if let Some(turn) = turns.next() {
                builder.record(turn);
            }
            builder.push(Node::observation(self.answer.clone()));
        }
        let mut trace = builder.finish(self.outcome);
        let paid = ["tau_state", "parse_penalty", "format", "grounding"];
        let paid = self.rewards.iter().filter(|reward| paid.contains(&reward.component.as_str()));
        let total = self.total.unwrap_or_else(|| paid.filter_map(Reward::value).sum());
        trace.rewards = self.rewards;
        if !total.is_nan() && trace.rewards.iter().any(|reward| reward.value().is_some()) {
            trace.rewards.push(Reward::scored("total", total, ""));
        }
        trace.facts = self.facts;
        trace.lesson = self.lesson;
        trace
    }
}

/// Advantage by GRPO of a solved episode of a healthy group, in which two of four earn 1 and the others -0.1.
pub(crate) fn by_grpo() -> f64 {
    let half: f64 = 0.55;
    half / ((4.0 * half * half / 3.0).sqrt() + 1e-4)
}

/// Metrics of the rewards, as the traces have them.
fn earned(traces: &[Trace]) -> Map<String, Value> {
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for reward in traces.iter().filter(|trace| trace.outcome.is_scorable()).flat_map(|trace| &trace.rewards) {
        if let Some(value) = reward.value() {
            sums.entry(format!("batch_reward/{}", reward.component)).or_default().push(value);
        }
    }
    if let Some(values) = sums.get("batch_reward/tau_state") {
        let solved = values.iter().map(|value| f64::from(u8::from(*value == 1.0))).collect();
        sums.insert("reward/success_rate".into(), solved);
    }
    sums.into_iter().map(|(name, values)| (name, json!(values.iter().sum::<f64>() / values.len() as f64))).collect()
}

/// A healthy line of metrics.
pub(crate) fn line(step: u64) -> Map<String, Value> {
    let progress = step as f64 / STEPS as f64;
    let line = json!({
        "step": step,
        "async/staleness_mean": 0.0,
        "batch_reward/tau_state/advantage_share": 0.9, "batch_reward/parse_penalty/advantage_share": 0.1,
        "reward/advantage_share_rest": 0.0,
        "environment/tool_calls_emitted": 64.0, "environment/tool_calls_executed": 64.0,
        "generate/avg_num_tokens": 50.0,
        "loss/avg_raw_advantages": 0.0,
        "policy/grad_norm": 0.3 + 0.01 * (step % 3) as f64, "policy/policy_entropy": 0.2 - 0.1 * progress,
        "policy/policy_kl": 0.001, "policy/policy_lr": 1e-4, "policy/skipped_steps": 0.0,
        "policy/rollout_train_logprobs_abs_diff_mean": 0.0001, "policy/rollout_train_logprobs_corr": 0.9999,
        "reward/parse_failure_rate": 0.01, "reward/signal_ratio": 0.6,
        "rollouts/faulted": 0.0, "rollouts/total": 16.0,
        "timing/step": 1.0,
        "tokens/sampled": 80.0, "tokens/trained": 60.0, "tokens/zero_advantage": 20.0,
    });
    line.as_object().cloned().unwrap()
}
