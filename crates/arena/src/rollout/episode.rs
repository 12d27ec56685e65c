//! A running episode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hone_chat::budget::clip_output;
use hone_chat::parse::Toolbox;
use hone_chat::{Conversation, Suffix};
use hone_trace::{
    Action, Boundary, Content, EndState, Env, Episode, Fault, Limit, Message, Node, Outcome, Sample, SampleRequest,
    SamplingParams, Seed, StopReason, Timings, ToolSet, Trace, TraceBuilder, TraceHead, Turn, TurnRecord,
};

use super::reading::{Reading, read};
use super::room::Seat;
use super::settings::{CallMode, OnMalformed};
use super::{Opening, Rollouts, Slot, late, seconds, text_bytes};

/// Result of an attempt: a trace as far as it got, the environment's end state, and the fault that broke it.
pub(super) struct Played {
    pub(super) trace: Trace,
    pub(super) end: EndState,
    pub(super) fault: Option<Fault>,
}

impl Played {
    /// An episode that never began: a trace with an empty prompt and no tools.
    pub(super) fn not_opened(slot: Slot<'_>, sampling: &SamplingParams, fault: Fault) -> Self {
        let builder = TraceBuilder::new(head(slot, Arc::new(ToolSet::none()), sampling.clone()), Vec::new());
        Self { trace: builder.finish(Outcome::Finished), end: EndState::default(), fault: Some(fault) }
    }
}

/// Effect of a turn on the episode.
enum Step {
    Goes,
    Ends(Outcome),
    Breaks(Fault),
}

/// Fact that quotes the crash of an episode that ended with [`Limit::CrashingCall`].
pub const CRASH: &str = "crash";

/// Fact that counts special tokens spelled out in messages and encoded as text; absent if there were none.
pub const DEFUSED: &str = "defused_tokens";

pub(super) struct Play<'a> {
    rollouts: &'a Rollouts,
    slot: Slot<'a>,
    seed: Seed,
    env: Box<dyn Env>,
    toolbox: Arc<Toolbox>,
    conversation: Conversation,
    trace: TraceBuilder,
    sampling: SamplingParams,
    /// The conversation as text, for scorers.
    messages: Vec<Message>,
    /// Actions so far, in order: they are replayed on a fresh environment to attribute a fault.
    actions: Vec<Action>,
    /// Its place among the conversations under way.
    seat: Seat,
    started: Instant,
    observed: usize,
    /// Words of the crash, if a call crashes the environment every time.
    crash: Option<String>,
}

impl<'a> Play<'a> {
    pub(super) fn new(rollouts: &'a Rollouts, slot: Slot<'a>, episode: Episode, opening: Opening) -> Self {
        let Opening { conversation, kit } = opening;
        let mut sampling = rollouts.sampling.clone();
        for id in conversation.stop_ids() {
            if !sampling.stop_ids.contains(&id) {
                sampling.stop_ids.push(id);
            }
        }
        let head = head(slot, kit.tools, sampling.clone());
        let seat = rollouts.room.seat(&slot.task.env, &slot.task.key, conversation.prompt());
        let trace = TraceBuilder::new(head, conversation.prompt().to_vec());
        let messages = std::iter::once(Message::system(episode.system)).chain(episode.first).collect();
        Self {
            rollouts,
            slot,
            seed: Seed::root(slot.seed).with("sample"),
            env: episode.env,
            toolbox: kit.toolbox,
            conversation,
            trace,
            sampling,
            messages,
            actions: Vec::new(),
            seat,
            started: Instant::now(),
            observed: 0,
            crash: None,
        }
    }

    pub(super) async fn run(mut self) -> Played {
        let mut turn = 0;
        let (outcome, fault) = loop {
            if turn == self.rollouts.settings.max_turns {
                break (Outcome::Truncated { limit: Limit::Turns }, None);
            }
            match self.turn(turn).await {
                Step::Goes => turn += 1,
                Step::Ends(outcome) => break (outcome, None),
                Step::Breaks(fault) if self.comes_back(&fault).await => {
                    self.crash = Some(fault.what);
                    break (Outcome::Truncated { limit: Limit::CrashingCall }, None);
                }
                Step::Breaks(fault) => break (Outcome::Finished, Some(fault)),
            }
        };
        let fault = match fault {
            None => self.finish().await.err(),
            fault => fault,
        };
        let mut end = self.env.end();
        if let Ok(messages) = serde_json::to_value(&self.messages) {
            end.facts.entry("messages").or_insert(messages);
        }
        if let Some(crash) = self.crash {
            end.facts.insert(CRASH.into(), crash.into());
        }
        if self.conversation.defused() > 0 {
            end.facts.insert(DEFUSED.into(), self.conversation.defused().into());
        }
        Played { trace: self.trace.finish(outcome), end, fault }
    }

    async fn finish(&mut self) -> Result<(), Fault> {
        let deadline = self.rollouts.settings.open_deadline().max(self.env.patience().unwrap_or_default());
        match tokio::time::timeout(deadline, self.env.finish()).await {
            Ok(finished) => finished,
            Err(_) => Err(late("the environment did not finish", deadline)),
        }
    }

    async fn turn(&mut self, turn: u32) -> Step {
        let settings = &self.rollouts.settings;
        if self.started.elapsed().as_secs_f64() > settings.wall_s {
            return Step::Ends(Outcome::Truncated { limit: Limit::WallTime });
        }
        let room = settings.window.saturating_sub(self.conversation.ids().len());
        if room == 0 {
            return Step::Ends(Outcome::Truncated { limit: Limit::Context });
        }
        let mut timings = Timings::default();
        if let Some(waited) = self.seat.turn(self.conversation.ids().len()).await {
            timings.room = Some(waited.as_secs_f64());
            // It is no time of the episode.
            self.started += waited;
        }
        let clock = Instant::now();
        let sample = match self.sample(turn, room).await {
            Ok(sample) => sample,
            Err(fault) => return Step::Breaks(fault),
        };
        timings.sampler = Some(clock.elapsed().as_secs_f64());
        let stop = sample.stop;
        let reading = read(&sample.tokens, self.rollouts.renderer.tokenizer(), &self.toolbox, settings);
        let sampled = match self.append(sample, reading.keep) {
            Ok(sampled) => sampled,
            Err(fault) => return Step::Breaks(fault),
        };
        self.messages.push(reading.message.clone());
        let clock = Instant::now();
        let mut record = record(&reading);
        let step = self.answer(reading, stop, room, &sampled, &mut record).await;
        timings.user = record.timings.user;
        timings.environment = Some((clock.elapsed().as_secs_f64() - timings.user.unwrap_or(0.0)).max(0.0));
        self.trace.record(TurnRecord { timings, ..record });
        step
    }

    async fn sample(&mut self, turn: u32, room: usize) -> Result<Sample, Fault> {
        let mut params = self.sampling.clone();
        params.max_new_tokens = params.max_new_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
        let seed = self.seed.at(u64::from(turn)).value();
        let request = SampleRequest { prompt: self.conversation.ids().to_vec(), params, seed, gate: None };
        let deadline = self.rollouts.settings.sampler_deadline();
        match tokio::time::timeout(deadline, self.rollouts.sampler.sample(request)).await {
            Ok(sample) => Ok(sample?),
            Err(_) => Err(Fault::transient(
                Boundary::Sampler,
                format!(
                    "no reply within {} s; raise rollout.sampler_deadline_s if replies are long",
                    seconds(deadline)
                ),
            )),
        }
    }

    /// Appends the sampled ids to the record, unchanged except for what first-call-only removes.
    fn append(&mut self, sample: Sample, keep: usize) -> Result<Vec<u32>, Fault> {
        let node = Node::sampled(sample.tokens, sample.sampled)
            .map_err(|error| Fault::new(Boundary::Sampler, error.to_string()))?
            .cut(keep);
        let ids = node.tokens().to_vec();
        self.trace.push(node);
        Ok(ids)
    }

    /// Sends the action and appends the answer.
    async fn answer(
        &mut self,
        reading: Reading,
        stop: StopReason,
        room: usize,
        sampled: &[u32],
        record: &mut TurnRecord,
    ) -> Step {
        match stop {
            StopReason::Context => return Step::Ends(Outcome::Truncated { limit: Limit::Context }),
            // A reply that filled the rest of the window was cut by the window, not by its own limit.
            StopReason::Length if sampled.len() >= room => {
                return Step::Ends(Outcome::Truncated { limit: Limit::Context });
            }
            StopReason::Length => return Step::Ends(Outcome::Truncated { limit: Limit::ReplyTokens }),
            StopReason::StopId | StopReason::Gate => {}
        }
        if let Action::Malformed(failure) = &reading.action
            && self.rollouts.settings.malformed == OnMalformed::End
        {
            return Step::Ends(Outcome::Malformed { failure: failure.clone() });
        }
        let mut turn = match self.act(reading.action, record).await {
            Ok(turn) => turn,
            Err(fault) => return Step::Breaks(fault),
        };
        for message in &mut turn.messages {
            if let Err(fault) = self.clip(message) {
                return Step::Breaks(fault);
            }
        }
        let fits = text_bytes(&turn.messages) <= self.rollouts.settings.longest_text();
        if !fits {
            shorten(&mut turn.messages);
        }
        if turn.done || !fits {
            self.messages.extend(turn.messages);
            return Step::Ends(if turn.done {
                Outcome::Finished
            } else {
                Outcome::Truncated { limit: Limit::Context }
            });
        }
        self.observe(turn, sampled)
    }

    async fn act(&mut self, action: Action, record: &mut TurnRecord) -> Result<Turn, Fault> {
        let actions = match action {
            Action::Calls(calls) if self.rollouts.settings.calls == CallMode::InOrder => {
                calls.into_iter().map(|call| Action::Calls(vec![call])).collect()
            }
            action => vec![action],
        };
        let mut answer = Turn::default();
        for action in actions {
            let calls = if let Action::Calls(calls) = &action { calls.len() as u32 } else { 0 };
            let turn = self.step(action).await?;
            if let Some(seconds) = self.env.user_seconds() {
                record.timings.user = Some(record.timings.user.unwrap_or(0.0) + seconds);
            }
            record.executed += calls;
            record.failed += turn.failed;
            answer.messages.extend(turn.messages);
            answer.done = turn.done;
            if turn.done {
                break;
            }
        }
        Ok(answer)
    }

    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        self.actions.push(action.clone());
        let deadline = self.step_deadline(&action);
        match tokio::time::timeout(deadline, self.env.step(action)).await {
            Ok(turn) => turn,
            // A user that keeps the environment waiting is to blame, not the environment and never the policy.
            Err(_) if self.env.user_seconds().is_some() => Err(Fault::transient(
                Boundary::UserSimulator,
                format!("the user did not answer within {} s", seconds(deadline)),
            )),
            Err(_) => Err(late("the environment did not answer", deadline)),
        }
    }

    /// The deadline from the settings, or the environment's own if that is later: a remote environment reports itself
    /// what was late, so that the delay is not blamed on the call.
    fn step_deadline(&self, action: &Action) -> Duration {
        self.rollouts.settings.step_deadline(action).max(self.env.patience().unwrap_or_default())
    }

    fn observe(&mut self, turn: Turn, sampled: &[u32]) -> Step {
        let messages = turn.messages;
        let Suffix { forced, observation } = match self.conversation.extend(sampled, &messages) {
            Ok(suffix) => suffix,
            Err(error) => {
                return Step::Breaks(Fault::new(Boundary::Hone, format!("rendering an observation: {error}")));
            }
        };
        if !forced.is_empty() {
            self.trace.push(Node::forced(forced));
        }
        self.observed += observation.len();
        self.trace.push(Node::observation(observation));
        self.messages.extend(messages);
        if self.observed > self.rollouts.settings.episode_output_tokens {
            return Step::Ends(Outcome::Truncated { limit: Limit::ToolOutput });
        }
        Step::Goes
    }

    /// Cuts an oversized tool result. Nothing else is ever shortened.
    fn clip(&self, message: &mut Message) -> Result<(), Fault> {
        if let Message::Tool { content: Content::Text(text), .. } = message {
            let limit = self.rollouts.settings.tool_output_tokens;
            let clipped = clip_output(self.rollouts.renderer.tokenizer(), text, limit)
                .map_err(|error| Fault::new(Boundary::Hone, format!("cutting a tool result: {error}")))?;
            *text = clipped.text;
        }
        Ok(())
    }

    /// Reproduces a fault: true if it recurs after the same actions on a fresh environment. Then the policy can break
    /// the tool, and must not be rewarded by leaving the group. A transient fault proves nothing: a server that is down
    /// stays down for a while. Neither does an answer outside the protocol: no action of the policy is its cause.
    async fn comes_back(&mut self, fault: &Fault) -> bool {
        if !could_be_provoked(fault) || self.actions.is_empty() {
            return false;
        }
        let Ok(fresh) = self.rollouts.open_env(self.slot).await else { return false };
        self.env = fresh.env;
        let Some((last, before)) = self.actions.split_last() else { return false };
        for action in before {
            match tokio::time::timeout(self.step_deadline(action), self.env.step(action.clone())).await {
                Ok(Ok(turn)) if !turn.done => {}
                _ => return false,
            }
        }
        match tokio::time::timeout(self.step_deadline(last), self.env.step(last.clone())).await {
            Ok(Err(again)) => could_be_provoked(&again),
            Ok(Ok(_)) => false,
            Err(_) => self.env.user_seconds().is_none(),
        }
    }
}

/// True for a fault that an action of the policy could be the cause of.
fn could_be_provoked(fault: &Fault) -> bool {
    fault.boundary == Boundary::Environment && !fault.transient && !fault.protocol
}

/// Truncates messages that are longer than any window, for the scorers.
fn shorten(messages: &mut Vec<Message>) {
    const MESSAGES: usize = 64;
    const BYTES: usize = 1 << 10;
    let more = messages.len().saturating_sub(MESSAGES);
    messages.truncate(MESSAGES);
    if more > 0 {
        messages.push(Message::system(format!("[{more} more messages cut here]")));
    }
    for message in messages {
        let (Message::System { content } | Message::User { content } | Message::Tool { content, .. }) = message else {
            continue;
        };
        let text = content.text();
        if text.len() > BYTES {
            let start = &text[..text.floor_char_boundary(BYTES)];
            *content =
                format!("{start}\n[{} bytes cut here: more than the window holds]", text.len() - start.len()).into();
        }
    }
}

fn head(slot: Slot<'_>, tools: Arc<ToolSet>, sampling: SamplingParams) -> TraceHead {
    TraceHead {
        task: slot.task.key.clone(),
        env: slot.task.env.clone(),
        replica: slot.replica,
        seed: slot.seed,
        tools,
        sampling,
    }
}

fn record(reading: &Reading) -> TurnRecord {
    TurnRecord {
        calls: reading.calls.clone(),
        arguments: reading.arguments.clone(),
        failure: reading.failure.clone(),
        repairs: reading.repairs.clone(),
        ..TurnRecord::default()
    }
}
