//! Credit by argument: a component that judges one argument of a call is paid to the tokens of that argument alone.
//!
//! How sure an agent says it is changes its calibration and nothing else. Paid to the whole episode, a wrong answer that
//! was stated modestly is taught as a good answer; paid to the confidence alone, the answer is judged by being right.
//! The rest of the tokens are credited as without it.
//!
//! An argument does not answer for how right the rest was: its component is compared with what the batch's episodes of the
//! same reward got (a least-squares line where rewards are graded). Without that, being right and being honest are one
//! noise. The differences count as they are, those under 0 in full: divided by their deviation, the confidences of a batch
//! ran to one number before the answers had settled; and a proper score is proper only if it hurts as much as it pays.

use std::collections::HashMap;
use std::ops::Range;

use hone_chat::Tokenizer;
use hone_trace::{Advantage, Credit, Group, NoSignal, Span, Trace};

use super::Weights;
use super::recipe::{BadCredit, CreditRecipe};
use super::stats::mean;

/// The recipe's estimator over `weights`, with its `arguments`. `components` are the rubric's, with their weights.
pub fn by_argument(
    recipe: &CreditRecipe,
    weights: Weights,
    components: &[(&str, f64)],
    tokenizer: &Tokenizer,
) -> Result<Box<dyn Credit>, BadCredit> {
    recipe.check(components)?;
    let inner = recipe.build(weights.clone())?;
    if recipe.arguments.is_empty() {
        return Ok(inner);
    }
    let paid = recipe.arguments.iter().map(|(argument, component)| (argument.clone(), Weights::only(component)));
    let (arguments, argument_weight) = (paid.collect(), recipe.argument_weight.unwrap_or(1.0));
    Ok(Box::new(ByArgument { inner, weights, arguments, argument_weight, tokenizer: tokenizer.clone() }))
}

/// Another estimator's advantages, and for the tokens of some arguments those of a component of their own.
struct ByArgument {
    inner: Box<dyn Credit>,
    /// What the other tokens are credited by.
    weights: Weights,
    /// The argument's name, and the component its tokens are credited by.
    arguments: Vec<(String, Weights)>,
    argument_weight: f64,
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

    /// Where an argument stands in every trace that has it and was scored, with its advantage there.
    fn spans(&self, groups: &[Group], argument: &str, component: &Weights) -> HashMap<(usize, usize), Span> {
        let mut places = Vec::new();
        let mut scores = Vec::new();
        for (group, of) in groups.iter().enumerate() {
            for (place, trace) in of.traces().iter().enumerate() {
                let score = self.weights.total(trace).zip(component.total(trace));
                if let Some((score, range)) = score.zip(self.find(trace, argument)) {
                    places.push(((group, place), range));
                    scores.push(score);
                }
            }
        }
        let own = places.into_iter().zip(unexplained(&scores));
        let span = |Range { start, end }, value: f64| Span { start, end, value: self.argument_weight * value };
        own.map(|((at, range), value)| (at, span(range, value))).collect()
    }
}

/// `base` with the advantages of the arguments on their tokens.
fn with_spans(base: Advantage, spans: Vec<Span>) -> Advantage {
    let told_apart = spans.iter().any(|span| span.value != 0.0);
    match base {
        Advantage::Whole { value } => Advantage::Spans { value, spans },
        Advantage::None { why: NoSignal::ZeroVariance } if told_apart => Advantage::Spans { value: 0.0, spans },
        other => other,
    }
}

impl Credit for ByArgument {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let own: Vec<_> =
            self.arguments.iter().map(|(argument, component)| self.spans(groups, argument, component)).collect();
        let spans = |at| own.iter().filter_map(|spans| spans.get(&at).copied()).collect();
        let base = self.inner.credit(groups).into_iter().enumerate();
        base.map(|(group, of)| {
            of.into_iter().enumerate().map(|(place, base)| with_spans(base, spans((group, place)))).collect()
        })
        .collect()
    }
}

/// What a line through (reward, score) leaves of each score.
fn unexplained(scores: &[(f64, f64)]) -> Vec<f64> {
    let rewards: Vec<f64> = scores.iter().map(|(reward, _)| *reward).collect();
    let values: Vec<f64> = scores.iter().map(|(_, value)| *value).collect();
    let (reward_mean, value_mean) = (mean(&rewards), mean(&values));
    let together: f64 = scores.iter().map(|(reward, value)| (reward - reward_mean) * (value - value_mean)).sum();
    let alone: f64 = rewards.iter().map(|reward| (reward - reward_mean).powi(2)).sum();
    let slope = if alone > 0.0 { together / alone } else { 0.0 };
    scores.iter().map(|(reward, value)| value - value_mean - slope * (reward - reward_mean)).collect()
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
    fn what_the_reward_explains_is_left_out() {
        let linear: Vec<(f64, f64)> = [0.0, 0.3, 0.5, 1.0].map(|reward| (reward, 0.2 + 0.6 * reward)).to_vec();
        assert!(unexplained(&linear).iter().all(|rest| rest.abs() < 1e-12));
        // Right or wrong: each is compared with the mean of its own.
        let binary = [(1.0, 0.99), (1.0, 0.75), (0.0, 0.19), (0.0, 0.75)];
        let rest = unexplained(&binary);
        assert!(rest.iter().zip([0.12, -0.12, -0.28, 0.28]).all(|(a, b)| (a - b).abs() < 1e-12), "{rest:?}");
        // Equal rewards explain nothing.
        assert!(unexplained(&[(0.5, 0.2), (0.5, 0.6)]).iter().zip([-0.2, 0.2]).all(|(a, b)| (a - b).abs() < 1e-12));
    }

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
