//! Published policy: samplers read it, the learner replaces it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hone_trace::{Digest, PolicyVersion};

use crate::lora::Adapter;
use crate::model::{Model, Net};
use crate::weights::digest;

/// Policy snapshot: one version of the weights. Cheap to clone; a held snapshot keeps its weights alive while newer
/// ones are served.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub model: Model,
    pub adapter: Option<Arc<Adapter>>,
    pub version: PolicyVersion,
}

impl Snapshot {
    /// A policy at the start of a run.
    pub fn new(model: Model, adapter: Option<Adapter>, run: &str) -> Self {
        let version = PolicyVersion { run: run.into(), step: 0, weights: Digest::of(&[]) };
        let mut snapshot = Self { model, adapter: adapter.map(Arc::new), version };
        snapshot.version.weights = snapshot.digest();
        snapshot
    }

    pub fn net(&self) -> Net<'_> {
        Net::new(&self.model, self.adapter.as_deref())
    }

    /// Digest of everything that decides a token: the base weights, and the adapter where there is one.
    fn digest(&self) -> Digest {
        let base = self.model.weights.digest(&self.model.cpu);
        match &self.adapter {
            None => base,
            Some(adapter) => {
                let own = digest(&self.model.cpu, &adapter.values);
                Digest::of(format!("{base}{own}{}", adapter.config.scale()).as_bytes())
            }
        }
    }
}

/// A policy shared by one learner and any number of samplers.
#[derive(Debug)]
pub struct Policy {
    current: RwLock<Snapshot>,
    /// Number of publishes; a running sampler compares it before it fetches the newest version.
    published: AtomicU64,
}

impl Policy {
    pub fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self { current: RwLock::new(snapshot), published: AtomicU64::new(0) })
    }

    /// The newest version.
    pub fn current(&self) -> Snapshot {
        // A learner that panicked inside `update` has not published: what is there was served before.
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
    pub(crate) fn update(&self, step: u64, change: impl FnOnce(&mut Snapshot)) -> PolicyVersion {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut current);
        current.version.step = step;
        current.version.weights = current.digest();
        current.version.clone()
    }
}
