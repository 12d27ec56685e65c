//! Prefix cache under random use: reference counts never leak, and lookups return what was stored.

use proptest::prelude::*;

use super::*;
use crate::config::Heads;
use crate::cpu::{PageShape, Pages};

const SHAPE: PageShape = PageShape { layers: 1, heads: Heads { queries: 1, keys: 1, dim: 4 } };

/// One request as the scheduler drives it.
#[derive(Debug, Default)]
struct Request {
    tokens: Vec<u32>,
    path: Vec<NodeId>,
    computed: usize,
}

#[derive(Debug, Clone)]
enum Action {
    /// Start a request whose tokens come from a small alphabet of runs.
    Start(Vec<u8>),
    /// Compute some tokens of a request and, when all are there, sample one more.
    Advance(usize, usize),
    Finish(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        prop::collection::vec(0u8..3, 1..12).prop_map(Action::Start),
        (any::<usize>(), 1usize..70).prop_map(|(at, n)| Action::Advance(at, n)),
        any::<usize>().prop_map(Action::Finish),
    ]
}

/// A number that depends on the whole prefix, standing for its keys and values.
fn fingerprint(prefix: &[u32]) -> f32 {
    prefix.iter().fold(7u32, |hash, t| hash.wrapping_mul(31).wrapping_add(*t + 1)) as f32
}

impl Request {
    fn start(cache: &mut Cache<Pages>, tokens: Vec<u32>) -> Option<Self> {
        let found = cache.find(&tokens[..tokens.len() - 1]);
        if found.pending.is_some() {
            return None;
        }
        cache.hold(&found.nodes);
        let mut request = Self { computed: found.nodes.len() * PAGE, path: found.nodes, tokens };
        let mut part = found.part;
        while request.path.len() * PAGE < request.tokens.len() {
            let from = request.path.len() * PAGE;
            let tokens = &request.tokens[from..request.tokens.len().min(from + PAGE)];
            let parent = request.path.last().copied();
            let page = match part.take() {
                Some((source, len)) => cache.attach_copy(parent, tokens, source, len),
                None => cache.attach(parent, tokens).map(|page| (page, 0)),
            };
            let Some((page, reused)) = page else {
                cache.release(&request.path);
                return None;
            };
            request.path.push(page);
            request.computed += reused;
        }
        request.check(cache);
        Some(request)
    }

    /// Every computed position holds the value of its prefix.
    fn check(&self, cache: &Cache<Pages>) {
        for position in 0..self.computed {
            // SAFETY: one thread.
            #[expect(unsafe_code, reason = "pages are read through their contract")]
            let (keys, _) = unsafe { cache.pages.read(self.path[position / PAGE], 0, 0) };
            assert_eq!(keys[position % PAGE], fingerprint(&self.tokens[..=position]), "position {position}");
        }
    }

    fn advance(&mut self, cache: &mut Cache<Pages>, count: usize) {
        let end = self.tokens.len().min(self.computed + count);
        for position in self.computed..end {
            // SAFETY: one thread.
            #[expect(unsafe_code, reason = "pages are written through their contract")]
            let (keys, _) = unsafe { cache.pages.write(self.path[position / PAGE], 0, 0) };
            keys[position % PAGE] = fingerprint(&self.tokens[..=position]);
        }
        let first = self.computed / PAGE;
        self.computed = end;
        cache.computed(&self.path, first, end);
        if end < self.tokens.len() {
            return;
        }
        let token = (count % 3) as u32;
        let tip = self.path.last().copied();
        match tip {
            Some(tip) if !end.is_multiple_of(PAGE) => cache.push(tip, token),
            _ => match cache.attach(tip, &[token]) {
                Some(page) => self.path.push(page),
                None => return,
            },
        }
        self.tokens.push(token);
    }
}

/// The laws of the tree.
fn check(cache: &Cache<Pages>, requests: &[Request]) {
    let mut holders = vec![0; cache.nodes.len()];
    requests.iter().flat_map(|r| &r.path).for_each(|node| holders[*node] += 1);
    let mut reached = vec![false; cache.nodes.len()];
    let mut stack: Vec<NodeId> = cache.roots.clone();
    while let Some(id) = stack.pop() {
        assert!(!std::mem::replace(&mut reached[id], true), "node {id} is in the tree twice");
        let node = &cache.nodes[id];
        for &child in &node.children {
            assert_eq!(cache.nodes[child].parent, Some(id));
            assert!(node.holders >= cache.nodes[child].holders, "a child is held and its parent is not");
            assert_eq!(node.tokens.len(), PAGE, "a page that is not full has children");
        }
        assert_eq!(node.holders, holders[id], "holders of node {id}");
        assert!(node.holders > 0 || node.computed == node.tokens.len(), "an unheld node is not computed");
        let idle = node.holders == 0 && node.children.is_empty();
        assert_eq!(cache.idle.contains(&(node.used, id)), idle, "node {id}");
        stack.extend(&node.children);
    }
    let live = reached.iter().filter(|r| **r).count();
    assert_eq!(cache.live(), live, "a page was lost");
    assert!(cache.free.iter().all(|id| !reached[*id]));
    assert_eq!(cache.held(), holders.iter().filter(|n| **n > 0).count());
    assert!(cache.nodes.len() <= cache.limit());
    assert_eq!(cache.idle.len(), cache.idle.iter().filter(|(_, id)| reached[*id]).count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn counts_never_leak(actions in prop::collection::vec(action(), 1..80), limit in 1usize..40) {
        let mut cache = Cache::new(Pages::new(SHAPE), limit);
        let mut requests: Vec<Request> = Vec::new();
        for action in actions {
            match action {
                Action::Start(runs) => {
                    // Runs of 11 equal tokens: common prefixes that end inside pages and at their ends.
                    let tokens = runs.iter().flat_map(|t| [u32::from(*t); 11]).collect();
                    requests.extend(Request::start(&mut cache, tokens));
                }
                Action::Advance(at, count) if !requests.is_empty() => {
                    let at = at % requests.len();
                    requests[at].advance(&mut cache, count);
                    requests[at].check(&cache);
                }
                Action::Finish(at) if !requests.is_empty() => {
                    let request = requests.swap_remove(at % requests.len());
                    cache.release(&request.path);
                }
                _ => {}
            }
            check(&cache, &requests);
        }
        requests.drain(..).for_each(|r| cache.release(&r.path));
        check(&cache, &[]);
        prop_assert_eq!(cache.room(), limit);
        cache.clear();
        prop_assert_eq!(cache.live(), 0);
    }
}

#[test]
fn the_least_recently_used_leaf_goes_first() {
    let mut cache = Cache::new(Pages::new(SHAPE), 3);
    let sequence = |token: u32| vec![token; PAGE];
    for token in 0..3 {
        let id = cache.attach(None, &sequence(token)).unwrap();
        cache.computed(&[id], 0, PAGE);
        cache.release(&[id]);
    }
    // Used again: 0 is now younger than 1.
    let found = cache.find(&sequence(0));
    cache.hold(&found.nodes);
    cache.release(&found.nodes);
    assert!(cache.attach(None, &sequence(9)).is_some());
    assert!(cache.find(&sequence(1)).nodes.is_empty());
    assert_eq!(cache.find(&sequence(0)).nodes.len(), 1);
    assert_eq!(cache.evicted(), 1);
}

#[test]
fn who_shares_a_prefix_that_is_being_computed_waits_for_it() {
    let mut cache = Cache::new(Pages::new(SHAPE), 8);
    let tokens: Vec<u32> = (0..40).collect();
    let first = Request::start(&mut cache, tokens.clone()).unwrap();
    let pending = cache.find(&tokens[..39]).pending.unwrap();
    assert_eq!(pending.1, 7);
    cache.computed(&first.path, 0, 38);
    assert!(!cache.is_computed(pending));
    cache.computed(&first.path, 0, 39);
    assert!(cache.is_computed(pending));
    // Given up before it was computed: nothing is left to wait for.
    let before = cache.given_up();
    cache.release(&first.path);
    assert!(cache.given_up() > before);
    assert_eq!(cache.find(&tokens).pending, None);
}
