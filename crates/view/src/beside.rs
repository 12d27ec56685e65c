//! Answers that take longer than a page may: made beside, once each, and shown when they are there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers by question.
#[derive(Debug)]
pub struct Beside<T>(Arc<Mutex<BTreeMap<String, Answer<T>>>>);

/// An answer as far as it is known.
#[derive(Debug)]
pub enum Answer<T> {
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

impl<T: Send + Sync + 'static> Beside<T> {
    /// The answer to a question; asked for the first time, it is begun.
    pub fn get(&self, question: &str, make: impl FnOnce() -> Result<T, String> + Send + 'static) -> Answer<T> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(question) {
            return answer.clone();
        }
        answers.insert(question.to_owned(), Answer::Waiting);
        let (place, question) = (Arc::clone(&self.0), question.to_owned());
        std::thread::spawn(move || {
            let answer = match make() {
                Ok(made) => Answer::Made(Arc::new(made)),
                Err(why) => Answer::Failed(why),
            };
            place.lock().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
        });
        Answer::Waiting
    }
}
