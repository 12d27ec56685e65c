//! A forest of token runs: sequences with a common prefix share its nodes.

use hone_trace::BatchNode;

/// Grows sequence by sequence; a run is split where a new sequence leaves it.
#[derive(Debug)]
pub(super) struct Forest {
    share: bool,
    runs: Vec<Run>,
    roots: Vec<usize>,
    /// The run each sequence ends in.
    ends: Vec<usize>,
    tokens: usize,
}

#[derive(Debug)]
struct Run {
    parent: Option<usize>,
    tokens: Vec<u32>,
    children: Vec<usize>,
}

/// Leaf of a sequence in the forest.
struct Fork {
    /// The run it shares tokens with last, and how many of them.
    run: Option<(usize, usize)>,
    /// Tokens shared in all.
    shared: usize,
}

impl Forest {
    pub(super) fn new(share: bool) -> Self {
        Self { share, runs: Vec::new(), roots: Vec::new(), ends: Vec::new(), tokens: 0 }
    }

    /// Tokens so far, shared ones once.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens this sequence would add.
    pub(super) fn added_by(&self, ids: &[u32]) -> usize {
        ids.len() - self.fork(ids).shared
    }

    pub(super) fn insert(&mut self, ids: &[u32]) {
        let Fork { run, shared } = self.fork(ids);
        let parent = run.map(|(run, kept)| self.split(run, kept));
        let rest = &ids[shared..];
        let end = match parent {
            Some(parent) if rest.is_empty() => parent,
            _ => {
                self.tokens += rest.len();
                self.add(parent, rest.to_vec())
            }
        };
        self.ends.push(end);
    }

    fn fork(&self, ids: &[u32]) -> Fork {
        let mut fork = Fork { run: None, shared: 0 };
        let mut children = if self.share { self.roots.as_slice() } else { &[] };
        loop {
            let rest = &ids[fork.shared..];
            let Some(&run) = children.iter().find(|&&child| self.runs[child].tokens.first() == rest.first()) else {
                return fork;
            };
            let tokens = &self.runs[run].tokens;
            let kept = tokens.iter().zip(rest).take_while(|(a, b)| a == b).count();
            fork = Fork { run: Some((run, kept)), shared: fork.shared + kept };
            if kept < tokens.len() {
                return fork;
            }
            children = &self.runs[run].children;
        }
    }

    /// Splits a run after `kept` tokens and returns the head. The run itself becomes the tail, so that the sequences
    /// which end in it still do.
    fn split(&mut self, run: usize, kept: usize) -> usize {
        if kept == self.runs[run].tokens.len() {
            return run;
        }
        let tail = self.runs[run].tokens.split_off(kept);
        let tokens = std::mem::replace(&mut self.runs[run].tokens, tail);
        let parent = self.runs[run].parent;
        let head = self.runs.len();
        self.runs.push(Run { parent, tokens, children: vec![run] });
        self.runs[run].parent = Some(head);
        let siblings = match parent {
            Some(parent) => &mut self.runs[parent].children,
            None => &mut self.roots,
        };
        for sibling in siblings.iter_mut().filter(|sibling| **sibling == run) {
            *sibling = head;
        }
        head
    }

    fn add(&mut self, parent: Option<usize>, tokens: Vec<u32>) -> usize {
        let run = self.runs.len();
        self.runs.push(Run { parent, tokens, children: Vec::new() });
        match parent {
            Some(parent) => self.runs[parent].children.push(run),
            None => self.roots.push(run),
        }
        run
    }

    /// The nodes depth first, and of every sequence its chain from the root: (node, position of its first token).
    pub(super) fn into_nodes(mut self) -> (Vec<BatchNode>, Vec<Vec<(usize, usize)>>) {
        let mut nodes = Vec::with_capacity(self.runs.len());
        let mut placed = vec![0; self.runs.len()];
        let mut stack: Vec<usize> = self.roots.iter().rev().copied().collect();
        while let Some(run) = stack.pop() {
            placed[run] = nodes.len();
            let parent = self.runs[run].parent.map(|parent| placed[parent]);
            nodes.push(BatchNode { parent, tokens: std::mem::take(&mut self.runs[run].tokens) });
            stack.extend(self.runs[run].children.iter().rev());
        }
        let chain = |end: &usize| {
            let mut chain = vec![placed[*end]];
            while let Some(parent) = chain.last().and_then(|node: &usize| nodes[*node].parent) {
                chain.push(parent);
            }
            let mut end = 0;
            let placed = chain.iter().rev().map(|&node| {
                let first = end;
                end += nodes[node].tokens.len();
                (node, first)
            });
            placed.collect()
        };
        let chains = self.ends.iter().map(chain).collect();
        (nodes, chains)
    }
}
