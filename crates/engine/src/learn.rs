//! Learner: forward pass, loss, backward pass; then one optimizer step and a new policy version.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
pub use hone_trace::Whose;
use hone_trace::{
    Abilities, Batch, LearnFault, LearnStats, Learner, Loss, OptimizerStep, PolicyVersion, StepReport, TokenColumns,
    TokenScores,
};

use crate::backend::{Backend, GradientNorm, Need, Trainable};
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::lora::Adapter;
use crate::model::{Keep, LossGradients, Model, Net, Pass, Scored, Trained};
use crate::optim::{AdamW, AdamWSettings, clip_factor};
use crate::policy::{Policy, Snapshot};
use crate::undo::Remembered;
use crate::weights::{Storage, Table};

/// Settings of a learner.
#[derive(Debug)]
pub struct LearnerSettings<B: Backend = Cpu> {
    pub adamw: AdamWSettings,
    /// Activation checkpointing: recompute activations in the backward pass. Less memory, a third more work,
    /// bit-identical results.
    pub recompute: bool,
    /// Limit on the activations of a batch, in bytes.
    pub memory_limit: Option<u64>,
    /// Separate device (other threads of the same machine), for a learner that computes while others sample. The results
    /// are the same.
    pub device: Option<Arc<B>>,
}

impl<B: Backend> Default for LearnerSettings<B> {
    fn default() -> Self {
        Self { adamw: AdamWSettings::default(), recompute: false, memory_limit: None, device: None }
    }
}

impl<B: Backend> Clone for LearnerSettings<B> {
    fn clone(&self) -> Self {
        Self { device: self.device.clone(), ..*self }
    }
}

/// Learner of a published policy. It trains the adapter if the policy has one, else all weights.
///
/// Calls compute on the engine's threads and return when they are done: they do not yield in between.
#[derive(Debug)]
pub struct NativeLearner<B: Backend = Cpu> {
    policy: Arc<Policy<B>>,
    /// Reference policy (KL penalty): the model a loss may compare with. For an adapter it is the base model.
    reference: Option<Model<B>>,
    settings: LearnerSettings<B>,
    optimizer: AdamW<B>,
    grads: B::Flat,
    workspace: B::Activations,
    remembered: Option<Remembered>,
}

impl<B: Backend> NativeLearner<B> {
    /// Learner at the policy's current version, with a fresh optimizer.
    pub fn new(policy: Arc<Policy<B>>, reference: Option<Model<B>>, settings: LearnerSettings<B>) -> Self {
        let snapshot = policy.current();
        let (table, device) = (trained_table(&snapshot), &*snapshot.model.device);
        let optimizer = AdamW::new(settings.adamw, table, device);
        let (grads, workspace) = (device.zeros(table.len()), device.activations(settings.memory_limit));
        Self { policy, reference, settings, optimizer, grads, workspace, remembered: None }
    }

    /// Writes everything [`NativeLearner::resume`] needs: the weights (or the adapter) and the optimizer state.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let snapshot = self.policy.current();
        match &snapshot.adapter {
            Some(adapter) => adapter.save(dir)?,
            None => snapshot.model.save(dir, Storage::F32)?,
        }
        self.optimizer.save(dir, trained_table(&snapshot))
    }

    /// Resumes from a directory written by [`NativeLearner::save`]. `policy` must hold the same model (and base) as
    /// when it was saved.
    pub fn resume(
        policy: Arc<Policy<B>>,
        reference: Option<Model<B>>,
        settings: LearnerSettings<B>,
        dir: &Path,
    ) -> Result<Self> {
        let mut learner = Self::new(policy, reference, settings);
        learner.load(dir, None)?;
        Ok(learner)
    }

    /// Restores a directory written by [`NativeLearner::save`]: publishes the saved weights as version `step` (`None`:
    /// the number of optimizer steps they took) and loads the optimizer state. Gradients not yet applied are dropped.
    fn load(&mut self, dir: &Path, step: Option<u64>) -> Result<()> {
        let snapshot = self.policy.current();
        self.optimizer = AdamW::load(self.settings.adamw, dir, trained_table(&snapshot), &*snapshot.model.device)?;
        let step = step.unwrap_or_else(|| self.optimizer.steps());
        if snapshot.adapter.is_some() {
            let adapter = Arc::new(Adapter::load(&snapshot.model, dir)?);
            self.policy.update(step, |s| s.adapter = Some(adapter));
        } else {
            let model = Model::load(dir, Arc::clone(&snapshot.model.device))?;
            if model.params != snapshot.model.params {
                return Err(EngineError::State("the saved model has another shape than the policy".into()));
            }
            self.policy.update(step, |s| s.model = model);
        }
        self.policy.publish();
        snapshot.model.device.clear(&mut self.grads);
        Ok(())
    }

    /// Returns to the remembered state and publishes it as version `step`. Gradients not yet applied are dropped.
    fn take_back(&mut self, step: u64) -> Result<()> {
        let Some(remembered) = &self.remembered else {
            return Err(EngineError::State("no state is remembered that could be returned to".into()));
        };
        let optimizer = &mut self.optimizer;
        self.policy.try_update(step, |snapshot| remembered.put(snapshot, optimizer))?;
        self.policy.publish();
        self.policy.current().model.device.clear(&mut self.grads);
        Ok(())
    }

    /// Logprob of every target and entropy of its distribution, without a backward pass.
    pub fn score(&mut self, batch: &Batch, whose: Whose) -> std::result::Result<Scored, LearnFault> {
        let snapshot = self.snapshot();
        let forest = forest(&snapshot, batch)?;
        let targets = targets(&forest, batch)?;
        let pass = Pass { forest: &forest, targets: &targets, temperature: batch.temperature };
        match whose {
            Whose::Policy => snapshot.net().forward(pass, Keep::Nothing, &mut self.workspace).map_err(fault),
            Whose::Reference => self.reference_scores(&snapshot, pass),
        }
    }

    pub fn policy(&self) -> &Arc<Policy<B>> {
        &self.policy
    }

    /// The gradient accumulated so far, laid out as the trained parameters' table.
    pub fn gradients(&self) -> &B::Flat {
        &self.grads
    }

    fn learn(&mut self, batch: &Batch, loss: &dyn Loss) -> std::result::Result<LearnStats, LearnFault> {
        let snapshot = self.snapshot();
        let forest = forest(&snapshot, batch)?;
        let targets = targets(&forest, batch)?;
        let pass = Pass { forest: &forest, targets: &targets, temperature: batch.temperature };
        // Before the pass that is kept: both use the workspace.
        let reference = if loss.needs_reference() {
            Some(self.reference_scores(&snapshot, pass)?.logprobs.into_iter().map(f64::from).collect())
        } else {
            None
        };
        let keep = if self.settings.recompute { Keep::Inputs } else { Keep::Everything };
        let net = snapshot.net();
        let scored = net.forward(pass, keep, &mut self.workspace).map_err(|error| short(&snapshot, keep, error))?;
        let columns = TokenColumns::new(batch, &scored.logprobs, Some(&scored.entropies), reference);
        let tokens = columns.view();
        let mut dlogp = vec![0.0; targets.len()];
        let stats = loss.grad(&tokens, &mut dlogp);
        let dlogp: Vec<f32> = dlogp.iter().map(|&x| x as f32).collect();
        // Entropy bonus: d loss / d entropy is minus coefficient times weight.
        let dentropy: Vec<f32> = match loss.entropy_coefficient() {
            0.0 => Vec::new(),
            coefficient => tokens.weight.iter().map(|w| (-coefficient * w) as f32).collect(),
        };
        let gradients = LossGradients { dlogp: &dlogp, dentropy: &dentropy };
        let trained = match snapshot.adapter {
            Some(_) => Trained::Adapter(&mut self.grads),
            None => Trained::Full(&mut self.grads),
        };
        net.backward(pass, gradients, &mut self.workspace, trained).map_err(fault)?;
        Ok(LearnStats { logprobs: scored.logprobs, entropies: Some(scored.entropies), loss: stats })
    }

    /// The current version, to be computed on the learner's own device.
    fn snapshot(&self) -> Snapshot<B> {
        let mut snapshot = self.policy.current();
        if let Some(device) = &self.settings.device {
            snapshot.model.device = Arc::clone(device);
        }
        snapshot
    }

    fn reference_scores(&mut self, snapshot: &Snapshot<B>, pass: Pass<'_>) -> std::result::Result<Scored, LearnFault> {
        let model = match (&self.reference, &snapshot.adapter) {
            (Some(reference), _) => reference,
            (None, Some(_)) => &snapshot.model,
            (None, None) => {
                let what = "the loss compares with a reference policy and the learner was given none";
                return Err(LearnFault::failed(what));
            }
        };
        Net::new(model, None).forward(pass, Keep::Nothing, &mut self.workspace).map_err(fault)
    }

    fn apply(&mut self, step: OptimizerStep) -> Result<StepReport> {
        let device = Arc::clone(&self.snapshot().model.device);
        let norm = device.gradient_norm(trained_table(&self.policy.current()), &self.grads)?;
        let (version, grad_norm, skipped) = match norm {
            GradientNorm::NotFinite(name) => {
                (self.policy.current().version, None, Some(format!("the gradient of {name} is not finite")))
            }
            GradientNorm::Finite(norm) => (self.update(&device, step, norm)?, Some(norm), None),
        };
        if step.publish {
            self.policy.publish();
        }
        device.clear(&mut self.grads);
        Ok(StepReport { version, grad_norm, skipped })
    }

    /// Optimizer step on the accumulated gradient, whose norm is known.
    fn update(&mut self, device: &B, step: OptimizerStep, norm: f64) -> Result<PolicyVersion> {
        let (optimizer, grads) = (&mut self.optimizer, &self.grads);
        let (rate, scale) = (step.learning_rate, clip_factor(norm, step.max_grad_norm));
        let number = self.policy.current().version.step + 1;
        self.policy.try_update(number, |snapshot| {
            let trainable = match &mut snapshot.adapter {
                Some(adapter) => Trainable::Adapter(Arc::make_mut(adapter)),
                None => Trainable::Weights(&snapshot.model.params.table, Arc::make_mut(&mut snapshot.model.weights)),
            };
            optimizer.step(device, trainable, grads, rate, scale)
        })
    }
}

fn forest<B: Backend>(snapshot: &Snapshot<B>, batch: &Batch) -> std::result::Result<Forest, LearnFault> {
    batch.check().map_err(LearnFault::BadBatch)?;
    Forest::new(&snapshot.model.config, &batch.nodes).map_err(fault)
}

fn targets(forest: &Forest, batch: &Batch) -> std::result::Result<Vec<Target>, LearnFault> {
    let targets: Option<_> = batch.targets.iter().map(|t| forest.target(t.node, t.offset)).collect();
    targets.ok_or_else(|| {
        LearnFault::BadBatch(
            "a target is the first token of a sequence, which nothing predicts; give targets to later tokens only"
                .into(),
        )
    })
}

/// The parameters a policy trains.
fn trained_table<B: Backend>(snapshot: &Snapshot<B>) -> &Table {
    match &snapshot.adapter {
        Some(adapter) => &adapter.table,
        None => &snapshot.model.params.table,
    }
}

/// Like [`fault`], with the number of tokens that would have fit.
fn short<B: Backend>(snapshot: &Snapshot<B>, keep: Keep, error: EngineError) -> LearnFault {
    let EngineError::Memory { needed, limit, rows } = error else { return fault(error) };
    let (device, config) = (&snapshot.model.device, &snapshot.model.config);
    let fits = |rows: usize| device.bytes(config, Need::Pass { rows, keep }) <= limit;
    let (mut low, mut high) = (0, rows);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    let recompute = if keep == Keep::Everything { ", or train.recompute = true" } else { "" };
    let fix = match low {
        0 => format!(
            "train a smaller model or an adapter (policy.lora), or raise train.activation_mb if it is set{recompute}"
        ),
        tokens => format!("train.batch_tokens of at most {tokens} fit{recompute}"),
    };
    LearnFault::Memory { needed, limit, fix }
}

/// Name of the parameter at an index of the flat array.
fn name_at(table: &Table, at: usize) -> String {
    let found = table.params.iter().find(|param| param.range.contains(&at));
    found.map_or_else(|| "a parameter".to_owned(), |param| param.name.clone())
}

fn fault(error: EngineError) -> LearnFault {
    match error {
        EngineError::Memory { needed, limit, .. } => LearnFault::Memory {
            needed,
            limit,
            fix: "raise the limit, pack fewer tokens or turn recomputation on".into(),
        },
        EngineError::Batch(what) => LearnFault::BadBatch(what),
        other => LearnFault::failed(other.to_string()),
    }
}

#[async_trait]
impl<B: Backend> Learner for NativeLearner<B> {
    async fn accumulate(&mut self, batch: &Batch, loss: &dyn Loss) -> std::result::Result<LearnStats, LearnFault> {
        self.learn(batch, loss)
    }

    async fn step(&mut self, step: OptimizerStep) -> std::result::Result<StepReport, LearnFault> {
        self.apply(step).map_err(fault)
    }

    async fn not_finite(&mut self) -> std::result::Result<Option<String>, LearnFault> {
        let snapshot = self.policy.current();
        let (adapter, weights) = (snapshot.adapter.as_ref().map(|adapter| &adapter.weights), &snapshot.model.weights);
        if adapter.map_or_else(|| B::finite(weights), B::finite_adapter).map_err(fault)? {
            return Ok(None);
        }
        // On a GPU this copies all weights to the host, so only now.
        let values = adapter.map_or_else(|| B::read(weights), B::read_adapter).map_err(fault)?;
        let at = values.iter().position(|value| !value.is_finite());
        Ok(Some(at.map_or_else(|| "a weight, rounded to bf16".into(), |at| name_at(trained_table(&snapshot), at))))
    }

    async fn score(&mut self, batch: &Batch, whose: Whose) -> std::result::Result<TokenScores, LearnFault> {
        let Scored { logprobs, entropies } = NativeLearner::score(self, batch, whose)?;
        Ok(TokenScores { logprobs, entropies: Some(entropies) })
    }

    fn version(&self) -> PolicyVersion {
        self.policy.current().version
    }

    fn abilities(&self) -> Abilities {
        // The base of an adapter is its own reference.
        let reference = self.reference.is_some() || self.policy.current().adapter.is_some();
        let exact_sampler = self.policy.current().model.device.exact();
        Abilities { shared_prefixes: true, entropies: true, reference, exact_sampler }
    }

    async fn save(&mut self, dir: &Path) -> std::result::Result<(), LearnFault> {
        NativeLearner::save(self, dir).map_err(fault)
    }

    async fn restore(&mut self, dir: &Path, step: u64) -> std::result::Result<(), LearnFault> {
        self.load(dir, Some(step)).map_err(fault)
    }

    async fn remember(&mut self, _dir: &Path) -> std::result::Result<(), LearnFault> {
        self.remembered = None;
        self.remembered = Some(Remembered::of(&self.policy.current(), &self.optimizer).map_err(fault)?);
        Ok(())
    }

    async fn undo(&mut self, _dir: &Path, step: u64) -> std::result::Result<(), LearnFault> {
        self.take_back(step).map_err(fault)
    }
}
