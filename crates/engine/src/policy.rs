//! Published policy: samplers read it, the learner replaces it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hone_trace::{Digest, PolicyVersion};

use crate::backend::Backend;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::lora::Adapter;
use crate::model::{Model, Net};

/// Policy snapshot: one version of the weights. Cheap to clone; a held snapshot keeps its weights alive while newer
/// ones are served.
#[derive(Debug)]
pub struct Snapshot<B: Backend = Cpu> {
    pub model: Model<B>,
    pub adapter: Option<Arc<Adapter<B>>>,
    pub version: PolicyVersion,
}

impl<B: Backend> Clone for Snapshot<B> {
    fn clone(&self) -> Self {
        Self { model: self.model.clone(), adapter: self.adapter.clone(), version: self.version.clone() }
    }
}

impl<B: Backend> Snapshot<B> {
    /// Snapshot at the start of a run.
    pub fn new(model: Model<B>, adapter: Option<Adapter<B>>, run: &str) -> Self {
        let version = PolicyVersion { run: run.into(), step: 0, weights: Digest::of(&[]) };
        let mut snapshot = Self { model, adapter: adapter.map(Arc::new), version };
        snapshot.version.weights = snapshot.digest();
        snapshot
    }

    pub fn net(&self) -> Net<'_, B> {
        Net::new(&self.model, self.adapter.as_deref())
    }

    /// Declares the changed weights a new version.
    fn renew(&mut self, step: u64) -> PolicyVersion {
        self.version.step = step;
        self.version.weights = self.digest();
        self.version.clone()
    }

    /// Digest of everything that determines a token: the base weights, and the adapter if there is one.
    fn digest(&self) -> Digest {
        let device = &self.model.device;
        let base = device.digest(&self.model.weights);
        match &self.adapter {
            None => base,
            Some(adapter) => {
                let own = device.digest_adapter(&adapter.weights);
                Digest::of(format!("{base}{own}{}", adapter.config.scale()).as_bytes())
            }
        }
    }
}

/// Policy shared by one learner and any number of samplers.
#[derive(Debug)]
pub struct Policy<B: Backend = Cpu> {
    current: RwLock<Snapshot<B>>,
    /// Number of publishes; a running sampler compares it before it fetches the newest version.
    published: AtomicU64,
}

impl<B: Backend> Policy<B> {
    pub fn new(snapshot: Snapshot<B>) -> Arc<Self> {
        Arc::new(Self { current: RwLock::new(snapshot), published: AtomicU64::new(0) })
    }

    /// The newest version.
    pub fn current(&self) -> Snapshot<B> {
        // A learner that panicked inside `update` has not published: the current version was served before.
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of publishes so far.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Publishes the newest version: running samplers switch to it.
    pub(crate) fn publish(&self) {
        self.published.fetch_add(1, Ordering::Release);
    }

    /// Replaces the weights, as version `step`: in place unless a sampler still holds the old ones. Samplers that fetch
    /// a version during the update wait for it.
    pub(crate) fn update(&self, step: u64, change: impl FnOnce(&mut Snapshot<B>)) -> PolicyVersion {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut current);
        current.renew(step)
    }

    /// Like [`Policy::update`], for a change that may fail: the version then stays.
    pub(crate) fn try_update(
        &self,
        step: u64,
        change: impl FnOnce(&mut Snapshot<B>) -> Result<()>,
    ) -> Result<PolicyVersion> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut current)?;
        Ok(current.renew(step))
    }
}
