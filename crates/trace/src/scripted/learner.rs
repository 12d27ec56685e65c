//! The learner of the bigram engine: exact gradients of a softmax, and AdamW without bias correction or decay.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::bigrams::{self, Table};
use super::engine::{Served, Snapshot};
use crate::batch::{Batch, Target};
use crate::engine::AdamWSettings;
use crate::loss::{Loss, TokenColumns};
use crate::node::PolicyVersion;
use crate::policy::{Abilities, LearnFault, LearnStats, Learner, OptimizerStep, StepReport, TokenScores, Whose};

const MOMENTS: [&str; 2] = ["moment1.f32", "moment2.f32"];

pub(super) struct BigramLearner {
    served: Served,
    /// Newer than the served version if a step did not publish.
    current: Arc<Snapshot>,
    reference: Option<Arc<Snapshot>>,
    adamw: AdamWSettings,
    abilities: Abilities,
    grads: Vec<f32>,
    moments: [Vec<f32>; 2],
}

impl BigramLearner {
    pub(super) fn new(
        served: Served,
        reference: Option<Arc<Snapshot>>,
        adamw: AdamWSettings,
        abilities: Abilities,
    ) -> Self {
        let current = served.now();
        let zeros = vec![0.0; current.table.0.len()];
        let abilities = Abilities { reference: reference.is_some(), ..abilities };
        Self { served, current, reference, adamw, abilities, moments: [zeros.clone(), zeros.clone()], grads: zeros }
    }

    fn check(&self, batch: &Batch) -> Result<(), LearnFault> {
        batch.check().map_err(LearnFault::BadBatch)?;
        if !self.abilities.shared_prefixes && batch.nodes.iter().any(|node| node.parent.is_some()) {
            return Err(LearnFault::BadBatch(
                "sequences share prefixes, and this learner computes none together".into(),
            ));
        }
        Ok(())
    }

    fn scores(&self, of: &Snapshot, batch: &Batch) -> TokenScores {
        let each = |target: &Target| of.table.scores(before(batch, target), batch.temperature);
        let scores: Vec<_> = batch.targets.iter().map(|target| (each(target), id(batch, target))).collect();
        let entropies = || scores.iter().map(|(scores, _)| scores.entropy() as f32).collect();
        TokenScores {
            logprobs: scores.iter().map(|(scores, token)| scores.logprob(*token)).collect(),
            entropies: self.abilities.entropies.then(entropies),
        }
    }

    fn reference(&self) -> Result<&Arc<Snapshot>, LearnFault> {
        self.reference.as_ref().ok_or_else(|| LearnFault::failed("the learner was opened without a reference policy"))
    }

    /// Adds d loss / d logits of one target, given d loss / d logprob and d loss / d entropy.
    fn backward(&mut self, batch: &Batch, target: &Target, dlogp: f64, dentropy: f64) {
        let (before, token) = (before(batch, target), id(batch, target) as usize);
        let scores = self.current.table.scores(before, batch.temperature);
        let (entropy, temperature) = (scores.entropy(), f64::from(batch.temperature));
        let row = self.current.table.row(before);
        for (at, logprob) in scores.logprobs.iter().enumerate() {
            let probability = logprob.exp();
            let chosen = if at == token { 1.0 } else { 0.0 };
            let slope = dlogp * (chosen - probability) - dentropy * probability * (logprob + entropy);
            self.grads[row + at] += (slope / temperature) as f32;
        }
    }

    /// The stepped table.
    fn stepped(&mut self, learning_rate: f64, scale: f64) -> Table {
        let mut table = self.current.table.clone();
        let [first, second] = &mut self.moments;
        let (beta1, beta2) = (self.adamw.beta1 as f32, self.adamw.beta2 as f32);
        for (at, grad) in self.grads.iter().enumerate() {
            let grad = grad * scale as f32;
            first[at] = beta1 * first[at] + (1.0 - beta1) * grad;
            second[at] = beta2 * second[at] + (1.0 - beta2) * grad * grad;
            table.0[at] -= learning_rate as f32 * first[at] / (second[at].sqrt() + self.adamw.eps as f32);
        }
        table
    }
}

fn id(batch: &Batch, target: &Target) -> u32 {
    batch.nodes[target.node].tokens[target.offset]
}

/// The token before a target: in its node, or the last of the node's parent. A checked batch has one.
fn before(batch: &Batch, target: &Target) -> u32 {
    let node = &batch.nodes[target.node];
    match target.offset.checked_sub(1) {
        Some(offset) => node.tokens[offset],
        None => node.parent.and_then(|parent| batch.nodes[parent].tokens.last().copied()).unwrap_or_default(),
    }
}

#[async_trait]
impl Learner for BigramLearner {
    async fn accumulate(&mut self, batch: &Batch, loss: &dyn Loss) -> Result<LearnStats, LearnFault> {
        self.check(batch)?;
        if loss.entropy_coefficient() != 0.0 && !self.abilities.entropies {
            return Err(LearnFault::failed("the loss has an entropy bonus, and this learner knows no entropies"));
        }
        let reference = if loss.needs_reference() {
            Some(self.scores(self.reference()?, batch).logprobs.into_iter().map(f64::from).collect())
        } else {
            None
        };
        let TokenScores { logprobs, entropies } = self.scores(&self.current, batch);
        let columns = TokenColumns::new(batch, &logprobs, entropies.as_deref(), reference);
        let mut slopes = vec![0.0; batch.targets.len()];
        let stats = loss.grad(&columns.view(), &mut slopes);
        for (target, dlogp) in batch.targets.iter().zip(slopes) {
            self.backward(batch, target, dlogp, -loss.entropy_coefficient() * f64::from(target.weight));
        }
        Ok(LearnStats { logprobs, entropies, loss: stats })
    }

    async fn step(&mut self, step: OptimizerStep) -> Result<StepReport, LearnFault> {
        // In 32 bits, like the table: a norm that overflows them is useless.
        let norm = self.grads.iter().map(|grad| grad * grad).sum::<f32>().sqrt();
        let (grad_norm, skipped) = if norm.is_finite() {
            let norm = f64::from(norm);
            let scale = step.max_grad_norm.map_or(1.0, |limit| (limit / (norm + 1e-6)).min(1.0));
            let PolicyVersion { run, step: number, .. } = self.current.version.clone();
            self.current = Arc::new(Snapshot::new(self.stepped(step.learning_rate, scale), run, number + 1));
            (Some(norm), None)
        } else {
            (None, Some("the gradient of the table is not finite".to_owned()))
        };
        self.grads.fill(0.0);
        if step.publish {
            self.served.publish(&self.current);
        }
        Ok(StepReport { version: self.version(), grad_norm, skipped })
    }

    async fn score(&mut self, batch: &Batch, whose: Whose) -> Result<TokenScores, LearnFault> {
        self.check(batch)?;
        Ok(match whose {
            Whose::Policy => self.scores(&self.current, batch),
            Whose::Reference => self.scores(self.reference()?, batch),
        })
    }

    fn version(&self) -> PolicyVersion {
        self.current.version.clone()
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    async fn not_finite(&mut self) -> Result<Option<String>, LearnFault> {
        let broken = self.current.table.0.iter().any(|value| !value.is_finite());
        Ok(broken.then(|| "the table".to_owned()))
    }

    async fn save(&mut self, dir: &Path) -> Result<(), LearnFault> {
        let mut moments = MOMENTS.iter().zip(&self.moments);
        let saved = moments.try_for_each(|(name, values)| bigrams::write(&dir.join(name), values));
        saved.and_then(|()| self.current.table.save(dir)).map_err(|fault| LearnFault::failed(fault.what))
    }

    async fn restore(&mut self, dir: &Path, step: u64) -> Result<(), LearnFault> {
        let failed = |fault: crate::engine::EngineFault| LearnFault::failed(fault.what);
        let table = Table::load(dir).map_err(failed)?;
        for (name, moment) in MOMENTS.iter().zip(&mut self.moments) {
            *moment = bigrams::read(&dir.join(name)).map_err(failed)?;
        }
        if table.0.len() != self.grads.len() || self.moments.iter().any(|moment| moment.len() != self.grads.len()) {
            return Err(LearnFault::failed("the saved table has another shape than the policy"));
        }
        self.current = Arc::new(Snapshot::new(table, self.current.version.run.clone(), step));
        self.served.publish(&self.current);
        self.grads.fill(0.0);
        Ok(())
    }
}
