//! Learner: forward pass, loss, backward pass; then one optimizer step and a new policy version.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hone_trace::{Batch, LearnFault, LearnStats, Learner, Loss, OptimizerStep, StepReport, TokenColumns};

use crate::buffer::Buffer;
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::lora::Adapter;
use crate::model::{Keep, LossGradients, Model, Net, Pass, Scored, Trained, Workspace};
use crate::optim::{AdamW, AdamWSettings, clip_factor, global_norm};
use crate::policy::{Policy, Snapshot};
use crate::weights::{Storage, Table};

/// Settings of a learner.
#[derive(Debug, Clone, Default)]
pub struct LearnerSettings {
    pub adamw: AdamWSettings,
    /// Activation checkpointing: recompute activations in the backward pass. Less memory, a third more work, the same
    /// bits.
    pub recompute: bool,
    /// Bytes of activations a batch may need.
    pub memory_limit: Option<u64>,
    /// Separate threads, for a learner that computes while others sample. The results are the same.
    pub cpu: Option<Arc<Cpu>>,
}

/// Policy to score with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Policy,
    Reference,
}

/// Learner of a published policy. It trains the adapter where the policy has one, else all weights.
///
/// Calls compute on the engine's threads and return when they are done: they do not yield in between.
#[derive(Debug)]
pub struct NativeLearner {
    policy: Arc<Policy>,
    /// The policy a loss may compare with. An adapter's base is its own reference.
    reference: Option<Model>,
    settings: LearnerSettings,
    optimizer: AdamW,
    grads: Buffer,
    workspace: Workspace,
}

impl NativeLearner {
    /// A learner at the policy's current version, with a fresh optimizer.
    pub fn new(policy: Arc<Policy>, reference: Option<Model>, settings: LearnerSettings) -> Self {
        let snapshot = policy.current();
        let table = trained_table(&snapshot);
        let optimizer = AdamW::new(settings.adamw, table);
        let grads = Buffer::zeros(table.len());
        let workspace = Workspace { limit: settings.memory_limit, ..Workspace::default() };
        Self { policy, reference, settings, optimizer, grads, workspace }
    }

    /// Writes what [`NativeLearner::resume`] needs: the weights (or the adapter) and the optimizer state.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let snapshot = self.policy.current();
        match &snapshot.adapter {
            Some(adapter) => adapter.save(dir)?,
            None => snapshot.model.save(dir, Storage::F32)?,
        }
        self.optimizer.save(dir, trained_table(&snapshot))
    }

    /// Resumes from what [`NativeLearner::save`] wrote: publishes the saved weights as their version and restores the
    /// optimizer state. `policy` must hold the same model (and base) as then; gradients not yet applied are not saved.
    pub fn resume(
        policy: Arc<Policy>,
        reference: Option<Model>,
        settings: LearnerSettings,
        dir: &Path,
    ) -> Result<Self> {
        let mut learner = Self::new(policy, reference, settings);
        let snapshot = learner.policy.current();
        learner.optimizer = AdamW::load(learner.settings.adamw, dir, trained_table(&snapshot))?;
        let steps = learner.optimizer.steps();
        if snapshot.adapter.is_some() {
            let adapter = Arc::new(Adapter::load(&snapshot.model, dir)?);
            learner.policy.update(steps, |s| s.adapter = Some(adapter));
        } else {
            let model = Model::load(dir, Arc::clone(&snapshot.model.cpu))?;
            if model.weights.params != snapshot.model.weights.params {
                return Err(EngineError::State("the saved model has another shape than the policy".into()));
            }
            learner.policy.update(steps, |s| s.model = model);
        }
        learner.policy.publish();
        Ok(learner)
    }

    /// Sets the step counter of the published version; a resumed run keeps counting from it.
    pub fn renumber(&self, step: u64) {
        self.policy.update(step, |_| {});
        self.policy.publish();
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

    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The gradient accumulated so far, laid out as the trained parameters' table.
    pub fn gradients(&self) -> &[f32] {
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
        let scored = net.forward(pass, keep, &mut self.workspace).map_err(fault)?;
        let columns = TokenColumns::new(batch, &scored.logprobs, &scored.entropies, reference);
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
        Ok(LearnStats { logprobs: scored.logprobs, entropies: scored.entropies, loss: stats })
    }

    /// The current version, to be computed on the learner's own threads.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.policy.current();
        if let Some(cpu) = &self.settings.cpu {
            snapshot.model.cpu = Arc::clone(cpu);
        }
        snapshot
    }

    fn reference_scores(&mut self, snapshot: &Snapshot, pass: Pass<'_>) -> std::result::Result<Scored, LearnFault> {
        let model = match (&self.reference, &snapshot.adapter) {
            (Some(reference), _) => reference,
            (None, Some(_)) => &snapshot.model,
            (None, None) => {
                let what = "the loss compares with a reference policy and the learner was given none";
                return Err(LearnFault::Failed(what.into()));
            }
        };
        Net::new(model, None).forward(pass, Keep::Nothing, &mut self.workspace).map_err(fault)
    }

    fn apply(&mut self, step: OptimizerStep) -> StepReport {
        let cpu = Arc::clone(&self.snapshot().model.cpu);
        let (norm, skipped) = {
            let snapshot = self.policy.current();
            match global_norm(&cpu, trained_table(&snapshot), &self.grads) {
                Ok(norm) => (Some(norm), None),
                Err(name) => (None, Some(format!("the gradient of {name} is not finite"))),
            }
        };
        let version = match norm {
            None => self.policy.current().version,
            Some(norm) => {
                let (optimizer, grads) = (&mut self.optimizer, &self.grads);
                let scale = clip_factor(norm, step.max_grad_norm);
                let number = self.policy.current().version.step + 1;
                self.policy.update(number, |snapshot| {
                    if let Some(adapter) = &mut snapshot.adapter {
                        let adapter = Arc::make_mut(adapter);
                        optimizer.step(&cpu, &adapter.table, &mut adapter.values, grads, step.learning_rate, scale);
                        adapter.repack(&cpu);
                    } else {
                        let weights = Arc::make_mut(&mut snapshot.model.weights);
                        let params = Arc::clone(&weights.params);
                        optimizer.step(&cpu, &params.table, &mut weights.values, grads, step.learning_rate, scale);
                        weights.repack(&cpu);
                    }
                })
            }
        };
        if step.publish {
            self.policy.publish();
        }
        cpu.clear(&mut self.grads);
        StepReport { version, grad_norm: norm, skipped }
    }
}

fn forest(snapshot: &Snapshot, batch: &Batch) -> std::result::Result<Forest, LearnFault> {
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
fn trained_table(snapshot: &Snapshot) -> &Table {
    match &snapshot.adapter {
        Some(adapter) => &adapter.table,
        None => &snapshot.model.weights.params.table,
    }
}

fn fault(error: EngineError) -> LearnFault {
    match error {
        EngineError::Memory { needed, limit, .. } => LearnFault::Memory {
            needed,
            limit,
            fix: "raise the limit, pack fewer tokens or turn recomputation on".into(),
        },
        EngineError::Batch(what) => LearnFault::BadBatch(what),
        other => LearnFault::Failed(other.to_string()),
    }
}

#[async_trait]
impl Learner for NativeLearner {
    async fn accumulate(&mut self, batch: &Batch, loss: &dyn Loss) -> std::result::Result<LearnStats, LearnFault> {
        self.learn(batch, loss)
    }

    async fn step(&mut self, step: OptimizerStep) -> std::result::Result<StepReport, LearnFault> {
        Ok(self.apply(step))
    }
}
