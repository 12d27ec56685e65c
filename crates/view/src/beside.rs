//! Background answers: results that take longer than a page may, computed once each and shown when ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers by question.
#[derive(Debug)]
pub struct Beside<T>(Arc<Mutex<BTreeMap<String, Answer<T>>>>);

/// State of an answer.
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
    /// The answer to a question; the first request starts it.
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
