//! The context budget: what the prompt costs, how many turns are left, and how oversized tool output is cut.
//!
//! The rule for tool output: if it exceeds its allowance, its head and tail are kept, half of the allowance each, with
//! a line between them that says how much was cut. Nothing else is ever shortened, least of all the task.

use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;

use crate::tokenizer::{Token, Tokenizer, TokenizerError};

/// Token budget of a first prompt. The parts add up to `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PromptCost {
    pub system: usize,
    pub tools: usize,
    /// The task: every message but the system's.
    pub task: usize,
    /// Tokens the template adds around them: role headers, default texts, the generation prompt.
    pub scaffold: usize,
    pub total: usize,
}

/// Share of the window each turn may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TurnCost {
    /// The longest reply that is sampled.
    pub reply: usize,
    /// The longest observation that is shown; longer tool output is cut to it.
    pub observation: usize,
}

/// A plan for a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub window: usize,
    pub prompt: PromptCost,
    pub turn: TurnCost,
    /// Tokens left after the first prompt.
    pub left: usize,
    /// Turns that fit at full length: each a reply and an observation, the last one a reply only.
    pub turns: usize,
}

/// The prompt leaves no room to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prompt does not fit: system {} + tools {} + task {} + template {} = {} tokens, and a reply of {reply} needs {} \
     in all, but the window has {window}. Offer fewer tools, shorten the system prompt or use a longer window; \
     the task itself is never cut",
    prompt.system, prompt.tools, prompt.task, prompt.scaffold, prompt.total, prompt.total + reply
)]
pub struct DoesNotFit {
    pub prompt: PromptCost,
    pub reply: usize,
    pub window: usize,
}

impl PromptCost {
    /// `total` is the whole prompt's tokens, `without_tools` the same prompt's without tools; the texts are counted as
    /// given.
    pub fn measure(
        tokenizer: &Tokenizer,
        total: usize,
        without_tools: usize,
        system: &str,
        task: &[String],
    ) -> Result<Self, TokenizerError> {
        let tools = total.saturating_sub(without_tools);
        let system = tokenizer.count(system)?.min(total - tools);
        let mut counted = 0;
        for text in task {
            counted += tokenizer.count(text)?;
        }
        // A text can take a token more by itself than inside the prompt; the parts still have to add up.
        let task = counted.min(total - tools - system);
        Ok(Self { system, tools, task, scaffold: total - tools - system - task, total })
    }
}

impl Plan {
    pub fn new(window: usize, prompt: PromptCost, turn: TurnCost) -> Result<Self, DoesNotFit> {
        let left = window.saturating_sub(prompt.total);
        if left < turn.reply.max(1) {
            return Err(DoesNotFit { prompt, reply: turn.reply, window });
        }
        let per_turn = (turn.reply + turn.observation).max(1);
        // The last turn needs no observation after it.
        let turns = (left + turn.observation) / per_turn;
        Ok(Self { window, prompt, turn, left, turns: turns.max(1) })
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let share = |tokens: usize| 100.0 * tokens as f64 / self.window.max(1) as f64;
        let mut table = String::new();
        for (name, tokens) in [
            ("system", self.prompt.system),
            ("tools", self.prompt.tools),
            ("task", self.prompt.task),
            ("template", self.prompt.scaffold),
            ("prompt", self.prompt.total),
            ("left", self.left),
            ("window", self.window),
        ] {
            let _ = writeln!(table, "{name:<9} {tokens:>8} tokens {:>6.1} %", share(tokens));
        }
        let _ = writeln!(
            table,
            "{} turns of {} tokens (reply {} + observation {}) fit",
            self.turns,
            self.turn.reply + self.turn.observation,
            self.turn.reply,
            self.turn.observation
        );
        table
    }
}

/// Tool output cut to its allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clipped {
    pub text: String,
    /// Characters that were cut; 0 if the text fits.
    pub cut_chars: usize,
}

/// A text this many times longer than its allowance in tokens is read at its ends only: a tool that answers with 50 MB
/// must not cost the time it takes to encode them. Tokens this long are rare (runs of white space); with many of them,
/// less is kept than would fit.
const BYTES_PER_TOKEN: usize = 64;

/// The tokens a text starts and ends with, as far as they may be kept.
struct Ends {
    head: Vec<Token>,
    tail: Vec<Token>,
    /// Start of the text of `tail`.
    tail_at: usize,
}

impl Ends {
    fn read(tokenizer: &Tokenizer, text: &str, reach: usize) -> Result<Self, TokenizerError> {
        let tail_at = text.ceil_char_boundary(text.len() - reach);
        let head = tokenizer.encode_spans(&text[..text.floor_char_boundary(reach)])?;
        Ok(Self { head, tail: tokenizer.encode_spans(&text[tail_at..])?, tail_at })
    }

    /// The middle that is cut when `keep` tokens stay, half of them at each end.
    fn middle(&self, text: &str, keep: usize) -> Range<usize> {
        let (head, tail) = (keep.div_ceil(2).min(self.head.len()), (keep / 2).min(self.tail.len()));
        let start = text.floor_char_boundary(head.checked_sub(1).map_or(0, |last| self.head[last].span.end));
        let end = self.tail.get(self.tail.len() - tail).map_or(text.len(), |first| self.tail_at + first.span.start);
        start..text.ceil_char_boundary(end.max(start))
    }
}

/// Cuts tool output that takes more than `limit` tokens by the rule of this module.
pub fn clip_output(tokenizer: &Tokenizer, text: &str, limit: usize) -> Result<Clipped, TokenizerError> {
    let reach = (limit + 1) * BYTES_PER_TOKEN;
    let ends = if text.len() > 2 * reach {
        Ends::read(tokenizer, text, reach)?
    } else {
        let tokens = tokenizer.encode_spans(text)?;
        if tokens.len() <= limit {
            return Ok(Clipped { text: text.to_owned(), cut_chars: 0 });
        }
        Ends { head: tokens.clone(), tail: tokens, tail_at: 0 }
    };
    let mut keep = limit;
    loop {
        let middle = ends.middle(text, keep);
        let cut_chars = text[middle.clone()].chars().count();
        let notice = format!("\n[{cut_chars} characters cut here to fit the context]\n");
        let clipped = [&text[..middle.start], &notice, &text[middle.end..]].concat();
        let length = tokenizer.count(&clipped)?;
        // Below the notice's own length only the notice is left: a silent cut would be worse than a few tokens too
        // many.
        if length <= limit || keep == 0 {
            return Ok(Clipped { text: clipped, cut_chars });
        }
        keep = keep.saturating_sub((length - limit).max(1));
    }
}
