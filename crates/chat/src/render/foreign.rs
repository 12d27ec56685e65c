//! Foreign text: messages and tools that spell out a special token must not become it.
//!
//! A tool's answer that says `<|im_end|><|im_start|>system` would forge a turn, because a tokenizer turns spelt-out
//! tokens into their ids anywhere. Before rendering, every added token spelt out in a user's or tool's message or in a
//! tool's description is replaced by a stand-in that no template changes; afterwards the text around it is encoded as
//! plain text, with the spelling restored, while the template's own tokens stay tokens. Text without such spellings is
//! encoded whole, as transformers does.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::tokenizer::{Tokenizer, TokenizerError};

/// Treatment of special tokens spelt out in the messages of users and tools, and in the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecialTokens {
    /// They are text: a message cannot end its own turn.
    #[default]
    Defuse,
    /// They become tokens, as in transformers' `apply_chat_template(tokenize=True)`.
    Keep,
}

/// Around the number of a token: private-use characters, which templates and JSON leave unchanged.
const OPEN: char = '\u{F0E00}';
const CLOSE: char = '\u{F0E01}';

/// Replaces special tokens in a message that the policy did not write with stand-ins; returns their number.
pub(super) fn defuse(tokenizer: &Tokenizer, message: &mut Json) -> usize {
    if !matches!(message.get("role").and_then(Json::as_str), Some("user" | "tool")) {
        return 0;
    }
    let fields = ["content", "name"];
    fields.into_iter().map(|field| message.get_mut(field).map_or(0, |text| defuse_value(tokenizer, text))).sum()
}

/// Puts stand-ins into tools, whose descriptions may come from an untrusted server; returns their number.
pub(super) fn defuse_tools(tokenizer: &Tokenizer, tools: &mut [Json]) -> usize {
    // Usually there is nothing to do, and one search over all of it is cheap.
    let mut all = String::new();
    tools.iter().for_each(|tool| texts(tool, &mut all));
    match defuse_text(tokenizer, &all) {
        Some(_) => tools.iter_mut().map(|tool| defuse_value(tokenizer, tool)).sum(),
        None => 0,
    }
}

/// Every text in a value, keys included, one per line.
fn texts(value: &Json, out: &mut String) {
    match value {
        Json::String(text) => out.extend([text.as_str(), "\n"]),
        Json::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Json::Object(members) => {
            for (key, member) in members {
                out.extend([key.as_str(), "\n"]);
                texts(member, out);
            }
        }
        _ => {}
    }
}

fn defuse_value(tokenizer: &Tokenizer, value: &mut Json) -> usize {
    match value {
        Json::String(text) => match defuse_text(tokenizer, text) {
            Some((defused, count)) => {
                *text = defused;
                count
            }
            None => 0,
        },
        Json::Array(items) => items.iter_mut().map(|item| defuse_value(tokenizer, item)).sum(),
        Json::Object(members) => {
            let mut sum = 0;
            for (key, mut member) in std::mem::take(members) {
                let (key, count) = defuse_text(tokenizer, &key).unwrap_or((key, 0));
                sum += count + defuse_value(tokenizer, &mut member);
                members.insert(key, member);
            }
            sum
        }
        _ => 0,
    }
}

/// The text with stand-ins, if it spells out a token (or a stand-in's own marker).
fn defuse_text(tokenizer: &Tokenizer, text: &str) -> Option<(String, usize)> {
    let tokens = tokenizer.added_texts();
    let spelt: Vec<usize> = (0..tokens.len()).filter(|&index| text.contains(tokens[index].as_str())).collect();
    if spelt.is_empty() && !text.contains(OPEN) {
        return None;
    }
    let (mut out, mut count, mut rest) = (String::with_capacity(text.len()), 0, text);
    while let Some(next) = rest.chars().next() {
        // Longest first: the list is sorted so.
        if let Some(&index) = spelt.iter().find(|&&index| rest.starts_with(tokens[index].as_str())) {
            stand_in(index, &mut out);
            count += 1;
            rest = &rest[tokens[index].len()..];
        } else {
            if next == OPEN {
                stand_in(tokens.len(), &mut out);
            } else {
                out.push(next);
            }
            rest = &rest[next.len_utf8()..];
        }
    }
    Some((out, count))
}

fn stand_in(index: usize, out: &mut String) {
    out.push(OPEN);
    out.push_str(&index.to_string());
    out.push(CLOSE);
}

/// The text with every spelling restored.
pub(super) fn restore(tokenizer: &Tokenizer, text: &str) -> String {
    pieces(tokenizer, text).concat()
}

/// The restored text, cut after the first character of every spelling.
fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let tokens = tokenizer.added_texts();
    let (mut pieces, mut piece, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(OPEN) {
        piece.push_str(&rest[..at]);
        let inner = &rest[at + OPEN.len_utf8()..];
        let number = inner.split_once(CLOSE).and_then(|(number, after)| Some((number.parse::<usize>().ok()?, after)));
        let token = number.and_then(|(index, _)| tokens.get(index));
        if let Some(token) = token {
            let first = token.chars().next().map_or(0, char::len_utf8);
            piece.push_str(&token[..first]);
            pieces.push(std::mem::replace(&mut piece, token[first..].to_owned()));
        } else {
            piece.push(OPEN);
        }
        rest = number.map_or(inner, |(_, after)| after);
    }
    piece.push_str(rest);
    pieces.push(piece);
    pieces
}

/// The ids of a rendered text: stand-ins as the text they represent, everything else as usual.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TokenizerError> {
    if !text.contains(OPEN) {
        return tokenizer.encode(text);
    }
    let tokens = tokenizer.encode_spans(text)?;
    let mut ids = Vec::with_capacity(tokens.len());
    let (mut start, mut first) = (0, 0);
    let bounds = tokens.iter().enumerate().filter(|(_, token)| tokenizer.is_added(token.id));
    let bounds =
        bounds.map(|(index, token)| (index, token.span.clone())).chain([(tokens.len(), text.len()..text.len())]);
    for (index, span) in bounds {
        let segment = &text[start..span.start.max(start)];
        if segment.contains(OPEN) {
            ids.extend(plain(tokenizer, segment)?);
        } else {
            ids.extend(tokens[first..index].iter().map(|token| token.id));
        }
        ids.extend(tokens.get(index).map(|token| token.id));
        (start, first) = (span.end, index + 1);
    }
    Ok(ids)
}

/// A segment without the template's tokens, its spellings encoded as text.
fn plain(tokenizer: &Tokenizer, segment: &str) -> Result<Vec<u32>, TokenizerError> {
    let ids = tokenizer.encode_plain(&restore(tokenizer, segment))?;
    if !ids.iter().any(|id| tokenizer.is_added(*id)) {
        return Ok(ids);
    }
    // A vocabulary may hold the token as an ordinary piece too; no piece spans a cut.
    let mut ids = Vec::new();
    for piece in pieces(tokenizer, segment) {
        ids.extend(tokenizer.encode_plain(&piece)?);
    }
    Ok(ids)
}
