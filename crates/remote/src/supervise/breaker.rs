//! Circuit breaker: after repeated failures a server is left alone for a while, then probed by one caller.

use std::time::Duration;

use tokio::time::Instant;

/// Consecutive failures that open it.
const THRESHOLD: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Circuit breaker of one server; closed while `until` is absent.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    pause: Duration,
    until: Option<Instant>,
}

impl Breaker {
    /// Admits a call now, or returns when to ask again. After a pause one call goes through as a probe: the others wait
    /// another pause, which its success cuts short for later callers.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Instant> {
        match self.until {
            None => Ok(()),
            Some(until) if now < until => Err(until),
            Some(_) => {
                self.until = Some(now + self.pause);
                Ok(())
            }
        }
    }

    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures += 1;
        if self.failures >= THRESHOLD {
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            self.until = Some(now + self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_is_probed_by_one_caller_at_a_time() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..THRESHOLD {
            assert!(breaker.admit(start).is_ok());
            breaker.failed(start);
        }
        assert_eq!(breaker.admit(start), Err(start + FIRST_PAUSE));
        let later = start + FIRST_PAUSE;
        assert!(breaker.admit(later).is_ok());
        assert!(breaker.admit(later).is_err(), "one probe at a time");
        breaker.failed(later);
        assert_eq!(breaker.admit(later), Err(later + FIRST_PAUSE * 2), "a failed probe doubles the pause");
        breaker.answered();
        assert!(breaker.admit(later).is_ok());
    }
}
