//! Room in the sampler's cache: as many conversations are under way as it has keys and values for.
//!
//! A sampler computes only the new tokens of a turn as long as it still has the keys and values of the earlier ones. If the
//! conversations under way outgrow its cache, each evicts what another needs next, and every turn computes its whole conversation
//! again. So a conversation waits before a turn until it fits beside the older ones; the oldest never waits. Episodes do not depend
//! on it, only their order in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hone_trace::Digest;
use tokio::sync::Notify;

/// Share of the cache that conversations may fill before a turn: replies under way grow.
const FILLED: f64 = 0.9;

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Number of tokens that fit; `None` if the sampler does not say.
    limit: Option<u64>,
    state: Mutex<State>,
    /// Told when a conversation ends.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Conversations under way, oldest first.
    active: BTreeMap<u64, Share>,
    /// Number of conversations so far.
    begun: u64,
    /// The first prompt in each environment: others begin with the same instructions and tools.
    prompts: BTreeMap<String, Vec<u32>>,
    /// Number of conversations that ended, and the tokens they had after their prompts.
    ended: [u64; 2],
}

/// Tokens of a conversation.
#[derive(Debug)]
struct Share {
    env: Digest,
    /// Number of tokens that it shares with the other conversations in its environment.
    shared: u64,
    task: Digest,
    /// Number of further tokens of the prompt, which episodes of the task share.
    prompt: u64,
    /// Number of tokens after the prompt.
    own: u64,
}

impl Share {
    fn tokens(&self) -> u64 {
        self.shared + self.prompt + self.own
    }
}

impl Room {
    /// Room in a cache of this many tokens.
    pub(super) fn new(capacity: Option<u64>) -> Arc<Self> {
        Arc::new(Self { limit: capacity.map(|tokens| (tokens as f64 * FILLED) as u64), ..Self::default() })
    }

    /// Place of a new conversation, the youngest.
    pub(super) fn seat(self: &Arc<Self>, env: &str, task: &str, prompt: &[u32]) -> Seat {
        let mut state = self.lock();
        let first = state.prompts.entry(env.to_owned()).or_insert_with(|| prompt.to_vec());
        let shared = first.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let [env, task] = [env, task].map(|name| Digest::of(name.as_bytes()));
        let share = Share { env, shared: shared as u64, task, prompt: (prompt.len() - shared) as u64, own: 0 };
        let number = state.begun;
        state.begun += 1;
        state.active.insert(number, share);
        drop(state);
        Seat { room: Arc::clone(self), number, started: false }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// True if a conversation fits beside the older ones. One that has not begun must do so at the length that conversations end
    /// with: what has begun should not have to wait.
    fn fits(&self, number: u64, started: bool, limit: u64) -> bool {
        let [ended, tokens] = self.ended;
        let expected = if started { 0 } else { tokens / ended.max(1) };
        // Mostly all fit, even with what they share counted for each.
        if self.active.values().map(|share| share.tokens() + expected).sum::<u64>() <= limit {
            return true;
        }
        let (mut shared, mut prompts) = (BTreeMap::<_, u64>::new(), BTreeSet::new());
        let own = |share: &Share| {
            let most = shared.entry(share.env).or_default();
            *most = share.shared.max(*most);
            let prompt = if prompts.insert((share.env, share.task)) { share.prompt } else { 0 };
            prompt + share.own.max(expected)
        };
        let own: u64 = self.active.range(..=number).map(|(_, share)| share).map(own).sum();
        let alone = self.active.range(..number).next().is_none();
        alone || own + shared.values().sum::<u64>() <= limit
    }
}

/// A conversation's place, given up when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    started: bool,
}

impl Seat {
    /// Waits until a turn of the conversation, now of this many tokens, fits. Returns how long it had to wait.
    pub(super) async fn turn(&mut self, tokens: usize) -> Option<Duration> {
        let limit = self.room.limit?;
        self.grow(tokens as u64);
        let mut since = None;
        loop {
            let freed = self.room.freed.notified();
            tokio::pin!(freed);
            // From here on, so that no end is missed between the look and the wait.
            freed.as_mut().enable();
            if self.room.lock().fits(self.number, self.started, limit) {
                self.started = true;
                return since.map(|since: Instant| since.elapsed());
            }
            since.get_or_insert_with(Instant::now);
            freed.await;
        }
    }

    fn grow(&self, tokens: u64) {
        let mut state = self.room.lock();
        let Some(share) = state.active.get_mut(&self.number) else { return };
        share.own = tokens.saturating_sub(share.shared + share.prompt);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        if let Some(share) = state.active.remove(&self.number) {
            let [ended, tokens] = state.ended;
            state.ended = [ended + 1, tokens + share.own];
        }
        drop(state);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A prompt that shares nothing with those of other numbers, or their first tokens.
    fn prompt(number: u32, shared: usize, len: usize) -> Vec<u32> {
        (0..len).map(|at| if at < shared { 0 } else { number + 1 }).collect()
    }

    fn seats(room: &Arc<Room>, count: u32, shared: usize, len: usize) -> Vec<Seat> {
        (0..count).map(|n| room.seat("shop", &n.to_string(), &prompt(n, shared, len))).collect()
    }

    /// True if the turn does not wait.
    async fn goes(seat: &mut Seat, tokens: usize) -> bool {
        tokio::time::timeout(Duration::ZERO, seat.turn(tokens)).await.is_ok()
    }

    #[tokio::test]
    async fn conversations_that_do_not_fit_beside_older_ones_wait_until_one_ends() {
        let room = Room::new(Some(1000));
        let mut seats = seats(&room, 4, 0, 300);
        for (n, fits) in [(3, false), (2, true), (1, true), (0, true)] {
            assert_eq!(goes(&mut seats[n], 300).await, fits, "{n}");
        }
        assert!(goes(&mut seats[0], 450).await, "the oldest grows");
        assert!(!goes(&mut seats[2], 300).await, "and the youngest waits between two turns");
        assert!(goes(&mut seats[1], 450).await);
        drop(seats.remove(0));
        assert!(goes(&mut seats[1], 320).await, "there is room again");
        assert!(goes(&mut seats[0], 5000).await, "the oldest never waits, whatever its length");
    }

    #[tokio::test]
    async fn what_conversations_share_counts_once_and_no_limit_is_no_wait() {
        let room = Room::new(Some(1000));
        let mut group: Vec<Seat> = (0..8).map(|_| room.seat("shop", "one", &prompt(1, 0, 400))).collect();
        for seat in &mut group {
            assert!(goes(seat, 450).await, "the prompt of a group");
        }
        drop(group);
        let room = Room::new(Some(1000));
        let mut tasks = seats(&room, 6, 300, 350);
        for seat in &mut tasks {
            assert!(goes(seat, 400).await, "the instructions of an environment");
        }
        let mut last = room.seat("desk", "one", &prompt(9, 0, 300));
        assert!(!goes(&mut last, 300).await, "another environment has its own");
        let unlimited = Room::new(None);
        assert!(goes(&mut seats(&unlimited, 100, 0, 400)[99], 1 << 40).await);
    }

    #[tokio::test]
    async fn an_episode_begins_where_it_fits_at_the_length_of_those_that_ended() {
        let room = Room::new(Some(1000));
        let mut first = room.seat("shop", "first", &prompt(9, 0, 100));
        assert!(goes(&mut first, 600).await);
        drop(first);
        let mut seats = seats(&room, 2, 0, 100);
        assert!(goes(&mut seats[0], 100).await);
        assert!(!goes(&mut seats[1], 100).await, "two of 600 tokens would not fit");
        drop(seats.remove(0));
        assert!(goes(&mut seats[0], 100).await);
    }
}
