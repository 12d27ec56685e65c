//! Reference outputs: logprobs, logits and gradients of plain token sequences, to compare the engine with other
//! implementations.

use std::collections::BTreeMap;

use hone_trace::BatchNode;

use crate::backend::Backend;
use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::model::{Keep, LossGradients, Net, Pass, Trained};

/// Execution options of a comparison. None of them changes results beyond rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct How {
    /// Pack all sequences into one pass instead of one each.
    pub packed: bool,
    /// Compute common prefixes once; implies one pass.
    pub share_prefix: bool,
    /// Recompute activations in the backward pass.
    pub recompute: bool,
}

impl How {
    fn keep(self) -> Keep {
        if self.recompute { Keep::Inputs } else { Keep::Everything }
    }

    fn together(self) -> bool {
        self.packed || self.share_prefix
    }
}

/// A gradient by Hugging Face parameter name, with the parameter's shape.
pub type NamedGradients = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Sequences laid out together, and the targets of each: every token but its first.
#[derive(Debug)]
struct Layout {
    forest: Forest,
    targets: Vec<Target>,
    /// Number of targets of each sequence.
    counts: Vec<usize>,
}

impl Layout {
    fn new(config: &Config, sequences: &[Vec<u32>], share: bool) -> Result<Self> {
        let (nodes, chains) = if share { shared_nodes(config, sequences) } else { separate_nodes(sequences) };
        let forest = Forest::new(config, &nodes)?;
        let mut targets = Vec::new();
        let mut counts = Vec::new();
        for chain in chains {
            let before = targets.len();
            let tokens = chain.iter().flat_map(|&node| (0..nodes[node].tokens.len()).map(move |at| (node, at)));
            targets.extend(tokens.filter_map(|(node, at)| forest.target(node, at)));
            counts.push(targets.len() - before);
        }
        Ok(Self { forest, targets, counts })
    }

    fn pass(&self) -> Pass<'_> {
        Pass { forest: &self.forest, targets: &self.targets, temperature: 1.0 }
    }
}

/// Each sequence as a root.
fn separate_nodes(sequences: &[Vec<u32>]) -> (Vec<BatchNode>, Vec<Vec<usize>>) {
    let nodes = sequences.iter().map(|t| BatchNode { parent: None, tokens: t.clone() }).collect();
    (nodes, (0..sequences.len()).map(|i| vec![i]).collect())
}

/// A tree of common prefixes. Returns the nodes and each sequence's chain of them.
///
/// Sequences whose rotary frequencies depend on their own length share nothing.
fn shared_nodes(config: &Config, sequences: &[Vec<u32>]) -> (Vec<BatchNode>, Vec<Vec<usize>>) {
    let mut nodes: Vec<BatchNode> = Vec::new();
    let mut chains = vec![Vec::new(); sequences.len()];
    // (members, tokens already placed, parent)
    let (alone, together): (Vec<usize>, Vec<usize>) =
        (0..sequences.len()).partition(|&i| config.rope.key(sequences[i].len()) != 0);
    let mut work: Vec<(Vec<usize>, usize, Option<usize>)> = alone.into_iter().map(|i| (vec![i], 0, None)).collect();
    work.push((together, 0, None));
    while let Some((members, from, parent)) = work.pop() {
        // Members that continue with the same token share at least that one.
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for i in members {
            if let Some(&next) = sequences[i].get(from) {
                groups.entry(next).or_default().push(i);
            }
        }
        for group in groups.into_values() {
            let first = &sequences[group[0]];
            let common = |i: &usize| first.iter().zip(&sequences[*i]).take_while(|(a, b)| a == b).count();
            let to = group.iter().map(common).min().unwrap_or(from);
            nodes.push(BatchNode { parent, tokens: first[from..to].to_vec() });
            for &i in &group {
                chains[i].push(nodes.len() - 1);
            }
            work.push((group, to, Some(nodes.len() - 1)));
        }
    }
    (nodes, chains)
}

/// Batches of sequences as `how` asks for them.
fn layouts(config: &Config, sequences: &[Vec<u32>], how: How) -> Result<Vec<Layout>> {
    if how.together() {
        return Ok(vec![Layout::new(config, sequences, how.share_prefix)?]);
    }
    sequences.iter().map(|s| Layout::new(config, std::slice::from_ref(s), false)).collect()
}

/// Logprob of every token but the first of each sequence.
pub fn logprobs<B: Backend>(net: &Net<'_, B>, sequences: &[Vec<u32>], how: How) -> Result<Vec<Vec<f32>>> {
    let mut ws = net.model.device.activations(None);
    let mut out = Vec::new();
    for layout in layouts(&net.model.config, sequences, how)? {
        let keep = if how.recompute { Keep::Inputs } else { Keep::Nothing };
        let mut scored = net.forward(layout.pass(), keep, &mut ws)?.logprobs.into_iter();
        out.extend(layout.counts.iter().map(|&n| scored.by_ref().take(n).collect::<Vec<_>>()));
    }
    Ok(out)
}

/// Gradient of `sum(weight * logprob)`: of each sequence separately or, if `how` packs, of all together.
pub fn gradients<B: Backend>(
    net: &Net<'_, B>,
    sequences: &[Vec<u32>],
    weights: &[Vec<f32>],
    how: How,
) -> Result<Vec<NamedGradients>> {
    let fits = weights.len() == sequences.len()
        && sequences.iter().zip(weights).all(|(s, w)| w.len() == s.len().saturating_sub(1));
    if !fits {
        return Err(EngineError::Batch(
            "weights must have one number per token after the first of each sequence".into(),
        ));
    }
    let mut ws = net.model.device.activations(None);
    let layouts = layouts(&net.model.config, sequences, how)?;
    let per_layout: Vec<Vec<f32>> = if how.together() { vec![weights.concat()] } else { weights.to_vec() };
    let mut out = Vec::new();
    for (layout, dlogp) in layouts.iter().zip(per_layout) {
        net.forward(layout.pass(), how.keep(), &mut ws)?;
        let table = &net.model.params.table;
        let mut grad = net.model.device.zeros(table.len());
        let gradients = LossGradients { dlogp: &dlogp, dentropy: &[] };
        net.backward(layout.pass(), gradients, &mut ws, Trained::Full(&mut grad))?;
        let grad = B::read_flat(&grad)?;
        out.push(
            table.params.iter().map(|p| (p.name.clone(), (p.shape.clone(), grad[p.range.clone()].to_vec()))).collect(),
        );
    }
    Ok(out)
}

/// Logits of every position of a sequence, `[tokens][vocab]`.
pub fn logits<B: Backend>(net: &Net<'_, B>, sequence: &[u32]) -> Result<Vec<f32>> {
    let c = &net.model.config;
    let forest = Forest::of_sequences(c, &[sequence.to_vec()])?;
    B::logits(*net, &forest, 0, &mut net.model.device.activations(None))
}

/// Greedy decoding by a full pass per token: the slow reference of generation.
pub fn greedy<B: Backend>(net: &Net<'_, B>, prompt: &[u32], new_tokens: usize) -> Result<Vec<u32>> {
    let c = &net.model.config;
    let mut tokens = prompt.to_vec();
    let mut ws = net.model.device.activations(None);
    for _ in 0..new_tokens {
        let forest = Forest::of_sequences(c, std::slice::from_ref(&tokens))?;
        let logits = B::logits(*net, &forest, tokens.len() - 1, &mut ws)?;
        // The first of equals, as torch.argmax.
        let best = logits.iter().enumerate().fold(0, |best, (i, z)| if *z > logits[best] { i } else { best });
        tokens.push(best as u32);
    }
    Ok(tokens.split_off(prompt.len()))
}
