//! Background answers: results that take longer than a page may, computed once each and shown when ready.
//!
//! Questions contain parts of the URL, so anybody can ask for many: answers are bounded in number, and so are threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of answers kept; at the limit, all finished ones are dropped.
const KEPT: usize = 64;
/// Maximum number of answers computed at a time; a page repeats a question that was put off.
const AT_ONCE: usize = 4;

/// Answers by question.
#[derive(Debug)]
pub(crate) struct Beside<T>(Arc<Mutex<BTreeMap<String, Answer<T>>>>);

/// State of an answer.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    Waiting,
    Made(Arc<T>),
    Failed(String),
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Waiting => Self::Waiting,
            Self::Made(made) => Self::Made(Arc::clone(made)),
            Self::Failed(why) => Self::Failed(why.clone()),
        }
    }
}

impl<T> Answer<T> {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting)
    }
}

impl<T: Send + Sync + 'static> Beside<T> {
    /// The answer to a question; the first request starts it. A failure is reported once: the next request tries again,
    /// as the records may be complete by then.
    pub(crate) fn get(&self, question: &str, make: impl FnOnce() -> Result<T, String> + Send + 'static) -> Answer<T> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.get(question) {
            Some(Answer::Failed(_)) => return answers.remove(question).unwrap_or(Answer::Waiting),
            Some(answer) => return answer.clone(),
            None => {}
        }
        if answers.values().filter(|answer| answer.is_waiting()).count() >= AT_ONCE {
            return Answer::Waiting;
        }
        if answers.len() >= KEPT {
            answers.retain(|_, answer| answer.is_waiting());
        }
        answers.insert(question.to_owned(), Answer::Waiting);
        let (place, question) = (Arc::clone(&self.0), question.to_owned());
        std::thread::spawn(move || {
            // A panic must not occupy its place among those computed at once for ever.
            let answer = match catch_unwind(AssertUnwindSafe(make)) {
                Ok(Ok(made)) => Answer::Made(Arc::new(made)),
                Ok(Err(why)) => Answer::Failed(why),
                Err(_) => Answer::Failed("it panicked; the terminal says where".to_owned()),
            };
            place.lock().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
        });
        Answer::Waiting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// The answer once it is there.
    fn settled(beside: &Beside<usize>, question: &str, make: fn() -> Result<usize, String>) -> Result<usize, String> {
        loop {
            match beside.get(question, make) {
                Answer::Waiting => std::thread::yield_now(),
                Answer::Made(made) => return Ok(*made),
                Answer::Failed(why) => return Err(why),
            }
        }
    }

    fn kept(beside: &Beside<usize>) -> usize {
        beside.0.lock().unwrap().len()
    }

    #[test]
    fn answers_are_bounded_in_number_and_kept_until_then() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let beside = Beside::default();
        let make = || Ok(MADE.fetch_add(1, Ordering::Relaxed));
        for number in 0..3 * KEPT {
            settled(&beside, &number.to_string(), make).unwrap();
            assert!(kept(&beside) <= KEPT);
        }
        let made = MADE.load(Ordering::Relaxed);
        settled(&beside, &(3 * KEPT - 1).to_string(), make).unwrap();
        assert_eq!((made, MADE.load(Ordering::Relaxed)), (3 * KEPT, made));
    }

    #[test]
    fn few_are_computed_at_once() {
        let beside = Beside::default();
        let started = Arc::new(AtomicUsize::new(0));
        let releases: Vec<_> = (0..3 * AT_ONCE)
            .map(|number| {
                let (release, released) = channel::<()>();
                let started = Arc::clone(&started);
                let answer = beside.get(&number.to_string(), move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    // Until its sender is dropped.
                    let _ = released.recv();
                    Ok(number)
                });
                assert!(matches!(answer, Answer::Waiting));
                release
            })
            .collect();
        assert_eq!(kept(&beside), AT_ONCE);
        drop(releases);
        for number in 0..3 * AT_ONCE {
            settled(&beside, &number.to_string(), || Ok(7)).unwrap();
        }
        assert_eq!(started.load(Ordering::Relaxed), AT_ONCE);
    }

    #[test]
    fn a_failure_is_reported_and_tried_again() {
        let beside = Beside::default();
        assert_eq!(settled(&beside, "a", || Err("not yet".into())), Err("not yet".into()));
        assert_eq!(settled(&beside, "a", || Ok(1)), Ok(1));
        assert!(settled(&beside, "b", || panic!("a test panics")).is_err());
        assert_eq!(settled(&beside, "b", || Ok(2)), Ok(2));
    }
}
