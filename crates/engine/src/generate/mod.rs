//! Generation: continuous batching over a paged, shared KV cache.
//!
//! One thread owns the cache and the running batch. Requests join it as pages allow, prompts are computed in pieces
//! beside the decoding of others, and finished requests leave immediately. A prompt that shares a prefix with an
//! earlier one (a system prompt, the history of an episode) is computed only from where it differs.
//!
//! A sampled token and its logprob depend on the prompt, the parameters, the seed and the weights. They do not depend
//! on other requests, on the contents of the cache, on preemption or on the number of threads: every row is computed by
//! the learner's own kernels, which add in the same order whatever rows are beside it (batch invariance).
//!
//! Running requests continue with newly published weights: their keys and values are recomputed, and the record says
//! which version sampled which token.

pub mod bench;
mod cache;
mod job;
mod scheduler;
pub mod step;

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use async_trait::async_trait;
use futures::channel::{mpsc, oneshot};
use hone_trace::{Sample, SampleFault, SampleRequest, Sampler};

use crate::backend::Backend;
use crate::error::{EngineError, Result};
use crate::generate::job::Job;
pub use crate::generate::job::window;
use crate::generate::scheduler::Scheduler;
use crate::generate::step::PAGE;
use crate::policy::Policy;

/// Limits of a generator. None of them changes the sampled tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorSettings {
    /// Bytes of the KV cache. Allocated as needed, kept until the generator ends.
    pub memory_limit: u64,
    /// Maximum number of concurrent requests.
    pub max_running: usize,
    /// Chunked prefill: prompt tokens computed in one step beside the decoding requests. More is faster, fewer delays
    /// other requests less.
    pub prefill_tokens: usize,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self { memory_limit: 4 << 30, max_running: 256, prefill_tokens: 512 }
    }
}

/// Counters of a generator and the pages it holds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GeneratorStats {
    pub running: usize,
    pub waiting: usize,
    /// Number of pages that running requests hold.
    pub pages_held: usize,
    /// Number of pages in use, held or cached for reuse.
    pub pages_live: usize,
    /// Number of pages that the memory limit allows.
    pub pages_limit: usize,
    /// Number of tokens of a page.
    pub page_tokens: usize,
    /// Number of prefilled tokens: those of prompts and of preempted requests.
    pub prefilled_tokens: u64,
    /// Number of prefix cache hits, in tokens.
    pub reused_tokens: u64,
    pub sampled_tokens: u64,
    pub preemptions: u64,
    pub evictions: u64,
    pub steps: u64,
    /// Number of tokens sampled in steps that only decoded, and the duration of these steps in seconds.
    pub decode_only_tokens: u64,
    pub decode_only_seconds: f64,
}

/// Token streamed as it is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamedToken {
    pub token: u32,
    /// Logprob under softmax(logits / temperature).
    pub logprob: f32,
}

/// Generator: samples replies of one policy. Cheap to clone; the thread behind it ends with the last clone.
#[derive(Debug, Clone)]
pub struct Generator {
    requests: Sender<Message>,
    /// Number of tokens that the KV cache has room for.
    capacity: u64,
}

/// Messages from the handle to the thread.
#[derive(Debug)]
enum Message {
    Job(Box<Job>),
    Stats(oneshot::Sender<GeneratorStats>),
}

impl Generator {
    /// Starts the thread.
    pub fn new<B: Backend>(policy: Arc<Policy<B>>, settings: GeneratorSettings) -> Result<Self> {
        let (requests, inbox): (_, Receiver<Message>) = std::sync::mpsc::channel();
        let scheduler = Scheduler::new(policy, settings, inbox);
        let capacity = scheduler.capacity();
        std::thread::Builder::new()
            .name("generate".into())
            .spawn(move || scheduler.run())
            .map_err(|e| EngineError::Threads { threads: 1, what: e.to_string() })?;
        Ok(Self { requests, capacity })
    }

    /// Sends a request immediately; the future is its result. Dropping the future cancels the request and frees its
    /// pages.
    pub fn submit(
        &self,
        request: SampleRequest,
    ) -> impl Future<Output = std::result::Result<Sample, SampleFault>> + Send + use<> {
        self.send(request, None)
    }

    /// Like [`Generator::submit`], streaming every token as it is sampled.
    pub fn stream(
        &self,
        request: SampleRequest,
    ) -> (
        mpsc::UnboundedReceiver<StreamedToken>,
        impl Future<Output = std::result::Result<Sample, SampleFault>> + Send + use<>,
    ) {
        let (tokens, stream) = mpsc::unbounded();
        (stream, self.send(request, Some(tokens)))
    }

    pub async fn stats(&self) -> std::result::Result<GeneratorStats, SampleFault> {
        let (reply, stats) = oneshot::channel();
        let sent = self.requests.send(Message::Stats(reply));
        match sent {
            Ok(()) => stats.await.map_err(|_| ended()),
            Err(_) => Err(ended()),
        }
    }

    fn send(
        &self,
        request: SampleRequest,
        stream: Option<mpsc::UnboundedSender<StreamedToken>>,
    ) -> impl Future<Output = std::result::Result<Sample, SampleFault>> + Send + use<> {
        let (reply, result) = oneshot::channel();
        let sent = self.requests.send(Message::Job(Box::new(Job::new(request, reply, stream))));
        async move {
            match sent {
                Ok(()) => result.await.unwrap_or_else(|_| Err(ended())),
                Err(_) => Err(ended()),
            }
        }
    }
}

fn ended() -> SampleFault {
    SampleFault::Failed { what: "the generator's thread has ended; its panic is on stderr".into(), transient: false }
}

#[async_trait]
impl Sampler for Generator {
    async fn sample(&self, request: SampleRequest) -> std::result::Result<Sample, SampleFault> {
        self.submit(request).await
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.capacity)
    }
}

/// Number of pages that `tokens` tokens fill.
pub(crate) fn pages_of(tokens: usize) -> usize {
    tokens.div_ceil(PAGE)
}
