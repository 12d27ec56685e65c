//! Drift: the KL divergence from the starting policy, measured after every step if a control has to match it.
//!
//! A control that moves further from the start than the run it is compared with collapses for other reasons: noise
//! through an optimizer destroys a small softmax. Bound to the run's KL, step by step, it stays a policy, and the two
//! differ in direction, not in distance.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hone_trace::rundir::RunReader;
use hone_trace::{Group, Learner, Whose};

use crate::ledger::{Ledger, names};
use crate::pack::{self, Packing};
use crate::recipe::RecipeError;
use crate::run::TrainError;

/// Mean KL divergence per token of the current policy from the reference, on episodes that a slightly older policy
/// sampled: the non-negative estimator r − 1 − ln r (k3), each token importance-weighted by how likely it still is.
/// `None` without tokens.
pub async fn kl_to_start(
    learner: &mut dyn Learner,
    groups: &[Group],
    budget: usize,
) -> Result<Option<f64>, TrainError> {
    let (sequences, temperature) = pack::sampled(groups)?;
    let Some(temperature) = temperature else { return Ok(None) };
    let packing = Packing { temperature, budget, share: learner.abilities().shared_prefixes };
    let (mut now, mut start) = (Vec::new(), Vec::new());
    for batch in pack::to_score(&sequences, &packing) {
        now.extend(learner.score(&batch, Whose::Policy).await?.logprobs);
        start.extend(learner.score(&batch, Whose::Reference).await?.logprobs);
    }
    let places = sequences.iter().flat_map(|sequence| &sequence.places);
    let terms = places.zip(now.iter().zip(&start)).map(|(place, (&now, &start))| {
        let (now, start) = (f64::from(now), f64::from(start));
        (now - f64::from(place.sampler)).exp() * ((start - now).exp() - 1.0 - (start - now))
    });
    let (sum, tokens) = terms.fold((0.0, 0usize), |(sum, tokens), term| (sum + term, tokens + 1));
    Ok((tokens > 0).then(|| sum / tokens as f64))
}

/// The KL another run had after each of its steps: a bound on this one's.
#[derive(Debug)]
pub struct Bound {
    pub limits: BTreeMap<u64, f64>,
    /// Directory of the state before a step, for a learner that cannot keep it in memory.
    pub before: PathBuf,
}

/// Factors on the learning rate: after a step that moved too far, and after one that did not.
const SLOWER: f64 = 0.5;
const FASTER: f64 = 1.25;

/// KL recorded by another run after each of its steps.
pub fn limits(other: &Path) -> Result<BTreeMap<u64, f64>, TrainError> {
    let records = RunReader::open(other)?.metrics()?.records;
    let steps = records.iter().filter_map(Ledger::from_map);
    let limits: BTreeMap<u64, f64> =
        steps.filter_map(|ledger| Some((ledger.step, ledger.get(names::POLICY_KL_TO_START)?))).collect();
    if limits.is_empty() {
        let what = format!(
            "train.kl_within: {} recorded no KL to its start; train it with train.kl_to_start = true (`hone train --placebo \
             permute` does)",
            other.display()
        );
        return Err(RecipeError::new(what).into());
    }
    Ok(limits)
}

impl Bound {
    /// Has the learner remember its current state.
    pub async fn remember(&self, learner: &mut dyn Learner) -> Result<(), TrainError> {
        Ok(learner.remember(&self.before).await?)
    }

    /// Removes the saved state. A run should not fail because it cannot be removed.
    pub fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.before);
    }

    /// True if a step that reached this KL moved further than the other run at the same step. For a step the other run
    /// did not take, its last value is the limit.
    pub fn exceeds(&self, step: u64, kl: f64) -> bool {
        let limit = self.limits.range(..=step).next_back().map_or(0.0, |(_, limit)| *limit);
        kl > limit
    }

    /// The next factor on the learning rate.
    pub(crate) fn paced(factor: f64, too_far: bool) -> f64 {
        if too_far { factor * SLOWER } else { (factor * FASTER).min(1.0) }
    }
}
