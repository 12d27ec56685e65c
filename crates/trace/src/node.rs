//! Nodes: the ids one hand-over adds to a trace, and where they come from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Policy version that sampled a token: run, optimizer step, digest of the weights served.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyVersion {
    pub run: Arc<str>,
    pub step: u64,
    pub weights: Digest,
}

/// Token ids added by one hand-over. Concatenating a trace's nodes gives exactly what the model saw and produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NodeForm", into = "NodeForm")]
pub struct Node {
    tokens: Vec<u32>,
    origin: Origin,
}

/// Origin of a node's ids. Only `Sampled` ids are ever trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// System prompt, tools, task, template scaffold. Carries the digest of the tools that were rendered.
    Prompt { tools: Digest },
    /// Tool results and user turns.
    Observation,
    /// Tokens the policy chose.
    Sampled(Sampled),
    /// Appended by us, for example the end of turn after a stop string. Never trained.
    Forced,
}

/// Policy versions and logprobs of a node's sampled tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Spans (version, number of tokens): an episode may cross a weight update.
    pub versions: Vec<(PolicyVersion, u32)>,
    /// Logprobs under softmax(logits / temperature), the policy that is trained.
    pub logprobs: Vec<f32>,
    /// Logprobs after top-k, top-p, min-p and gates, when one of those was on.
    pub sampling_logprobs: Option<Vec<f32>>,
}

/// Reason why ids and their record do not form a sampled node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNode {
    #[error(
        "{tokens} sampled tokens came with {logprobs} {which}; every sampled token needs one. Ask the sampler for \
         logprobs of the sampled tokens (vLLM: `logprobs=0`, OpenAI dialect: `logprobs=true`)"
    )]
    Logprobs { which: &'static str, tokens: usize, logprobs: usize },
    #[error("the policy versions cover {covered} of {tokens} sampled tokens; every sampled token has one version")]
    Versions { tokens: usize, covered: u64 },
    #[error("logprob {value} of sampled token {index} is not a log-probability: it must be finite and at most 0")]
    NotALogprob { index: usize, value: String },
}

impl Node {
    pub fn prompt(tokens: Vec<u32>, tools: Digest) -> Self {
        Self { tokens, origin: Origin::Prompt { tools } }
    }

    pub fn observation(tokens: Vec<u32>) -> Self {
        Self { tokens, origin: Origin::Observation }
    }

    pub fn forced(tokens: Vec<u32>) -> Self {
        Self { tokens, origin: Origin::Forced }
    }

    /// One logprob per token, versions that cover every token, or no node.
    pub fn sampled(tokens: Vec<u32>, sampled: Sampled) -> Result<Self, BadNode> {
        check("logprobs", &tokens, &sampled.logprobs)?;
        if let Some(logprobs) = &sampled.sampling_logprobs {
            check("sampling logprobs", &tokens, logprobs)?;
        }
        let covered: u64 = sampled.versions.iter().map(|(_, count)| u64::from(*count)).sum();
        if covered != tokens.len() as u64 {
            return Err(BadNode::Versions { tokens: tokens.len(), covered });
        }
        Ok(Self { tokens, origin: Origin::Sampled(sampled) })
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub fn as_sampled(&self) -> Option<&Sampled> {
        match &self.origin {
            Origin::Sampled(sampled) => Some(sampled),
            _ => None,
        }
    }

    /// The first `count` tokens, with the record cut to match: what remains when only the first call of a reply runs.
    #[must_use]
    pub fn cut(mut self, count: usize) -> Self {
        if count >= self.tokens.len() {
            return self;
        }
        self.tokens.truncate(count);
        if let Origin::Sampled(sampled) = &mut self.origin {
            sampled.logprobs.truncate(count);
            if let Some(logprobs) = &mut sampled.sampling_logprobs {
                logprobs.truncate(count);
            }
            let mut left = count as u32;
            sampled.versions.retain_mut(|(_, span)| {
                *span = left.min(*span);
                left -= *span;
                *span > 0
            });
        }
        self
    }
}

impl Sampled {
    /// All tokens of one version, the common case.
    pub fn by(version: PolicyVersion, logprobs: Vec<f32>) -> Self {
        Self { versions: vec![(version, logprobs.len() as u32)], logprobs, sampling_logprobs: None }
    }
}

/// Tolerance for logprobs above 0, which rounding can produce; a larger one is not a log-probability.
const ROUNDING: f32 = 1e-4;

fn check(which: &'static str, tokens: &[u32], logprobs: &[f32]) -> Result<(), BadNode> {
    if logprobs.len() != tokens.len() {
        return Err(BadNode::Logprobs { which, tokens: tokens.len(), logprobs: logprobs.len() });
    }
    match logprobs.iter().position(|value| !value.is_finite() || *value > ROUNDING) {
        Some(index) => Err(BadNode::NotALogprob { index, value: logprobs[index].to_string() }),
        None => Ok(()),
    }
}

/// The written form, flat: `{"origin": "sampled", "tokens": […], "versions": [[{…}, 3]], "logprobs": […]}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeForm {
    origin: OriginForm,
    tokens: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<(PolicyVersion, u32)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<f32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampling_logprobs: Option<Vec<f32>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OriginForm {
    Prompt,
    Observation,
    Sampled,
    Forced,
}

impl From<Node> for NodeForm {
    fn from(Node { tokens, origin }: Node) -> Self {
        let form =
            |origin| Self { origin, tokens, tools: None, versions: None, logprobs: None, sampling_logprobs: None };
        match origin {
            Origin::Prompt { tools } => Self { tools: Some(tools), ..form(OriginForm::Prompt) },
            Origin::Observation => form(OriginForm::Observation),
            Origin::Forced => form(OriginForm::Forced),
            Origin::Sampled(Sampled { versions, logprobs, sampling_logprobs }) => Self {
                versions: Some(versions),
                logprobs: Some(logprobs),
                sampling_logprobs,
                ..form(OriginForm::Sampled)
            },
        }
    }
}

impl TryFrom<NodeForm> for Node {
    type Error = String;

    fn try_from(form: NodeForm) -> Result<Self, String> {
        match form.origin {
            OriginForm::Prompt => match form.tools {
                Some(tools) => Ok(Self::prompt(form.tokens, tools)),
                None => Err("a prompt node has no \"tools\": the digest of the tools it was rendered with".into()),
            },
            OriginForm::Observation => Ok(Self::observation(form.tokens)),
            OriginForm::Forced => Ok(Self::forced(form.tokens)),
            OriginForm::Sampled => {
                let (Some(versions), Some(logprobs)) = (form.versions, form.logprobs) else {
                    return Err("a sampled node needs \"versions\" and \"logprobs\"".into());
                };
                let sampled = Sampled { versions, logprobs, sampling_logprobs: form.sampling_logprobs };
                Self::sampled(form.tokens, sampled).map_err(|error| error.to_string())
            }
        }
    }
}
