//! Every token of a trace, one per line.

use std::fmt::Write as _;

use super::{Page, line};
use crate::number::{cell, signed};
use crate::run::Token;

/// A character of a token; invisible ones as escapes.
fn seen(character: char) -> impl Iterator<Item = char> {
    let plain = character == '"' || character == '\'';
    let escaped = (!plain).then(|| character.escape_debug());
    escaped.into_iter().flatten().chain(plain.then_some(character))
}

pub fn tokens(tokens: &[Token], page: Page) -> String {
    let mut out = String::new();
    let header = format!(
        "{:>6} {:<11} {:>7} {:<18} {:>9} {:>9} {:>9} {:>9} {:>8}  trained",
        "", "origin", "id", "token", "sampled", "learner", "gap", "advantage", "entropy"
    );
    let _ = writeln!(out, "{}", page.dim(&header));
    for token in tokens {
        let text: String = token.text.chars().flat_map(seen).collect();
        let text = line(&text, 18);
        let mark = match (token.trained, token.clipped) {
            (true, _) => page.ink("32", "yes"),
            (false, Some(true)) => page.ink("33", "clipped"),
            (false, _) => page.dim("no"),
        };
        let text = if token.special { page.ink("35", &format!("{text:<18}")) } else { format!("{text:<18}") };
        let _ = writeln!(
            out,
            "{:>6} {:<11} {:>7} {text} {:>9} {:>9} {:>9} {:>9} {:>8}  {mark}  {}",
            token.position,
            line(token.origin.as_str(), 11),
            token.id,
            cell(token.logprob),
            cell(token.learner_logprob),
            cell(token.gap),
            token.advantage.map_or_else(|| "–".to_owned(), signed),
            cell(token.entropy),
            page.dim(&line(&token.because, 80))
        );
    }
    out
}
