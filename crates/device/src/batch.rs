//! Packed batch on the device.

use hone_cuda::attention::{Node, Plan};
use hone_cuda::embed::Ids;
use hone_cuda::rows::Runs;
use hone_cuda::{Buffer, Gpu};
use hone_engine::{EngineError, Forest, Result, Target};

use crate::cuda::{Spec, fault};

/// Packed batch: rows, positions, visibility and targets of one pass.
///
/// Rows and targets are padded with tokens that no row attends to and targets of zero weight: otherwise every number of rows
/// would be a separate matrix product to plan and cache.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) ids: Ids,
    pub(crate) position: Buffer<i32>,
    pub(crate) plan: Plan,
    /// Number of rows of the forest, and with padding.
    pub(crate) rows: usize,
    pub(crate) padded: usize,
    pub(crate) longest: usize,
    pub(crate) targets: Targets,
}

#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) count: usize,
    pub(crate) padded: usize,
    /// Row that predicts each target.
    pub(crate) row: Buffer<i32>,
    pub(crate) token: Buffer<i32>,
    /// Targets of each row.
    pub(crate) runs: Runs,
}

impl Batch {
    pub(crate) fn new(gpu: &Gpu, spec: &Spec, forest: &Forest, targets: &[Target]) -> Result<Self> {
        if forest.rope_keys.iter().any(|&key| key != 0) {
            return Err(EngineError::Device(
                "a sequence is longer than the trained context of a model with dynamic rope, which the GPU does not \
                 compute; set engine.device = \"cpu\", or use yarn"
                    .into(),
            ));
        }
        let (rows, padded) = (forest.rows(), rounded(forest.rows()));
        let filled = |values: &[u32]| -> Vec<u32> {
            values.iter().copied().chain(std::iter::repeat_n(0, padded - rows)).collect()
        };
        let nodes = forest.spans.iter().map(|s| Node { tokens: s.rows.clone(), ancestors: s.chain.clone() });
        let tail = (padded > rows).then(|| Node { tokens: rows..padded, ancestors: Vec::new() });
        let nodes: Vec<Node> = nodes.chain(tail).collect();
        // The padding rows are all at position 0.
        let position: Vec<i32> = filled(&forest.positions).into_iter().map(|p| p as i32).collect();
        Ok(Self {
            ids: Ids::new(gpu, &filled(&forest.tokens), spec.config.vocab).map_err(fault)?,
            position: Buffer::from_slice(gpu, &position).map_err(fault)?,
            plan: Plan::forest(gpu, &nodes).map_err(fault)?,
            rows,
            padded,
            longest: forest.positions.iter().max().map_or(0, |p| *p as usize + 1),
            targets: Targets::new(gpu, targets, padded)?,
        })
    }
}

impl Targets {
    fn new(gpu: &Gpu, targets: &[Target], rows: usize) -> Result<Self> {
        let (count, padded) = (targets.len(), rounded(targets.len()));
        let filled = |values: Vec<i32>, tail: i32| -> Vec<i32> {
            values.into_iter().chain(std::iter::repeat_n(tail, padded - count)).collect()
        };
        let row = filled(targets.iter().map(|t| t.row as i32).collect(), 0);
        let token = filled(targets.iter().map(|t| t.token as i32).collect(), -1);
        let places: Vec<usize> = targets.iter().map(|t| t.row).collect();
        Ok(Self {
            count,
            padded,
            row: Buffer::from_slice(gpu, &row).map_err(fault)?,
            token: Buffer::from_slice(gpu, &token).map_err(fault)?,
            runs: Runs::new(gpu, &places, rows).map_err(fault)?,
        })
    }

    /// Gradients (d loss / d logprob, or d entropy) of the targets on the device; zero for padding.
    pub(crate) fn gradients(&self, gpu: &Gpu, values: &[f32]) -> Result<Buffer<f32>> {
        let mut all = values.to_vec();
        all.resize(self.padded, 0.0);
        Buffer::from_slice(gpu, &all).map_err(fault)
    }
}

/// Padded number of rows: few distinct values, a few percent more work.
pub(crate) fn rounded(rows: usize) -> usize {
    let step = match rows {
        0..=64 => 8,
        65..=1024 => 64,
        1025..=4096 => 128,
        _ => 512,
    };
    rows.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_adds_little_and_leaves_few_numbers() {
        assert_eq!([0, 1, 8, 65, 1025, 8192, 8193].map(rounded), [0, 8, 8, 128, 1152, 8192, 8704]);
        let numbers: std::collections::BTreeSet<usize> = (1..=32_768).map(rounded).collect();
        assert!(numbers.len() < 120, "{}", numbers.len());
        assert!((65..32_768).all(|rows| rounded(rows) - rows < 64 + rows / 8));
    }
}
