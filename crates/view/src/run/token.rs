//! Tokens of a trace, each with its origin, its numbers and its part in training.

use hone_trace::Fate;
use serde::Serialize;

use super::full::floats;
use super::words::{Lenient, Origin};
use super::{Full, Part, Run};

/// One token of the token view.
#[derive(Debug, Clone, Serialize)]
pub struct Token {
    pub position: usize,
    pub node: usize,
    pub origin: Lenient<Origin>,
    pub id: u32,
    pub text: String,
    /// Added to the vocabulary: markup rather than text.
    pub special: bool,
    pub trained: bool,
    /// Reason why it is trained or not.
    pub because: String,
    pub logprob: Option<f64>,
    /// The learner's, when it first saw the token.
    pub learner_logprob: Option<f64>,
    /// Learner minus sampler.
    pub gap: Option<f64>,
    pub advantage: Option<f64>,
    pub entropy: Option<f64>,
    pub clipped: Option<bool>,
}

impl Run {
    /// Every token of a trace, with why it was trained or not.
    pub fn tokens(&self, full: &Full) -> Vec<Token> {
        let lesson = full.record.get("lesson");
        let learner = lesson.map(|lesson| floats(lesson, "logprobs")).unwrap_or_default();
        let entropies = lesson.map(|lesson| floats(lesson, "entropies")).unwrap_or_default();
        let fates: Vec<char> =
            lesson.and_then(|lesson| lesson.get("fates")?.as_str()).unwrap_or_default().chars().collect();
        let untold = full.untrained();
        let texts = self.texts(full.nodes.iter().flat_map(|node| &node.tokens).copied());
        let (mut tokens, mut sampled) = (Vec::new(), 0);
        for (number, node) in full.nodes.iter().enumerate() {
            for (offset, id) in node.tokens.iter().enumerate() {
                let (text, special) = texts.get(tokens.len()).cloned().unwrap_or_default();
                let mut token = Token {
                    position: tokens.len(),
                    node: number,
                    origin: node.origin.clone(),
                    id: *id,
                    text,
                    special,
                    trained: false,
                    because: not_sampled(&node.origin).to_owned(),
                    logprob: node.logprobs.get(offset).copied(),
                    learner_logprob: None,
                    gap: None,
                    advantage: None,
                    entropy: None,
                    clipped: None,
                };
                if node.origin.is(Origin::Sampled) {
                    let fate = fates.get(sampled).and_then(|letter| Fate::from_letter(*letter));
                    token.learner_logprob = learner.get(sampled).copied();
                    token.gap = token.learner_logprob.zip(token.logprob).map(|(learner, sampler)| learner - sampler);
                    token.entropy = entropies.get(sampled).copied();
                    token.advantage = full.advantages.as_ref().and_then(|all| all.get(sampled)).copied();
                    token.trained = fate == Some(Fate::Trained);
                    token.clipped = fate.map(|fate| fate == Fate::Clipped);
                    token.because = fate.map_or_else(|| untold.clone(), |fate| words(fate).to_owned());
                    sampled += 1;
                }
                tokens.push(token);
            }
        }
        tokens
    }

    /// The text each id adds, and whether it is markup. A character made of several tokens is at the last of them.
    fn texts(&self, ids: impl Iterator<Item = u32>) -> Vec<(String, bool)> {
        let Some(tokenizer) = self.tokenizer() else { return ids.map(|id| (format!("#{id}"), false)).collect() };
        let mut stream = tokenizer.stream();
        ids.map(|id| {
            if tokenizer.is_added(id) {
                let _ = stream.push(id);
                return (tokenizer.id_to_token(id).unwrap_or_default(), true);
            }
            (stream.push(id), false)
        })
        .collect()
    }
}

impl Full {
    /// Fates of the sampled tokens: how many were trained or not, and why, in order of first occurrence.
    pub fn fates(&self) -> Vec<(usize, bool, String)> {
        let letters = self.record.get("lesson").and_then(|lesson| lesson.get("fates")?.as_str()).unwrap_or_default();
        let mut letters = letters.chars();
        let mut told: Vec<(usize, bool, String)> = Vec::new();
        for _ in 0..self.brief.sampled {
            let fate = letters.next().and_then(Fate::from_letter);
            let why = fate.map_or_else(|| self.untrained(), |fate| words(fate).to_owned());
            match told.iter_mut().find(|(_, _, other)| *other == why) {
                Some((count, _, _)) => *count += 1,
                None => told.push((1, fate == Some(Fate::Trained), why)),
            }
        }
        told
    }

    /// Reason why tokens without a recorded fate were not trained.
    pub(crate) fn untrained(&self) -> String {
        let played = matches!(self.part, Some(Part::Played(_)));
        match &self.no_signal {
            Some(why) => format!("no signal: {why}"),
            None if self.brief.is_broken() => format!("the episode broke: {}", self.brief.why),
            None if played => "an evaluation or a control is never trained on".to_owned(),
            None => "its training outcome is not recorded".to_owned(),
        }
    }
}

fn not_sampled(origin: &Lenient<Origin>) -> &'static str {
    match origin.known() {
        Some(Origin::Prompt) => "prompt: only what the policy sampled is trained",
        Some(Origin::Observation) => "the environment's or the user's words",
        Some(Origin::Forced) => "appended by Hone, not chosen by the policy",
        Some(Origin::Sampled) | None => "an origin this version does not know",
    }
}

fn words(fate: Fate) -> &'static str {
    match fate {
        Fate::Zero => "its advantage is 0",
        Fate::Trained => "its advantage reached the gradient",
        Fate::Masked => "an off-policy correction or a mask took it out",
        Fate::Clipped => "the clip set its gradient to zero",
        Fate::Skipped => "the optimizer step was not taken, or was taken back",
    }
}
