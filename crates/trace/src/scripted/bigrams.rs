//! The table: a softmax over the next token for each of a few classes of tokens before it.

use std::path::Path;

use crate::engine::EngineFault;
use crate::seed::Rng;

/// Rows: a token's row is its id modulo this.
const ROWS: usize = 128;
const FILE: &str = "bigrams.f32";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table(pub(super) Vec<f32>);

/// The distribution after one token.
#[derive(Debug)]
pub(super) struct Scores {
    pub(super) logprobs: Vec<f64>,
}

impl Scores {
    /// Logprob, as sampler and learner record it.
    pub(super) fn logprob(&self, token: u32) -> f32 {
        self.logprobs.get(token as usize).map_or(f32::MIN, |logprob| *logprob as f32)
    }

    pub(super) fn entropy(&self) -> f64 {
        self.logprobs.iter().map(|logprob| -logprob * logprob.exp()).sum()
    }

    pub(super) fn likeliest(&self) -> u32 {
        let best = self.logprobs.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(0, |(token, _)| token as u32)
    }
}

impl Table {
    pub(super) fn random(vocabulary: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self((0..ROWS * vocabulary).map(|_| (2.0 * rng.unit() - 1.0) as f32).collect())
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.0.len() / ROWS
    }

    /// Start of the row after a token.
    pub(super) fn row(&self, before: u32) -> usize {
        before as usize % ROWS * self.vocabulary()
    }

    pub(super) fn scores(&self, before: u32, temperature: f32) -> Scores {
        let logits = self.0[self.row(before)..][..self.vocabulary()].iter();
        let logits: Vec<f64> = logits.map(|logit| f64::from(*logit) / f64::from(temperature)).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mass: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
        Scores { logprobs: logits.into_iter().map(|logit| logit - most - mass.ln()).collect() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(&self.0)
    }

    pub(super) fn save(&self, dir: &Path) -> Result<(), EngineFault> {
        write(&dir.join(FILE), &self.0)
    }

    pub(super) fn load(dir: &Path) -> Result<Self, EngineFault> {
        let values = read(&dir.join(FILE))?;
        if values.is_empty() || !values.len().is_multiple_of(ROWS) {
            return Err(EngineFault::new(format!("{} is not a table of {ROWS} rows", dir.join(FILE).display())));
        }
        Ok(Self(values))
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn write(path: &Path, values: &[f32]) -> Result<(), EngineFault> {
    std::fs::write(path, bytes(values))
        .map_err(|error| EngineFault::new(format!("cannot write {}: {error}", path.display())))
}

pub(super) fn read(path: &Path) -> Result<Vec<f32>, EngineFault> {
    let bytes =
        std::fs::read(path).map_err(|error| EngineFault::new(format!("cannot read {}: {error}", path.display())))?;
    let (values, _) = bytes.as_chunks::<4>();
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}
