//! The learner: forward, the loss's word, backward; then one optimizer step and a new policy version.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
pub use hone_trace::Whose;
use hone_trace::{
    Abilities, Batch, LearnFault, LearnStats, Learner, Loss, OptimizerStep, PolicyVersion, StepReport, TokenColumns,
    TokenScores,
};

use crate::buffer::Buffer;
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::lora::Adapter;
use crate::model::{Keep, Model, Net, Pass, Scored, Slopes, Trained, Workspace};
use crate::optim::{AdamW, AdamWSettings, clip_factor, global_norm};
use crate::policy::{Policy, Snapshot};
use crate::weights::{Storage, Table};

/// Settings of a learner.
#[derive(Debug, Clone, Default)]
pub struct LearnerSettings {
    pub adamw: AdamWSettings,
    /// Recompute activations in the backward pass: less memory, a third more work, the same bits.
    pub recompute: bool,
    /// Bytes of activations a batch may need.
    pub memory_limit: Option<u64>,
    /// Threads of its own, for a learner that computes while others sample. The numbers are the same.
    pub cpu: Option<Arc<Cpu>>,
}

/// Trains the policy it publishes to: the adapter where the policy has one, else all weights.
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

    /// Goes on where [`NativeLearner::save`] stopped. `policy` must hold the same model (and base) as then.
    pub fn resume(
        policy: Arc<Policy>,
        reference: Option<Model>,
        settings: LearnerSettings,
        dir: &Path,
    ) -> Result<Self> {
        let mut learner = Self::new(policy, reference, settings);
        learner.load(dir, None)?;
        Ok(learner)
    }

    /// Goes back to what [`NativeLearner::save`] wrote: publishes the saved weights as version `step` (`None`: the number of
    /// optimizer steps they took) and takes over the optimizer state. Gradients not yet applied are dropped.
    fn load(&mut self, dir: &Path, step: Option<u64>) -> Result<()> {
        let snapshot = self.policy.current();
        self.optimizer = AdamW::load(self.settings.adamw, dir, trained_table(&snapshot))?;
        let step = step.unwrap_or_else(|| self.optimizer.steps());
        if snapshot.adapter.is_some() {
            let adapter = Arc::new(Adapter::load(&snapshot.model, dir)?);
            self.policy.update(step, |s| s.adapter = Some(adapter));
        } else {
            let model = Model::load(dir, Arc::clone(&snapshot.model.cpu))?;
            if model.weights.params != snapshot.model.weights.params {
                return Err(EngineError::State("the saved model has another shape than the policy".into()));
            }
            self.policy.update(step, |s| s.model = model);
        }
        self.policy.publish();
        snapshot.model.cpu.clear(&mut self.grads);
        Ok(())
    }

    /// The logprob of every target and the entropy it was drawn from, without learning anything.
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
        let columns = TokenColumns::new(batch, &scored.logprobs, Some(&scored.entropies), reference);
        let tokens = columns.view();
        let mut slopes = vec![0.0; targets.len()];
        let stats = loss.grad(&tokens, &mut slopes);
        let dlogp: Vec<f32> = slopes.iter().map(|&x| x as f32).collect();
        // Entropy is taken off the loss: its slope is minus coefficient times weight.
        let dentropy: Vec<f32> = match loss.entropy_coefficient() {
            0.0 => Vec::new(),
            coefficient => tokens.weight.iter().map(|w| (-coefficient * w) as f32).collect(),
        };
        let slopes = Slopes { dlogp: &dlogp, dentropy: &dentropy };
        let trained = match snapshot.adapter {
            Some(_) => Trained::Adapter(&mut self.grads),
            None => Trained::Full(&mut self.grads),
        };
        net.backward(pass, slopes, &mut self.workspace, trained).map_err(fault)?;
        Ok(LearnStats { logprobs: scored.logprobs, entropies: Some(scored.entropies), loss: stats })
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
                return Err(LearnFault::failed(what));
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
    targets.ok_or_else(|| LearnFault::BadBatch("a target is nobody's next token".into()))
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
        other => LearnFault::failed(other.to_string()),
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
        Abilities { shared_prefixes: true, entropies: true, reference, exact_sampler: true }
    }

    async fn save(&mut self, dir: &Path) -> std::result::Result<(), LearnFault> {
        NativeLearner::save(self, dir).map_err(fault)
    }

    async fn restore(&mut self, dir: &Path, step: u64) -> std::result::Result<(), LearnFault> {
        self.load(dir, Some(step)).map_err(fault)
    }
}
