//! Sessions: limits, owners and lifetimes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fresh_id;
use super::play::Play;

/// One environment of one client.
pub(super) struct Session {
    pub(super) id: String,
    client: IpAddr,
    pub(super) play: tokio::sync::Mutex<Play>,
    attached: AtomicBool,
    closing: AtomicBool,
    used: Mutex<Instant>,
}

impl Session {
    /// Takes the only place of a connection. `false` if it is taken.
    pub(super) fn attach(&self) -> bool {
        !self.attached.swap(true, Ordering::SeqCst)
    }

    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Duration {
        if self.attached.load(Ordering::SeqCst) {
            return Duration::ZERO;
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Refusal of a session: all are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    active: usize,
    most: usize,
}

impl Full {
    pub(super) fn message(self) -> String {
        format!("Server at capacity: {}/{} sessions active. Cannot accept new connections.", self.active, self.most)
    }

    pub(super) fn details(self) -> Value {
        json!({"active_sessions": self.active, "max_sessions": self.most})
    }
}

pub(super) struct Sessions {
    most: usize,
    per_client: usize,
    idle: Duration,
    // Std mutex: held for look-ups. A session's own lock is never taken under it.
    all: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(most: usize, per_client: usize, idle: Duration) -> Self {
        Self { most, per_client, idle, all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session of a client, if there is room.
    pub(super) fn create(&self, client: IpAddr) -> Result<Arc<Session>, Full> {
        let mut all = self.all();
        if all.len() >= self.most {
            all.retain(|_, session| session.idle() < self.idle);
        }
        let own = all.values().filter(|session| session.client == client).count();
        for (active, most) in [(all.len(), self.most), (own, self.per_client)] {
            if active >= most {
                return Err(Full { active, most });
            }
        }
        let session = Arc::new(Session {
            id: fresh_id(),
            client,
            play: tokio::sync::Mutex::new(Play::new()),
            attached: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        });
        all.insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        let mut all = self.all();
        let session = Arc::clone(all.get(id)?);
        if session.idle() >= self.idle {
            all.remove(id);
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session, now or when its connection closes. `None` if there is no such session; otherwise whether it is
    /// over.
    pub(super) fn close(&self, id: &str) -> Option<bool> {
        let mut all = self.all();
        let session = all.get(id)?;
        if session.attached.load(Ordering::SeqCst) {
            session.closing.store(true, Ordering::SeqCst);
            return Some(false);
        }
        all.remove(id);
        Some(true)
    }

    /// Handles a closed connection. Its session ends too if it was created for it, or was closed in the meantime.
    pub(super) fn detach(&self, session: &Session, own: bool) {
        session.attached.store(false, Ordering::SeqCst);
        session.touch();
        if own || session.closing.load(Ordering::SeqCst) {
            self.all().remove(&session.id);
        }
    }
}
