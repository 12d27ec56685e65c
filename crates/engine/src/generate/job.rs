//! Request in progress: its tokens, their logprobs, and the pages of its keys and values.

use futures::channel::{mpsc, oneshot};
use hone_trace::{
    Flow, PolicyVersion, Rng, Sample, SampleFault, SampleRequest, Sampled, SamplingParams, StopReason, TokenGate,
    TokenMask,
};

use crate::config::Config;
use crate::generate::StreamedToken;
use crate::generate::cache::NodeId;
use crate::generate::step::{Choice, Draw, DrawRequest, Refusal};
use crate::rope::Scaling;

type Reply = std::result::Result<Sample, SampleFault>;

/// Minimum temperature other than 0: dividing logits by less leaves the range of f32.
const COLDEST: f32 = 1e-5;

/// Length that a node must be computed to, and the state of the tree when that was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) on: (NodeId, usize),
    pub(super) given_up: u64,
}

#[derive(Debug)]
pub(super) struct Job {
    /// The prompt and the sampled tokens.
    pub(super) tokens: Vec<u32>,
    /// Tokens whose keys and values are in the pages of `path`.
    pub(super) computed: usize,
    /// Tokens that have a page assigned.
    pub(super) planned: usize,
    /// Number of tokens when the job last started to run: the tokens after them are its own.
    pub(super) admitted: usize,
    /// Pages held, root first. Empty while waiting.
    pub(super) path: Vec<NodeId>,
    /// Order of arrival: the youngest is preempted first.
    pub(super) arrival: u64,
    pub(super) wait: Option<Wait>,
    /// Stop reason, once the request is finished.
    pub(super) end: Option<std::result::Result<StopReason, SampleFault>>,
    prompt: usize,
    params: SamplingParams,
    rng: Rng,
    gate: Option<Box<dyn TokenGate>>,
    allowed: Vec<bool>,
    versions: Vec<(PolicyVersion, u32)>,
    logprobs: Vec<f32>,
    sampling_logprobs: Vec<f32>,
    /// True if a mask has forbidden some token at least once.
    masked: bool,
    reply: oneshot::Sender<Reply>,
    stream: Option<mpsc::UnboundedSender<StreamedToken>>,
}

impl Job {
    pub(super) fn new(
        request: SampleRequest,
        reply: oneshot::Sender<Reply>,
        stream: Option<mpsc::UnboundedSender<StreamedToken>>,
    ) -> Self {
        Self {
            prompt: request.prompt.len(),
            tokens: request.prompt,
            computed: 0,
            planned: 0,
            admitted: 0,
            path: Vec::new(),
            arrival: 0,
            wait: None,
            end: None,
            params: request.params,
            rng: Rng::new(request.seed),
            gate: request.gate,
            allowed: Vec::new(),
            versions: Vec::new(),
            logprobs: Vec::new(),
            sampling_logprobs: Vec::new(),
            masked: false,
            reply,
            stream,
        }
    }

    /// Validation: refuses a request that can never run.
    pub(super) fn check(&self, config: &Config) -> std::result::Result<(), SampleFault> {
        self.params.check().map_err(SampleFault::BadParams)?;
        if self.params.temperature > 0.0 && self.params.temperature < COLDEST {
            return Err(SampleFault::BadParams(format!(
                "temperature {} is too close to 0 to divide by; use 0 for the likeliest token, or at least {COLDEST}",
                self.params.temperature
            )));
        }
        if self.tokens.is_empty() {
            return Err(SampleFault::BadParams("the prompt has no tokens; it needs at least one".into()));
        }
        if let Some((at, id)) = self.tokens.iter().enumerate().find(|(_, id)| **id as usize >= config.vocab) {
            return Err(SampleFault::BadParams(format!(
                "token {at} of the prompt is {id} and the model has ids below {}; the tokenizer is of another model",
                config.vocab
            )));
        }
        if self.prompt >= window(config) {
            return Err(SampleFault::PromptTooLong { prompt: self.prompt, window: window(config) });
        }
        Ok(())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.reply.is_canceled()
    }

    /// Number of tokens without keys and values. At least one while the job runs: the last token.
    pub(super) fn missing(&self) -> usize {
        self.tokens.len() - self.computed
    }

    fn push(&mut self, choice: Choice, version: &PolicyVersion) {
        self.tokens.push(choice.token);
        self.logprobs.push(choice.logprob);
        self.sampling_logprobs.push(choice.sampling_logprob);
        match self.versions.last_mut() {
            Some((last, count)) if last == version => *count += 1,
            _ => self.versions.push((version.clone(), 1)),
        }
        if let Some(stream) = &self.stream {
            // A dropped stream does not end the request: the result may still be awaited.
            let _ = stream.unbounded_send(StreamedToken { token: choice.token, logprob: choice.logprob });
        }
    }

    fn stop(&mut self, token: u32, config: &Config) -> Option<StopReason> {
        // The gate sees every token, including the last.
        let gated = self.gate.as_mut().is_some_and(|gate| gate.push(token) == Flow::Stop);
        if self.params.stop_ids.contains(&token) {
            Some(StopReason::StopId)
        } else if gated {
            Some(StopReason::Gate)
        } else if self.tokens.len() - self.prompt >= self.params.max_new_tokens as usize {
            Some(StopReason::Length)
        } else if self.tokens.len() >= window(config) {
            Some(StopReason::Context)
        } else {
            None
        }
    }

    fn refused(&self, refusal: Refusal, version: &PolicyVersion) -> SampleFault {
        let at = self.tokens.len() - self.prompt;
        let what = match refusal {
            Refusal::NotFinite => format!(
                "the logits of token {at} are not finite: the weights of step {} have diverged or are damaged; go back \
                 to an earlier checkpoint or lower the learning rate",
                version.step
            ),
            Refusal::NothingAllowed => {
                format!("the gate forbids every token at token {at} of the reply; let it allow a stop id there")
            }
        };
        SampleFault::Failed { what, transient: false }
    }

    /// Answers the request.
    pub(super) fn answer(mut self) {
        let result = match self.end.take() {
            Some(Ok(stop)) => {
                let truncated = self.params.truncates() || self.masked;
                Ok(Sample {
                    tokens: self.tokens.split_off(self.prompt),
                    sampled: Sampled {
                        versions: self.versions,
                        logprobs: self.logprobs,
                        sampling_logprobs: truncated.then_some(self.sampling_logprobs),
                    },
                    stop,
                })
            }
            Some(Err(fault)) => Err(fault),
            None => Err(SampleFault::Cancelled),
        };
        // Nobody may be listening any more.
        let _ = self.reply.send(result);
    }
}

/// Draw of a job's next token by one version of the policy.
#[derive(Debug)]
pub(super) struct JobDraw<'a> {
    job: &'a mut Job,
    config: &'a Config,
    version: &'a PolicyVersion,
    /// True if the gate masked some token of this draw.
    masked: bool,
}

impl<'a> JobDraw<'a> {
    pub(super) fn new(job: &'a mut Job, config: &'a Config, version: &'a PolicyVersion) -> Self {
        Self { job, config, version, masked: false }
    }
}

impl Draw for JobDraw<'_> {
    fn request(&mut self, vocab: usize) -> DrawRequest<'_> {
        let job = &mut *self.job;
        if let Some(gate) = &mut job.gate {
            job.allowed.resize(vocab, true);
            let mut mask = TokenMask::new(&mut job.allowed);
            gate.mask(&mut mask);
            self.masked = mask.touched();
        }
        DrawRequest { params: &job.params, allowed: self.masked.then_some(&job.allowed[..]), rng: &mut job.rng }
    }

    /// Records the token and notes whether it is the last one.
    fn take(&mut self, drawn: Result<Choice, Refusal>) {
        let job = &mut *self.job;
        match drawn {
            Ok(choice) => {
                job.masked |= self.masked;
                job.push(choice, self.version);
                job.end = job.stop(choice.token, self.config).map(Ok);
            }
            Err(refusal) => job.end = Some(Err(job.refused(refusal, self.version))),
        }
    }
}

/// Maximum sequence length. With dynamic RoPE, keys computed earlier would have to be rotated again with every token past the
/// trained length: generation ends there.
pub fn window(config: &Config) -> usize {
    match config.rope.scaling {
        Scaling::Dynamic { trained, .. } => trained.min(config.context),
        _ => config.context,
    }
}
