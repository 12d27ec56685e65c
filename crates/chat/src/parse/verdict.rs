//! From drafts to a verdict: tools are looked up, arguments are checked, and the first faulty call names the failure.

use std::sync::LazyLock;

use hone_trace::{ParseFailure, ParseFailureKind, ToolCall};
use serde_json::Value;

use super::{
    Format, Parsed, ParsedCall,
    coerce::coerce,
    draft::{Draft, Fault, Reading},
    enclosed,
    repair::{Repair, Repairs},
    reply::{MAX_CALLS, Reply},
    tokens::Stop,
    toolbox::Toolbox,
};

/// A judged call: its fault, and the call as written or intended.
struct Judged {
    fault: Option<Fault>,
    call: Option<ParsedCall>,
    repairs: Repairs,
}

pub(super) fn judge(mut reply: Reply<'_>, asked: Option<Format>, found: Option<Format>) -> Parsed {
    let mut drafts = bounded(std::mem::take(&mut reply.drafts));
    let format = if drafts.is_empty() { asked } else { found };
    let mut parsed = Parsed {
        calls: Vec::with_capacity(drafts.len()),
        content: reply.content_text(),
        reasoning: reply.reasoning_text(),
        format,
        error: None,
        repaired_calls: None,
        repairs: Vec::new(),
        ignored: reply.ignored.clone(),
    };
    let mut fault = beyond_end(&reply, &mut drafts);
    let mut repairs = Repairs::default();
    let mut repairable = fault.is_none();
    for draft in drafts {
        let judged = judge_one(draft, reply.tools);
        fault = fault.or(judged.fault);
        repairs.join(judged.repairs);
        match judged.call {
            Some(call) => parsed.calls.push(call),
            None => repairable = false,
        }
    }
    if fault.is_none()
        && let Some(around) = fault_around(&reply, &parsed)
    {
        repairable = false;
        fault = Some(around);
    }
    if let Some((at, marker)) = enclosing(&reply, &parsed) {
        repairable = false;
        let message = format!("a call inside {} is not made; call outside of it, or answer in text", shortened(marker));
        fault = fault.or(Some(Fault::markup(at, message)));
    }
    if let Some(fault) = fault {
        parsed.error = Some(failure(&fault, reply.tools, format));
        let calls = std::mem::take(&mut parsed.calls);
        if repairable && reply.unclosed.is_none() {
            parsed.repaired_calls = Some(calls);
            parsed.repairs = repairs.iter().collect();
        }
    }
    parsed
}

/// Text after the end of the reply: a repairable fault of the last call, or, without calls, of the reply.
fn beyond_end(reply: &Reply<'_>, drafts: &mut [Draft]) -> Option<Fault> {
    let (at, stop) = reply.beyond.as_ref()?;
    let message = match stop {
        Stop::End(token) => format!("text after the end token {token}"),
        Stop::Observation(marker) => format!("{marker}: only the environment may write a tool result"),
    };
    let beyond = Fault::markup(*at, message);
    let Some(last) = drafts.last_mut() else { return Some(beyond) };
    last.repaired(beyond, Repair::TextAfterEnd);
    None
}

/// At most [`MAX_CALLS`] drafts; one more, faulty, represents the rest.
fn bounded(mut drafts: Vec<Draft>) -> Vec<Draft> {
    if let Some(surplus) = drafts.get(MAX_CALLS) {
        let span = surplus.span.clone();
        let fault = Fault::markup(span.start, format!("more than {MAX_CALLS} calls in one reply"));
        drafts.truncate(MAX_CALLS);
        drafts.push(Draft::faulty(span, fault));
    }
    drafts
}

/// Fault of a reply whose calls have none: reasoning that is never closed, or markup of a call that was not parsed.
fn fault_around(reply: &Reply<'_>, parsed: &Parsed) -> Option<Fault> {
    if let Some(at) = reply.unclosed {
        return Some(Fault::new(ParseFailureKind::Truncated, at, "reasoning is opened and never closed"));
    }
    let (at, marker) = if parsed.calls.is_empty() { reply.call_like()? } else { return None };
    Some(Fault::markup(at, format!("{} is not call markup of the selected format", shortened(marker))))
}

/// The unknown marker that encloses a call.
fn enclosing<'a>(reply: &Reply<'a>, parsed: &Parsed) -> Option<(usize, &'a str)> {
    let calls: Vec<_> = parsed.calls.iter().map(|call| call.span.clone()).collect();
    if calls.is_empty() {
        return None;
    }
    let mut aside = calls.clone();
    aside.extend(reply.reasoning_places().cloned());
    aside.sort_by_key(|range| range.start);
    enclosed::around(reply.text, &calls, &aside)
}

fn judge_one(draft: Draft, tools: &Toolbox) -> Judged {
    let Draft { span, reading, mut fault, mut repairs, partial } = draft;
    let Some(Reading { id, name, arguments, wide }) = reading else {
        return Judged { fault, call: None, repairs };
    };
    let mut blame = |kind, message: String| {
        if fault.as_ref().is_none_or(|known| kind < known.kind) {
            fault = Some(Fault::new(kind, span.start, message));
        }
    };
    let Some(tool) = tools.get(&name) else {
        blame(ParseFailureKind::UnknownTool, format!("no tool is named {:?}", shortened(&name)));
        return Judged { fault, call: None, repairs };
    };
    let mut arguments = Value::Object(arguments);
    if !tool.is_valid(&arguments) {
        let violation = tool.violation(&arguments);
        let kind = violation.as_ref().map_or(ParseFailureKind::WrongType, |violation| violation.kind);
        let message = violation.map_or_else(|| "the arguments do not fit the schema".to_owned(), |it| it.message);
        blame(kind, format!("{name}: {message}"));
        let coerced = if kind == ParseFailureKind::WrongType { coerce(tool, &arguments) } else { None };
        match coerced {
            Some(coerced) => {
                arguments = coerced;
                repairs.add(Repair::Coercion);
            }
            None => return Judged { fault, call: None, repairs },
        }
    }
    let Value::Object(arguments) = arguments else { return Judged { fault, call: None, repairs } };
    let call = ParsedCall { call: ToolCall { id, name, arguments }, span, wide };
    Judged { fault, call: Some(call).filter(|_| !partial), repairs }
}

fn failure(fault: &Fault, tools: &Toolbox, format: Option<Format>) -> ParseFailure {
    let mut hint = match fault.kind {
        ParseFailureKind::Truncated => "Raise the limit on new tokens, or write a shorter reply.".to_owned(),
        ParseFailureKind::MalformedJson => {
            "Write strict JSON: double quotes, no trailing commas, every bracket closed, \\n for a line break."
                .to_owned()
        }
        ParseFailureKind::MalformedMarkup if format.is_none() => {
            "Write a call in the model's own format, or answer in plain text.".to_owned()
        }
        ParseFailureKind::MalformedMarkup => String::new(),
        ParseFailureKind::MissingName => "Give the tool's name.".to_owned(),
        ParseFailureKind::ArgumentsNotObject => "Give the arguments as an object of names and values.".to_owned(),
        ParseFailureKind::UnknownTool => {
            let name = fault.message.split('"').nth(1).unwrap_or_default();
            match nearest(name, tools.names()) {
                Some(near) => format!("Did you mean {near:?}? {}", offered(tools)),
                None => offered(tools),
            }
        }
        ParseFailureKind::MissingRequired => "Give every required argument.".to_owned(),
        ParseFailureKind::UnexpectedArgument => "Give only arguments the tool has.".to_owned(),
        ParseFailureKind::WrongType => "Give the value the schema asks for.".to_owned(),
    };
    if matches!(fault.kind, ParseFailureKind::MalformedMarkup | ParseFailureKind::MalformedJson)
        && let Some(format) = format
    {
        if !hint.is_empty() {
            hint.push(' ');
        }
        hint.push_str(guidance(format));
    }
    ParseFailure { kind: fault.kind, message: fault.message.clone().into_owned(), at: fault.at, hint }
}

/// A format's guidance, built once: replies in a loop fail in the same few ways.
fn guidance(format: Format) -> &'static str {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| Format::ALL.map(Format::guidance).into());
    &TEXTS[format as usize]
}

/// Model text in a message, shortened: a megabyte of it would be useless.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(120).map_or(text, |(end, _)| &text[..end])
}

/// The names on offer, as many as fit in a line.
fn offered(tools: &Toolbox) -> String {
    const SHOWN: usize = 20;
    let names: Vec<_> = tools.names().take(SHOWN).collect();
    let more = tools.names().count() - names.len();
    match (names.as_slice(), more) {
        ([], _) => "No tools are offered; answer in text.".to_owned(),
        (_, 0) => format!("Tools: {}.", names.join(", ")),
        _ => format!("Tools: {} and {more} more.", names.join(", ")),
    }
}

/// The candidate closest to `name`, when it is close: at most a third of the letters differ.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Names are short; a megabyte-long name has no near match.
    if name.is_empty() || name.len() > 128 {
        return None;
    }
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.chars().count().max(name.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let tools = ["get_weather", "search", "ping"];
        assert_eq!(nearest("get_wether", tools.into_iter()), Some("get_weather"));
        assert_eq!(nearest("serach", tools.into_iter()), Some("search"));
        assert_eq!(nearest("nope", tools.into_iter()), None);
        assert_eq!(nearest("", tools.into_iter()), None);
    }
}
