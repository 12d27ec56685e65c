//! Scripted engine: a bigram table of logits, small enough to read. It samples, learns, saves and restores like any
//! other, so that the loop can be tested without a model, and against engines with fewer abilities.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::bigrams::{Scores, Table};
use super::learner::BigramLearner;
use crate::digest::Digest;
use crate::engine::{Engine, EngineFault, EngineKind, EngineSpec, FreshSpec, LearnerSpec, Memory, Reference, Workload};
use crate::node::{PolicyVersion, Sampled};
use crate::policy::{Abilities, Flow, Learner, Sample, SampleFault, SampleRequest, Sampler, StopReason};
use crate::seed::Rng;

/// Engine kind, with the abilities of its learners.
#[derive(Debug, Clone, Copy)]
pub struct Bigrams {
    pub abilities: Abilities,
}

impl Bigrams {
    pub const ABLE: Self =
        Self { abilities: Abilities { shared_prefixes: true, entropies: true, reference: true, exact_sampler: true } };
    /// Abilities of a server that returns only the logprobs of targets.
    pub const BARE: Self = Self {
        abilities: Abilities { shared_prefixes: false, entropies: false, reference: false, exact_sampler: false },
    };
}

/// One version of the policy.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) table: Table,
    pub(super) version: PolicyVersion,
}

impl Snapshot {
    pub(super) fn new(table: Table, run: Arc<str>, step: u64) -> Self {
        let weights = Digest::of(&table.bytes());
        Self { table, version: PolicyVersion { run, step, weights } }
    }
}

/// The version that samplers serve.
#[derive(Debug, Clone)]
pub(super) struct Served(Arc<Mutex<Arc<Snapshot>>>);

impl Served {
    pub(super) fn now(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn publish(&self, snapshot: &Arc<Snapshot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(snapshot);
    }

    fn of(snapshot: Snapshot) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(snapshot))))
    }
}

#[async_trait]
impl EngineKind for Bigrams {
    fn name(&self) -> &'static str {
        "bigrams"
    }

    async fn open(&self, spec: &EngineSpec) -> Result<Arc<dyn Engine>, EngineFault> {
        spec.refuse_options(self.name())?;
        if spec.lora.is_some() {
            return Err(EngineFault::new("the bigram engine trains no adapters; leave policy.lora out"));
        }
        let snapshot = Snapshot::new(Table::load(&spec.model)?, spec.run.as_str().into(), 0);
        Ok(Arc::new(BigramEngine { served: Served::of(snapshot), abilities: self.abilities }))
    }

    async fn fresh(&self, spec: &FreshSpec<'_>) -> Result<(), EngineFault> {
        let vocabulary = spec.config["vocab_size"].as_u64();
        let vocabulary = vocabulary.ok_or_else(|| EngineFault::new("config.json names no vocab_size"))?;
        Table::random(vocabulary as usize, spec.seed).save(spec.dir)
    }
}

#[derive(Debug)]
struct BigramEngine {
    served: Served,
    abilities: Abilities,
}

#[async_trait]
impl Engine for BigramEngine {
    fn sampler(&self) -> Arc<dyn Sampler> {
        Arc::new(BigramSampler(self.served.clone()))
    }

    fn version(&self) -> PolicyVersion {
        self.served.now().version.clone()
    }

    async fn learner(&self, spec: &LearnerSpec) -> Result<Box<dyn Learner>, EngineFault> {
        let reference = match &spec.reference {
            _ if !self.abilities.reference => None,
            None => None,
            Some(Reference::Start) => Some(self.served.now()),
            Some(Reference::Model(dir)) => Some(Arc::new(Snapshot::new(Table::load(dir)?, "reference".into(), 0))),
        };
        Ok(Box::new(BigramLearner::new(self.served.clone(), reference, spec.adamw, self.abilities)))
    }

    async fn sampler_of(&self, dir: &Path) -> Result<Arc<dyn Sampler>, EngineFault> {
        let snapshot = Snapshot::new(Table::load(dir)?, self.version().run, 0);
        Ok(Arc::new(BigramSampler(Served::of(snapshot))))
    }

    fn vocabulary(&self) -> usize {
        self.served.now().table.vocabulary()
    }

    fn memory(&self, _work: &Workload) -> Option<Memory> {
        None
    }

    async fn export(&self, dir: &Path) -> Result<(), EngineFault> {
        self.served.now().table.save(dir)
    }
}

struct BigramSampler(Served);

#[async_trait]
impl Sampler for BigramSampler {
    async fn sample(&self, mut request: SampleRequest) -> Result<Sample, SampleFault> {
        let params = &request.params;
        params.check().map_err(SampleFault::BadParams)?;
        if params.truncates() {
            return Err(SampleFault::BadParams("the bigram engine has no decoding filters".into()));
        }
        let Some(mut before) = request.prompt.last().copied() else {
            return Err(SampleFault::BadParams("the prompt is empty".into()));
        };
        let (snapshot, mut rng) = (self.0.now(), Rng::new(request.seed));
        let (mut tokens, mut logprobs, mut stop) = (Vec::new(), Vec::new(), StopReason::Length);
        while tokens.len() < params.max_new_tokens as usize {
            // With greedy decoding the logprob is that at temperature 1.
            let greedy = params.temperature == 0.0;
            let scores = snapshot.table.scores(before, if greedy { 1.0 } else { params.temperature });
            let token = if greedy { scores.likeliest() } else { draw(&scores, rng.unit()) };
            tokens.push(token);
            logprobs.push(scores.logprob(token));
            before = token;
            if params.stop_ids.contains(&token) {
                stop = StopReason::StopId;
                break;
            }
            if request.gate.as_mut().is_some_and(|gate| gate.push(token) == Flow::Stop) {
                stop = StopReason::Gate;
                break;
            }
        }
        Ok(Sample { sampled: Sampled::by(snapshot.version.clone(), logprobs), tokens, stop })
    }
}

/// The token at this share of the probability mass.
fn draw(scores: &Scores, share: f64) -> u32 {
    let mut mass = 0.0;
    let at = scores.logprobs.iter().position(|logprob| {
        mass += logprob.exp();
        mass > share
    });
    at.unwrap_or(scores.logprobs.len() - 1) as u32
}
