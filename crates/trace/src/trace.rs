//! Traces: one episode, token by token.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::group::Lesson;
use crate::node::{Node, Origin};
use crate::outcome::{Outcome, ParseFailure};
use crate::policy::SamplingParams;
use crate::reward::Reward;
use crate::tool::{ToolCall, ToolSet};

/// One episode. Concatenating its nodes gives exactly the ids the model saw and produced.
///
/// Built by [`TraceBuilder`], which requires tools and a prompt rendered with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TraceForm")]
pub struct Trace {
    pub task: String,
    pub env: String,
    /// Index of the trace in its group.
    pub replica: u32,
    pub seed: u64,
    tools: Arc<ToolSet>,
    pub sampling: SamplingParams,
    nodes: Vec<Node>,
    /// Reading and cost of each sampled node, in order.
    pub turns: Vec<TurnRecord>,
    pub outcome: Outcome,
    pub rewards: Vec<Reward>,
    /// Facts the environment left for the scorers, so that a changed reward can be computed again.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub facts: Map<String, Value>,
    /// Training record. Absent in evaluations, in broken episodes and in older recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lesson: Option<Lesson>,
}

/// The readable side of one agent turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Index of the sampled node.
    pub node: usize,
    /// Calls the reply makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Tokens of the value of each call's arguments in the node (first, and first after): every token that overlaps
    /// the value, and the one that ends it. An argument whose tokens are unknown is absent, as all are in
    /// older recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<BTreeMap<String, (usize, usize)>>,
    /// Number of calls that the environment ran, and of those it answered with an error.
    #[serde(default)]
    pub executed: u32,
    #[serde(default)]
    pub failed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ParseFailure>,
    /// Repairs that the calls needed in order to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    #[serde(default)]
    pub timings: Timings,
    /// Token counts reported by the server, for a turn whose ids are unknown because a model behind an API wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Tokens that a model read and wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
}

/// Seconds one turn spent waiting for each party. `None` if it was not asked. The verifier is asked after the last
/// turn.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Timings {
    /// Waiting for room in the sampler's KV cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<f64>,
}

/// Reason why nodes do not form a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTrace {
    #[error("a trace starts with a prompt node")]
    NoPrompt,
    #[error(
        "the prompt was rendered with other tools than the trace has (digest {prompt}, not {trace}); render the prompt \
         with the tools the agent is offered"
    )]
    OtherTools { prompt: String, trace: String },
    #[error("turn {turn} points at node {node}, which is not a sampled node")]
    Turn { turn: usize, node: usize },
}

impl Trace {
    pub fn tools(&self) -> &Arc<ToolSet> {
        &self.tools
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Every id of the episode, in order.
    pub fn tokens(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flat_map(|node| node.tokens().iter().copied())
    }

    /// The sampled nodes, each with the position of its first id in the episode.
    pub fn sampled(&self) -> impl Iterator<Item = (usize, &Node)> {
        let mut position = 0;
        self.nodes.iter().filter_map(move |node| {
            let at = position;
            position += node.tokens().len();
            node.as_sampled().map(|_| (at, node))
        })
    }

    /// Tokens the policy read and wrote, every turn including its context, as an API bills them: by the recorded ids,
    /// else as the server counted. `None` if a turn has neither.
    pub fn usage(&self) -> Option<Usage> {
        let (mut all, mut before) = (Usage::default(), 0);
        for (index, node) in self.nodes.iter().enumerate() {
            let own = node.tokens().len() as u64;
            if node.as_sampled().is_some() {
                let counted = self.turns.iter().find(|turn| turn.node == index).and_then(|turn| turn.usage);
                let by_ids = || (own > 0).then_some(Usage { prompt: before, completion: own });
                let turn = counted.or_else(by_ids)?;
                all.prompt += turn.prompt;
                all.completion += turn.completion;
            }
            before += own;
        }
        Some(all)
    }

    /// The value of a reward component, where it was scored.
    pub fn reward(&self, component: &str) -> Option<f64> {
        self.rewards.iter().find(|reward| reward.component == component).and_then(Reward::value)
    }

    /// Tokens of an argument's value, counted among the sampled tokens: in the last turn that ran a call with it.
    ///
    /// `None` if no call with it ran, if several calls of that turn had it (so that it is unclear which one counted),
    /// or if its tokens were not recorded.
    pub fn argument(&self, name: &str) -> Option<Range<usize>> {
        let ran = |turn: &TurnRecord| turn.calls.len().min(turn.executed as usize);
        let given = |turn: &TurnRecord| {
            (0..ran(turn)).filter(|&call| turn.calls[call].arguments.contains_key(name)).collect::<Vec<_>>()
        };
        let (turn, calls) =
            self.turns.iter().rev().map(|turn| (turn, given(turn))).find(|(_, calls)| !calls.is_empty())?;
        let [call] = calls[..] else { return None };
        let &(start, end) = turn.arguments.get(call)?.get(name)?;
        let before = self.nodes.get(..turn.node)?.iter().filter(|node| node.as_sampled().is_some());
        let before: usize = before.map(|node| node.tokens().len()).sum();
        let length = self.nodes.get(turn.node)?.tokens().len();
        (start < end && end <= length).then_some(before + start..before + end)
    }

    fn check(&self) -> Result<(), BadTrace> {
        match self.nodes.first().map(Node::origin) {
            Some(Origin::Prompt { tools }) if *tools == self.tools.digest() => {}
            Some(Origin::Prompt { tools }) => {
                return Err(BadTrace::OtherTools { prompt: tools.short(), trace: self.tools.digest().short() });
            }
            _ => return Err(BadTrace::NoPrompt),
        }
        for (turn, record) in self.turns.iter().enumerate() {
            if self.nodes.get(record.node).and_then(Node::as_sampled).is_none() {
                return Err(BadTrace::Turn { turn, node: record.node });
            }
        }
        Ok(())
    }
}

/// Trace under construction: prompt first, then hand-overs in order.
#[derive(Debug)]
pub struct TraceBuilder {
    trace: Trace,
}

/// Head of a trace: everything known before the first token.
#[derive(Debug, Clone)]
pub struct TraceHead {
    pub task: String,
    pub env: String,
    pub replica: u32,
    pub seed: u64,
    pub tools: Arc<ToolSet>,
    pub sampling: SamplingParams,
}

impl TraceBuilder {
    /// `prompt` are the ids of system prompt, tools and first messages, rendered with exactly `head.tools`.
    pub fn new(head: TraceHead, prompt: Vec<u32>) -> Self {
        let prompt = Node::prompt(prompt, head.tools.digest());
        let trace = Trace {
            task: head.task,
            env: head.env,
            replica: head.replica,
            seed: head.seed,
            tools: head.tools,
            sampling: head.sampling,
            nodes: vec![prompt],
            turns: Vec::new(),
            outcome: Outcome::Finished,
            rewards: Vec::new(),
            facts: Map::new(),
            lesson: None,
        };
        Self { trace }
    }

    /// Appends a hand-over's ids, unchanged.
    pub fn push(&mut self, node: Node) {
        self.trace.nodes.push(node);
    }

    /// Records the parse of the last sampled node, whose index is written into `turn.node`. Does nothing before the
    /// first sampled node.
    pub fn record(&mut self, turn: TurnRecord) {
        if let Some(node) = self.trace.nodes.iter().rposition(|node| node.as_sampled().is_some()) {
            self.trace.turns.push(TurnRecord { node, ..turn });
        }
    }

    /// All ids so far: the next prompt.
    pub fn ids(&self) -> Vec<u32> {
        self.trace.tokens().collect()
    }

    pub fn finish(mut self, outcome: Outcome) -> Trace {
        self.trace.outcome = outcome;
        self.trace
    }
}

#[derive(Deserialize)]
struct TraceForm {
    task: String,
    env: String,
    replica: u32,
    seed: u64,
    tools: Arc<ToolSet>,
    sampling: SamplingParams,
    nodes: Vec<Node>,
    turns: Vec<TurnRecord>,
    outcome: Outcome,
    rewards: Vec<Reward>,
    /// Absent in older recordings.
    #[serde(default)]
    facts: Map<String, Value>,
    #[serde(default)]
    lesson: Option<Lesson>,
}

impl TryFrom<TraceForm> for Trace {
    type Error = BadTrace;

    fn try_from(form: TraceForm) -> Result<Self, BadTrace> {
        let TraceForm { task, env, replica, seed, tools, sampling, nodes, turns, outcome, rewards, facts, lesson } =
            form;
        let trace = Self { task, env, replica, seed, tools, sampling, nodes, turns, outcome, rewards, facts, lesson };
        trace.check()?;
        Ok(trace)
    }
}
