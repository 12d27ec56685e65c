//! Prefix cache (radix tree): pages of the KV cache keyed by token ids and reference-counted.
//!
//! A node is one page: the next [`PAGE`] tokens (fewer at the tip) after its parent's. A request holds the path from a
//! root to its last token, and only that request writes the pages it added; full and computed pages are shared by all
//! requests with the same preceding tokens, and the computed part of a page that continues differently is copied (copy
//! on write). Nodes are in the tree from the moment a request plans them, so that a second request with the same prompt
//! sees that its prefix is being computed and waits. Pages that no request holds stay until they are needed, evicted
//! least recently used first.
//!
//! Laws: whoever holds a node holds its ancestors; an unheld node is computed as far as it has tokens.

use std::collections::BTreeSet;

use crate::backend::PageStore;
use crate::generate::step::{PAGE, PageId};

/// Index of a node, and of its page.
pub(super) type NodeId = PageId;

#[derive(Debug, Clone, Default)]
struct Node {
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    tokens: Vec<u32>,
    /// Tokens whose keys and values are computed.
    computed: usize,
    holders: u32,
    used: u64,
}

/// Cached prefix of a token sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// Whole pages, root first.
    pub(super) nodes: Vec<NodeId>,
    /// A page that continues with the next few tokens, and their number.
    pub(super) part: Option<(NodeId, usize)>,
    /// A node on this path, and the length it must be computed to before the path can be used.
    pub(super) pending: Option<(NodeId, usize)>,
}

#[derive(Debug)]
pub(super) struct Cache<P> {
    pub(super) pages: P,
    limit: usize,
    nodes: Vec<Node>,
    roots: Vec<NodeId>,
    free: Vec<NodeId>,
    /// Leaves that no request holds, least recently used first.
    idle: BTreeSet<(u64, NodeId)>,
    held: usize,
    clock: u64,
    /// Number of times that planned tokens were abandoned: requests waiting for them must look again.
    given_up: u64,
    evicted: u64,
}

impl<P: PageStore> Cache<P> {
    /// A cache of at most `limit` pages.
    pub(super) fn new(pages: P, limit: usize) -> Self {
        Self {
            pages,
            limit,
            nodes: Vec::new(),
            roots: Vec::new(),
            free: Vec::new(),
            idle: BTreeSet::new(),
            held: 0,
            clock: 0,
            given_up: 0,
            evicted: 0,
        }
    }

    /// Number of available pages, by eviction if necessary.
    pub(super) fn room(&self) -> usize {
        self.limit - self.held
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Number of pages that requests hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Number of pages in the tree, held or not.
    pub(super) fn live(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// `true` once a node is computed as far as [`Found::pending`] asked. Valid only while [`Cache::given_up`] is
    /// unchanged.
    pub(super) fn is_computed(&self, (node, len): (NodeId, usize)) -> bool {
        self.nodes[node].computed >= len
    }

    /// The longest path of the tree along `tokens`.
    pub(super) fn find(&self, tokens: &[u32]) -> Found {
        let mut found = Found::default();
        let (mut children, mut rest) = (&self.roots, tokens);
        loop {
            let common = |node: &NodeId| self.nodes[*node].tokens.iter().zip(rest).take_while(|(a, b)| a == b).count();
            // The first of equals: an older page is likelier to be computed.
            let best = children.iter().map(|n| (common(n), *n)).fold((0, 0), |a, b| if b.0 > a.0 { b } else { a });
            let (len, node) = best;
            if len > self.nodes.get(node).map_or(0, |n| n.computed) {
                found.pending = Some((node, len));
            }
            match len {
                0 => return found,
                PAGE => found.nodes.push(node),
                _ => {
                    found.part = Some((node, len));
                    return found;
                }
            }
            (children, rest) = (&self.nodes[node].children, &rest[PAGE..]);
        }
    }

    /// Acquires nodes that [`Cache::find`] found: a path from a root.
    pub(super) fn hold(&mut self, path: &[NodeId]) {
        for &id in path {
            self.hold_one(id);
        }
    }

    fn hold_one(&mut self, id: NodeId) {
        let node = &mut self.nodes[id];
        if node.holders == 0 {
            self.held += 1;
            self.idle.remove(&(node.used, id));
        }
        node.holders += 1;
    }

    /// Adds a page for `tokens` below `parent`, which the caller holds, and holds it. `None` when every page is held.
    pub(super) fn attach(&mut self, parent: Option<NodeId>, tokens: &[u32]) -> Option<NodeId> {
        let id = self.take_page()?;
        let node = &mut self.nodes[id];
        node.parent = parent;
        node.tokens.extend_from_slice(tokens);
        node.holders = 1;
        self.held += 1;
        self.children_of(parent).push(id);
        Some(id)
    }

    /// Like [`Cache::attach`], with the first `len` tokens copied from `source`, its future sibling. If the last
    /// available page is the source itself, nothing is copied.
    pub(super) fn attach_copy(
        &mut self,
        parent: Option<NodeId>,
        tokens: &[u32],
        source: NodeId,
        len: usize,
    ) -> Option<(NodeId, usize)> {
        self.hold_one(source);
        let copy = self.attach(parent, tokens);
        if let Some(id) = copy {
            self.pages.copy(source, id, len);
            self.nodes[id].computed = len;
        }
        self.release(&[source]);
        match copy {
            Some(id) => Some((id, len)),
            None => Some((self.attach(parent, tokens)?, 0)),
        }
    }

    /// Adds a token to a page owned by the caller.
    pub(super) fn push(&mut self, id: NodeId, token: u32) {
        self.nodes[id].tokens.push(token);
    }

    /// Marks the positions before `len` of a path as computed, from page `first` on.
    pub(super) fn computed(&mut self, path: &[NodeId], first: usize, len: usize) {
        for (at, &id) in path.iter().enumerate().skip(first) {
            let node = &mut self.nodes[id];
            node.computed = len.saturating_sub(at * PAGE).min(node.tokens.len()).max(node.computed);
        }
    }

    /// Releases a path. Tokens that were planned and not computed leave the tree.
    pub(super) fn release(&mut self, path: &[NodeId]) {
        self.clock += 1;
        for &id in path.iter().rev() {
            let node = &mut self.nodes[id];
            node.holders -= 1;
            if node.holders > 0 {
                continue;
            }
            self.held -= 1;
            node.used = self.clock;
            if node.computed < node.tokens.len() {
                node.tokens.truncate(node.computed);
                self.given_up += 1;
            }
            if node.computed == 0 {
                self.remove(id);
            } else if node.children.is_empty() {
                self.idle.insert((node.used, id));
            }
        }
    }

    /// Clears the cache: the weights have changed. Nobody may hold a page.
    pub(super) fn clear(&mut self) {
        assert_eq!(self.held, 0, "pages are held across a change of weights");
        self.given_up += 1;
        self.idle.clear();
        self.roots.clear();
        self.nodes.fill_with(Node::default);
        self.free = (0..self.nodes.len()).collect();
    }

    /// Allocates a page of zeros that belongs to no node: a new one, a free one, or the least recently used.
    fn take_page(&mut self) -> Option<NodeId> {
        if self.free.is_empty() && self.nodes.len() < self.limit {
            self.pages.grow();
            self.nodes.push(Node::default());
            return Some(self.nodes.len() - 1);
        }
        if self.free.is_empty() {
            let (_, oldest) = self.idle.pop_first()?;
            self.evicted += 1;
            self.remove(oldest);
        }
        let id = self.free.pop()?;
        self.pages.clear(id);
        Some(id)
    }

    /// Removes a leaf that no request holds.
    fn remove(&mut self, id: NodeId) {
        let parent = std::mem::take(&mut self.nodes[id]).parent;
        self.children_of(parent).retain(|child| *child != id);
        self.free.push(id);
        if let Some(above) = parent {
            let node = &self.nodes[above];
            if node.holders == 0 && node.children.is_empty() {
                self.idle.insert((node.used, above));
            }
        }
    }

    fn children_of(&mut self, parent: Option<NodeId>) -> &mut Vec<NodeId> {
        match parent {
            Some(parent) => &mut self.nodes[parent].children,
            None => &mut self.roots,
        }
    }
}

#[cfg(test)]
mod tests;
