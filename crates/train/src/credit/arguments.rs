//! Credit by argument: a component that judges one argument of a call is paid to the tokens of that argument alone.
//!
//! How sure an agent says it is changes its calibration and nothing else. Paid to the whole episode, a wrong answer that
//! was stated modestly is taught as a good answer; paid to the confidence alone, the answer is judged by being right.
//! The rest of the tokens are credited as without it. Negative advantages of an argument count in full: a proper score is
//! proper only if it hurts as much as it pays.

use std::ops::Range;

use hone_chat::Tokenizer;
use hone_trace::{Advantage, Credit, Group, NoSignal, Span, Trace};

use super::Weights;
use super::recipe::{BadCredit, CreditRecipe};

/// The recipe's estimator over `weights`, with its `arguments`. `components` are the rubric's, with their weights.
pub fn by_argument(
    recipe: &CreditRecipe,
    weights: Weights,
    components: &[(&str, f64)],
    tokenizer: &Tokenizer,
) -> Result<Box<dyn Credit>, BadCredit> {
    let inner = recipe.build(weights)?;
    if recipe.arguments.is_empty() {
        return Ok(inner);
    }
    if recipe.name.starts_with("turn_") {
        return Err(BadCredit::PerTurnArguments { name: recipe.name.clone() });
    }
    let alone = CreditRecipe { negative: None, ..recipe.clone() };
    let mut arguments = Vec::new();
    for (argument, component) in &recipe.arguments {
        match components.iter().find(|(name, _)| name == component) {
            None => {
                let there = components.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                return Err(BadCredit::NoComponent { argument: argument.clone(), component: component.clone(), there });
            }
            Some((_, weight)) if *weight != 0.0 => {
                return Err(BadCredit::PaidTwice { argument: argument.clone(), component: component.clone() });
            }
            Some(_) => arguments.push((argument.clone(), alone.build(Weights::only(component))?)),
        }
    }
    Ok(Box::new(ByArgument { inner, arguments, tokenizer: tokenizer.clone() }))
}

/// Another estimator's advantages, and for the tokens of some arguments those of a component of their own.
struct ByArgument {
    inner: Box<dyn Credit>,
    /// The argument's name, and what its tokens are credited by.
    arguments: Vec<(String, Box<dyn Credit>)>,
    tokenizer: Tokenizer,
}

impl ByArgument {
    /// Where the argument's value stands among the sampled tokens of a trace: its last mention in the last turn with one.
    fn find(&self, trace: &Trace, argument: &str) -> Option<Range<usize>> {
        let mut found = None;
        let mut before = 0;
        for (_, node) in trace.sampled() {
            let (mut text, mut ends) = (String::new(), Vec::new());
            let mut stream = self.tokenizer.stream();
            for &id in node.tokens() {
                text.push_str(&stream.push(id));
                ends.push(text.len());
            }
            if let Some(value) = value_of(&text, argument) {
                let start = ends.partition_point(|&end| end <= value.start);
                let end = ends.partition_point(|&end| end < value.end) + 1;
                found = Some(before + start..before + end.min(ends.len()));
            }
            before += ends.len();
        }
        found
    }

    /// `base` with the advantages of the arguments on their tokens.
    fn with_spans(&self, trace: &Trace, base: &Advantage, own: &[&Advantage]) -> Advantage {
        let mut spans: Vec<Span> = Vec::new();
        for ((argument, _), own) in self.arguments.iter().zip(own) {
            let Advantage::Whole { value } = own else { continue };
            spans.extend(self.find(trace, argument).map(|Range { start, end }| Span { start, end, value: *value }));
        }
        let value = match base {
            Advantage::Whole { value } => *value,
            Advantage::None { why: NoSignal::ZeroVariance } if !spans.is_empty() => 0.0,
            other => return other.clone(),
        };
        Advantage::Spans { value, spans }
    }
}

impl Credit for ByArgument {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let base = self.inner.credit(groups);
        let own: Vec<_> = self.arguments.iter().map(|(_, credit)| credit.credit(groups)).collect();
        let one = |group: usize, place: usize, trace: &Trace| {
            let own: Vec<_> = own.iter().map(|own| &own[group][place]).collect();
            self.with_spans(trace, &base[group][place], &own)
        };
        let traces = |(group, of): (usize, &Group)| {
            of.traces().iter().enumerate().map(|(place, trace)| one(group, place, trace)).collect()
        };
        groups.iter().enumerate().map(traces).collect()
    }
}

/// Where the value of a named argument stands in a reply, whatever the format writes calls in: after the name comes `:`,
/// `=` or `>`, then the value, quoted or up to what ends it.
fn value_of(text: &str, name: &str) -> Option<Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.rmatch_indices(name).find_map(|(at, _)| {
        if text[..at].chars().next_back().is_some_and(is_word) {
            return None;
        }
        let after = text[at + name.len()..].trim_start_matches(['"', '\'']).trim_start();
        let value = after.strip_prefix([':', '=', '>'])?.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = &value[quote.map_or(0, char::len_utf8)..];
        let ends = |c: char| match quote {
            Some(quote) => c == quote,
            None => matches!(c, ',' | '}' | ']' | ')' | '<') || c.is_whitespace(),
        };
        let length = value.find(ends).unwrap_or(value.len());
        let start = text.len() - value.len();
        (length > 0).then_some(start..start + length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_found_in_every_way_of_writing_calls() {
        for (text, value) in [
            (r#"{"name": "f", "arguments": {"confidence": 0.9, "escalate": false}}"#, "0.9"),
            (r#"{"confidence":0.25}"#, "0.25"),
            ("<parameter=confidence>\n0.5\n</parameter>", "0.5"),
            ("f(resolution='confidence: low', confidence=0.75)", "0.75"),
            (r#"{"confidence": "high"}"#, "high"),
            ("my confidence: 0.1, no: confidence: 0.2", "0.2"),
        ] {
            assert_eq!(value_of(text, "confidence").map(|range| &text[range]), Some(value), "{text}");
        }
        for text in ["", "confidence", "confidence:", "overconfidence: 1", r#"{"confidences": 1}"#] {
            assert_eq!(value_of(text, "confidence"), None, "{text}");
        }
    }
}
