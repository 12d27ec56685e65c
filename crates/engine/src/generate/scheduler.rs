//! Continuous batching: admission, chunked prefill beside decoding, preemption, new weights.
//!
//! The oldest request always makes progress; when pages run out, the youngest is preempted and recomputed later, with
//! bit-identical results.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use hone_trace::{PolicyVersion, SampleFault};

use crate::backend::{Backend, Need};
use crate::generate::cache::Cache;
use crate::generate::job::{Job, JobDraw, Wait};
use crate::generate::step::{PAGE, Step};
use crate::generate::{GeneratorSettings, GeneratorStats, Message, pages_of};
use crate::policy::{Policy, Snapshot};

#[derive(Debug)]
pub(super) struct Scheduler<B: Backend> {
    policy: Arc<Policy<B>>,
    settings: GeneratorSettings,
    inbox: Receiver<Message>,
    cache: Cache<B::Pages>,
    page_bytes: u64,
    /// The version the cache belongs to.
    version: PolicyVersion,
    /// Snapshot in use while there is work, and the number of publishes before it was fetched.
    held: Option<(u64, Snapshot<B>)>,
    /// Requests in order of arrival.
    waiting: VecDeque<Job>,
    running: Vec<Job>,
    decoder: B::Decoder,
    step: Step,
    parts: Vec<Part>,
    arrivals: u64,
    stats: GeneratorStats,
}

/// Rows of one job in a step: its tokens from `computed` on.
#[derive(Debug, Clone, Copy)]
struct Part {
    job: usize,
    len: usize,
    /// True if a token is sampled after the last row.
    samples: bool,
}

/// Outcome of an attempt to start a job.
enum Admission {
    Started,
    /// Another request computes this one's prefix, or there is no room: try again later.
    Later,
    NoRoom,
    Impossible(SampleFault),
}

impl<B: Backend> Scheduler<B> {
    pub(super) fn new(policy: Arc<Policy<B>>, settings: GeneratorSettings, inbox: Receiver<Message>) -> Self {
        let snapshot = policy.current();
        let model = &snapshot.model;
        let page_bytes = model.device.bytes(&model.config, Need::Page);
        let limit = usize::try_from(settings.memory_limit / page_bytes).unwrap_or(usize::MAX);
        let cache = Cache::new(model.device.pages(&model.config), limit);
        Self {
            version: snapshot.version,
            held: None,
            policy,
            settings,
            inbox,
            cache,
            page_bytes,
            waiting: VecDeque::new(),
            running: Vec::new(),
            decoder: B::Decoder::default(),
            step: Step::default(),
            parts: Vec::new(),
            arrivals: 0,
            stats: GeneratorStats::default(),
        }
    }

    /// Number of tokens that the cache has room for.
    pub(super) fn capacity(&self) -> u64 {
        self.cache.limit() as u64 * PAGE as u64
    }

    /// Worker loop: runs until the last handle is dropped.
    pub(super) fn run(mut self) {
        while self.receive() {
            self.drop_cancelled();
            if self.waiting.is_empty() && self.running.is_empty() {
                self.held = None;
                continue;
            }
            let (published, snapshot) = self.newest();
            self.follow(&snapshot.version);
            self.admit(&snapshot);
            self.step(&snapshot);
            // Released before the last answer: a learner that finds no active sampler changes the weights in place.
            let continues = !self.waiting.is_empty() || self.running.iter().any(|job| job.end.is_none());
            self.held = continues.then_some((published, snapshot));
            self.answer_finished();
        }
    }

    /// The held snapshot, unless a newer one was published.
    fn newest(&mut self) -> (u64, Snapshot<B>) {
        let published = self.policy.published();
        let held = self.held.take().filter(|(before, _)| *before == published);
        held.unwrap_or_else(|| (published, self.policy.current()))
    }

    /// Receives pending requests; blocks if there is nothing else to do. `false` once all senders are gone.
    fn receive(&mut self) -> bool {
        if self.waiting.is_empty() && self.running.is_empty() {
            match self.inbox.recv() {
                Ok(message) => self.take(message),
                Err(_) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty) => return true,
                // Futures may outlive the handles: the requests they wait for are finished first.
                Err(TryRecvError::Disconnected) => return !(self.waiting.is_empty() && self.running.is_empty()),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Job(mut job) => {
                job.arrival = self.arrivals;
                self.arrivals += 1;
                self.waiting.push_back(*job);
            }
            Message::Stats(reply) => {
                self.drop_cancelled();
                // The asker may have gone.
                let _ = reply.send(self.stats());
            }
        }
    }

    fn stats(&self) -> GeneratorStats {
        GeneratorStats {
            running: self.running.len(),
            waiting: self.waiting.len(),
            pages_held: self.cache.held(),
            pages_live: self.cache.live(),
            pages_limit: self.cache.limit(),
            page_tokens: PAGE,
            evictions: self.cache.evicted(),
            ..self.stats
        }
    }

    fn drop_cancelled(&mut self) {
        self.waiting.retain(|job| !job.is_cancelled());
        for at in (0..self.running.len()).rev() {
            if self.running[at].is_cancelled() {
                let job = self.running.remove(at);
                self.cache.release(&job.path);
            }
        }
    }

    /// Switches to new weights: everything computed with the old ones is discarded.
    fn follow(&mut self, version: &PolicyVersion) {
        if self.version == *version {
            return;
        }
        while !self.running.is_empty() {
            self.preempt(self.running.len() - 1);
        }
        self.cache.clear();
        self.version = version.clone();
    }

    /// Preemption: sends a running job back to the queue, with the tokens it has.
    fn preempt(&mut self, at: usize) {
        let mut job = self.running.remove(at);
        self.cache.release(&job.path);
        job.path.clear();
        (job.computed, job.wait) = (0, None);
        let place = self.waiting.partition_point(|other| other.arrival < job.arrival);
        self.waiting.insert(place, job);
    }

    /// Admission: starts waiting jobs, oldest first.
    fn admit(&mut self, snapshot: &Snapshot<B>) {
        let mut at = 0;
        while at < self.waiting.len() && self.running.len() < self.settings.max_running {
            let Some(mut job) = self.waiting.remove(at) else { return };
            match self.start(&mut job, snapshot) {
                Admission::Started => {
                    let place = self.running.partition_point(|other| other.arrival < job.arrival);
                    self.running.insert(place, job);
                }
                Admission::Impossible(fault) => {
                    job.end = Some(Err(fault));
                    job.answer();
                }
                Admission::Later => {
                    self.waiting.insert(at, job);
                    at += 1;
                }
                Admission::NoRoom => {
                    // Younger jobs do not overtake one that only lacks room: it would otherwise starve.
                    self.waiting.insert(at, job);
                    return;
                }
            }
        }
    }

    /// Finds the job's prefix in the tree and plans pages for the rest of its tokens.
    fn start(&mut self, job: &mut Job, snapshot: &Snapshot<B>) -> Admission {
        if let Err(fault) = job.check(&snapshot.model.config) {
            return Admission::Impossible(fault);
        }
        let total = pages_of(job.tokens.len());
        if total > self.cache.limit() {
            return Admission::Impossible(self.too_small(job));
        }
        let given_up = self.cache.given_up();
        if job.wait.is_some_and(|w| w.given_up == given_up && !self.cache.is_computed(w.on)) {
            return Admission::Later;
        }
        // The last token is always computed: the next token is sampled from its row.
        let found = self.cache.find(&job.tokens[..job.tokens.len() - 1]);
        job.wait = found.pending.map(|on| Wait { on, given_up });
        if job.wait.is_some() {
            return Admission::Later;
        }
        self.cache.hold(&found.nodes);
        // Every running job may need a page soon.
        if total - found.nodes.len() + self.running.len() > self.cache.room() {
            self.cache.release(&found.nodes);
            return Admission::NoRoom;
        }
        job.computed = found.nodes.len() * PAGE;
        job.path = found.nodes;
        let mut part = found.part;
        for at in job.path.len()..total {
            let tokens = &job.tokens[at * PAGE..job.tokens.len().min((at + 1) * PAGE)];
            let parent = job.path.last().copied();
            let page = match part.take() {
                Some((source, len)) => self.cache.attach_copy(parent, tokens, source, len),
                None => self.cache.attach(parent, tokens).map(|page| (page, 0)),
            };
            let Some((page, reused)) = page else {
                // There was room for all of them above; release if that was wrong.
                self.cache.release(&job.path);
                job.path.clear();
                return Admission::NoRoom;
            };
            job.path.push(page);
            job.computed += reused;
        }
        (job.planned, job.admitted) = (job.tokens.len(), job.tokens.len());
        self.stats.reused_tokens += job.computed as u64;
        Admission::Started
    }

    /// One step of everything that runs.
    fn step(&mut self, snapshot: &Snapshot<B>) {
        self.plan();
        if self.parts.is_empty() {
            return;
        }
        let start = Instant::now();
        if let Err(fault) = self.decode(snapshot) {
            // Nothing from this step can be trusted; earlier results can.
            for part in &self.parts {
                self.running[part.job].end = Some(Err(fault.clone()));
            }
            return;
        }
        let (mut prefilled, mut sampled) = (0, 0);
        for part in &self.parts {
            let job = &mut self.running[part.job];
            let first = job.computed / PAGE;
            prefilled += part.len.min(job.admitted.saturating_sub(job.computed));
            job.computed += part.len;
            self.cache.computed(&job.path, first, job.computed);
            sampled += usize::from(part.samples);
        }
        let stats = &mut self.stats;
        stats.steps += 1;
        stats.prefilled_tokens += prefilled as u64;
        stats.sampled_tokens += sampled as u64;
        if prefilled == 0 {
            stats.decode_only_tokens += sampled as u64;
            stats.decode_only_seconds += start.elapsed().as_secs_f64();
        }
    }

    /// Computes the rows of the parts, and draws the tokens that are due.
    fn decode(&mut self, snapshot: &Snapshot<B>) -> std::result::Result<(), SampleFault> {
        self.step.clear();
        for part in &self.parts {
            let job = &self.running[part.job];
            let tokens = &job.tokens[job.computed..][..part.len];
            self.step.push(tokens, job.computed, &job.path, part.samples);
        }
        // Parts and running jobs are in the same order.
        let mut sampling = self.parts.iter().filter(|part| part.samples).map(|part| part.job).peekable();
        let due = self.running.iter_mut().enumerate().filter(|(at, _)| sampling.next_if_eq(at).is_some());
        let draw = |(_, job)| JobDraw::new(job, &snapshot.model.config, &snapshot.version);
        let mut draws: Vec<JobDraw<'_>> = due.map(draw).collect();
        let decoded = B::decode(snapshot.net(), &self.step, &mut self.cache.pages, &mut self.decoder, &mut draws);
        decoded.map_err(|error| SampleFault::Failed { what: error.to_string(), transient: false })
    }

    /// Chooses the rows of the step: one per decoding job, then prompts, oldest first. Preempts if pages run out.
    fn plan(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            if self.ensure_page(at) {
                at += 1;
            } else if self.running.len() == 1 {
                let fault = self.too_small(&self.running[at]);
                self.running[at].end = Some(Err(fault));
                at += 1;
            } else {
                // The youngest is preempted; if that is this one, the loop ends here.
                self.stats.preemptions += 1;
                self.preempt(self.running.len() - 1);
            }
        }
        self.parts.clear();
        let mut budget = self.settings.prefill_tokens.max(1);
        for (index, job) in self.running.iter().enumerate() {
            let missing = job.missing();
            let len = if missing == 1 { 1 } else { missing.min(budget) };
            if len == 0 || job.end.is_some() {
                continue;
            }
            if missing > 1 {
                budget -= len;
            }
            self.parts.push(Part { job: index, len, samples: len == missing });
        }
    }

    /// Ensures that a job has a page for its last token, which was just sampled.
    fn ensure_page(&mut self, at: usize) -> bool {
        let job = &mut self.running[at];
        if job.planned == job.tokens.len() {
            return true;
        }
        let token = job.tokens[job.planned];
        let tip = job.path.last().copied();
        match tip {
            Some(tip) if !job.planned.is_multiple_of(PAGE) => self.cache.push(tip, token),
            _ => match self.cache.attach(tip, &[token]) {
                Some(page) => job.path.push(page),
                None => return false,
            },
        }
        job.planned += 1;
        true
    }

    fn too_small(&self, job: &Job) -> SampleFault {
        let needed = pages_of(job.tokens.len() + 1) as u64 * self.page_bytes;
        SampleFault::Failed {
            what: format!(
                "{} tokens need {needed} bytes of keys and values and the memory limit is {} ({} tokens); raise the limit \
                 to at least {needed} bytes, or shorten the prompt or max_new_tokens",
                job.tokens.len(),
                self.settings.memory_limit,
                self.cache.limit() * PAGE,
            ),
            transient: false,
        }
    }

    fn answer_finished(&mut self) {
        for at in (0..self.running.len()).rev() {
            if self.running[at].end.is_some() {
                let job = self.running.remove(at);
                self.cache.release(&job.path);
                job.answer();
            }
        }
    }
}
