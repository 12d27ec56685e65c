//! Sequence packing with shared prefixes: a batch is a forest of token runs without padding, laid out depth first.
//!
//! Depth first means that all descendants of a run, and nothing else, directly follow it; its ancestors are a few
//! ranges of rows before it. A shared prefix is computed once because it is stored once.

use std::ops::Range;

use hone_trace::BatchNode;

use crate::config::Config;
use crate::error::{EngineError, Result};

/// Packed batch: token, position and visible rows of every row.
#[derive(Debug, Clone)]
pub struct Forest {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Position of each row in its sequence.
    pub positions: Vec<u32>,
    /// Runs in order of their rows.
    pub spans: Vec<Span>,
    /// For each run, the length that decides its rotary frequencies (see [`crate::rope::Rope::key`]).
    pub rope_keys: Vec<usize>,
    /// By node: the row that predicts its first token, if any, and its first row.
    places: Vec<(Option<usize>, usize)>,
}

/// Scored token: `token`, predicted from everything up to `row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub row: usize,
    pub token: u32,
}

/// Token run of a packed batch, and the ancestors it attends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Rows of the run.
    pub rows: Range<usize>,
    /// Position of the first token.
    pub position: usize,
    /// Rows of the ancestors, root first. Their lengths add up to `position`.
    pub chain: Vec<Range<usize>>,
    /// End of the rows of all its descendants, which follow it directly.
    pub subtree_end: usize,
}

impl Span {
    /// The rows of positions `from..to` of the chain, as (position - from, rows).
    pub(crate) fn locate(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut start = 0;
        self.chain.iter().chain(std::iter::once(&self.rows)).filter_map(move |rows| {
            let (first, last) = (from.max(start), to.min(start + rows.len()));
            let offset = rows.start + first - start.min(first);
            start += rows.len();
            (first < last).then(|| (first - from, offset..offset + last - first))
        })
    }
}

impl Forest {
    /// Packs nodes. A parent must come before its children in the list; their order is otherwise free.
    pub fn new(config: &Config, nodes: &[BatchNode]) -> Result<Self> {
        let mut builder = Builder::new(nodes)?;
        let mut forest = Self {
            tokens: Vec::with_capacity(nodes.iter().map(|n| n.tokens.len()).sum()),
            positions: Vec::new(),
            spans: Vec::with_capacity(nodes.len()),
            rope_keys: Vec::new(),
            places: vec![(None, 0); nodes.len()],
        };
        while let Some(node) = builder.next() {
            forest.place(nodes, node, &mut builder);
        }
        builder.close(&mut forest.spans);
        forest.check(config)?;
        forest.rope_keys = forest.rope_keys(config)?;
        Ok(forest)
    }

    /// Packs separate sequences, nothing shared.
    pub fn of_sequences(config: &Config, sequences: &[Vec<u32>]) -> Result<Self> {
        let nodes: Vec<_> = sequences.iter().map(|t| BatchNode { parent: None, tokens: t.clone() }).collect();
        Self::new(config, &nodes)
    }

    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// The target for the token at `offset` of a node; `None` for the first token of a sequence, which nothing
    /// predicts.
    pub fn target(&self, node: usize, offset: usize) -> Option<Target> {
        let (before, first) = *self.places.get(node)?;
        let row = if offset == 0 { before? } else { first + offset - 1 };
        Some(Target { row, token: *self.tokens.get(first + offset)? })
    }

    fn place(&mut self, nodes: &[BatchNode], node: usize, builder: &mut Builder) {
        let start = self.tokens.len();
        let rows = start..start + nodes[node].tokens.len();
        let parent = nodes[node].parent.map(|p| builder.span_of[p]);
        let mut chain = parent.map(|p| self.spans[p].chain.clone()).unwrap_or_default();
        if let Some(parent) = parent {
            let above = self.spans[parent].rows.clone();
            // Ranges that touch become one: a chain of first children is as cheap as one run.
            match chain.last_mut() {
                Some(last) if last.end == above.start => last.end = above.end,
                _ => chain.push(above),
            }
        }
        let position = chain.iter().map(ExactSizeIterator::len).sum();
        self.places[node] = (chain.last().map(|r| r.end - 1), start);
        builder.span_of[node] = self.spans.len();
        builder.parents.push(parent);
        self.tokens.extend_from_slice(&nodes[node].tokens);
        self.positions.extend((position..position + rows.len()).map(|p| p as u32));
        self.spans.push(Span { subtree_end: rows.end, rows, position, chain });
    }

    fn check(&self, config: &Config) -> Result<()> {
        if let Some(row) = self.tokens.iter().position(|&t| t as usize >= config.vocab) {
            return Err(EngineError::Batch(format!(
                "token {} is outside the vocabulary of {}; the tokenizer is larger than the model's embedding or of another model",
                self.tokens[row], config.vocab
            )));
        }
        let longest = self.spans.iter().map(|s| s.position + s.rows.len()).max().unwrap_or(0);
        if longest > config.context {
            return Err(EngineError::Batch(format!(
                "a sequence has {longest} tokens and the model's context {}; shorten it (a recipe's rollout.window), or scale the model's rope",
                config.context
            )));
        }
        Ok(())
    }

    /// Dynamic frequencies depend on the length of the whole sequence, so the leaves of a tree must agree on it.
    fn rope_keys(&self, config: &Config) -> Result<Vec<usize>> {
        let mut keys = vec![0; self.spans.len()];
        let mut first = 0;
        while first < self.spans.len() {
            let end = self.spans[first].subtree_end;
            let tree = first..first + self.spans[first..].iter().take_while(|s| s.rows.start < end).count().max(1);
            let mut lengths = self.spans[tree.clone()]
                .iter()
                .filter(|s| s.subtree_end == s.rows.end)
                .map(|s| config.rope.key(s.position + s.rows.len()));
            let key = lengths.next().unwrap_or(0);
            if lengths.any(|k| k != key) {
                return Err(EngineError::Batch(
                    "sequences of different lengths beyond the trained context share a prefix; pack them separately: their RoPE frequencies differ".into(),
                ));
            }
            keys[tree.clone()].fill(key);
            first = tree.end;
        }
        Ok(keys)
    }
}

/// Walks the nodes depth first without recursion: depth is input.
struct Builder {
    children: Vec<Vec<usize>>,
    stack: Vec<usize>,
    span_of: Vec<usize>,
    /// Parent span of each placed span.
    parents: Vec<Option<usize>>,
}

impl Builder {
    fn new(nodes: &[BatchNode]) -> Result<Self> {
        let mut children = vec![Vec::new(); nodes.len()];
        let mut stack = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if node.tokens.is_empty() {
                return Err(EngineError::Batch(format!("node {index} has no tokens")));
            }
            match node.parent {
                Some(parent) if parent >= index => {
                    return Err(EngineError::Batch(format!("node {index} comes before its parent {parent}")));
                }
                Some(parent) => children[parent].push(index),
                None => stack.push(index),
            }
        }
        stack.reverse();
        Ok(Self { children, stack, span_of: vec![0; nodes.len()], parents: Vec::new() })
    }

    fn next(&mut self) -> Option<usize> {
        let node = self.stack.pop()?;
        self.stack.extend(self.children[node].iter().rev());
        Some(node)
    }

    /// Sets where the subtree of every span ends: a later span ends no earlier than an earlier one below it.
    fn close(&self, spans: &mut [Span]) {
        for span in (0..spans.len()).rev() {
            if let Some(parent) = self.parents[span] {
                spans[parent].subtree_end = spans[parent].subtree_end.max(spans[span].subtree_end);
            }
        }
    }
}
