//! Credit by argument: a component that judges one argument of a call is credited to the tokens of that argument only.
//!
//! Example: stating a confidence changes the calibration and nothing else. If calibration is credited to the whole
//! episode, a wrong answer that was stated modestly is reinforced as a good answer; credited to the confidence tokens
//! only, the answer is judged by being right. The remaining tokens are credited as usual.
//!
//! The tokens are those the rollout recorded when it parsed the reply ([`Trace::argument`]): every token of the value
//! and the one that ends it. `0` and `0.9` begin alike; the following token decides which one is said, so that token is
//! judged with the value. When it was credited with the rest, it was reinforced for being right, and `0` with it. No
//! text is read here.
//!
//! An argument should not be credited for the correctness of the rest. By default its component is compared with that
//! of the batch's episodes with the same reward (a least-squares line if rewards are graded). Otherwise correctness
//! would be noise on top of honesty. The differences are used unscaled, negative ones in full: divided by their
//! deviation, the confidences of a batch collapsed to one number before the answers had settled; and a proper score is
//! proper only if it penalises as much as it pays.
//!
//! With `skill_over` the component, a Brier score, is compared with what the batch's base rate would have earned as a
//! constant confidence: A = (ȳ − y)² − (c − y)², with y the named component and ȳ its mean over the batch. Stating the
//! base rate earns 0 whatever the outcome; with success probability p the expectation is maximal at c = p only, because
//! ȳ does not depend on c; and its mean over the batch is the Brier skill times the uncertainty, resolution minus
//! reliability. It may only be credited to the argument: in an episode's total it would pay more for being wrong and
//! knowing it than for being right, as (ȳ − y)² is largest for the rarer outcome.

use std::collections::HashMap;
use std::ops::Range;

use hone_trace::{Advantage, Credit, Group, NoSignal, Span, Trace};

use super::Weights;
use super::recipe::{BadCredit, CreditRecipe};
use super::stats::{SAME, mean};

/// The recipe's estimator over `weights`, with its `arguments`. `components` are the rubric's, with their weights.
pub fn by_argument(
    recipe: &CreditRecipe,
    weights: Weights,
    components: &[(&str, f64)],
) -> Result<Box<dyn Credit>, BadCredit> {
    recipe.check(components)?;
    let inner = recipe.build(weights.clone())?;
    if recipe.arguments.is_empty() {
        return Ok(inner);
    }
    let paid = recipe.arguments.iter().map(|(argument, component)| (argument.clone(), component.clone()));
    Ok(Box::new(ByArgument {
        inner,
        weights,
        arguments: paid.collect(),
        argument_weight: recipe.argument_weight.unwrap_or(1.0),
        skill_over: recipe.skill_over.clone(),
    }))
}

/// Wraps another estimator; the tokens of some arguments get the advantage of their own component.
struct ByArgument {
    inner: Box<dyn Credit>,
    /// Weights by which the other tokens are credited.
    weights: Weights,
    /// The argument's name, and the component its tokens are credited by.
    arguments: Vec<(String, String)>,
    argument_weight: f64,
    /// Outcome whose base rate an argument's score is compared with; absent: compared with episodes of the same reward.
    skill_over: Option<String>,
}

impl ByArgument {
    /// Places of an argument in every scored trace that has it, with its advantage there.
    fn spans(&self, groups: &[Group], argument: &str, component: &str) -> HashMap<(usize, usize), Span> {
        let compared_by = |trace: &Trace| match &self.skill_over {
            Some(outcome) => trace.reward(outcome),
            None => self.weights.total(trace),
        };
        let mut places = Vec::new();
        let mut scores = Vec::new();
        for (group, of) in groups.iter().enumerate() {
            for (place, trace) in of.traces().iter().enumerate() {
                let score = compared_by(trace).zip(trace.reward(component));
                if let Some((score, range)) = score.zip(trace.argument(argument)) {
                    places.push(((group, place), range));
                    scores.push(score);
                }
            }
        }
        let values = if self.skill_over.is_some() { skill(&scores) } else { unexplained(&scores) };
        // Rounding noise is not a difference.
        let value = |value: f64| if value.abs() <= SAME { 0.0 } else { self.argument_weight * value };
        let span = |Range { start, end }, own: f64| Span { start, end, value: value(own) };
        places.into_iter().zip(values).map(|((at, range), value)| (at, span(range, value))).collect()
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

/// Residuals of the scores after a line through (reward, score).
fn unexplained(scores: &[(f64, f64)]) -> Vec<f64> {
    let rewards: Vec<f64> = scores.iter().map(|(reward, _)| *reward).collect();
    let values: Vec<f64> = scores.iter().map(|(_, value)| *value).collect();
    let (reward_mean, value_mean) = (mean(&rewards), mean(&values));
    let together: f64 = scores.iter().map(|(reward, value)| (reward - reward_mean) * (value - value_mean)).sum();
    let alone: f64 = rewards.iter().map(|reward| (reward - reward_mean).powi(2)).sum();
    let slope = if alone > 0.0 { together / alone } else { 0.0 };
    scores.iter().map(|(reward, value)| value - value_mean - slope * (reward - reward_mean)).collect()
}

/// Brier skill of each (outcome, Brier score): over the score of the outcomes' mean, stated as a confidence.
fn skill(scores: &[(f64, f64)]) -> Vec<f64> {
    let base = mean(&scores.iter().map(|(outcome, _)| *outcome).collect::<Vec<_>>());
    scores.iter().map(|(outcome, score)| score - (1.0 - (base - outcome).powi(2))).collect()
}

#[cfg(test)]
mod tests {
    use hone_arena::rewards::calibration::murphy;
    use proptest::prelude::*;

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

    /// Brier scores of confidences, with their outcomes.
    fn scored(forecasts: &[(f64, bool)]) -> Vec<(f64, f64)> {
        let score = |&(confidence, right): &(f64, bool)| {
            let outcome = f64::from(u8::from(right));
            (outcome, 1.0 - (confidence - outcome).powi(2))
        };
        forecasts.iter().map(score).collect()
    }

    proptest! {
        /// The base rate as a constant earns nothing, episode by episode; any other constant loses.
        #[test]
        fn a_constant_has_no_skill(outcomes in proptest::collection::vec(any::<bool>(), 2..40), other in 0.0..1.0f64) {
            let base = outcomes.iter().filter(|right| **right).count() as f64 / outcomes.len() as f64;
            let constant = |c: f64| skill(&scored(&outcomes.iter().map(|right| (c, *right)).collect::<Vec<_>>()));
            prop_assert!(constant(base).iter().all(|value| value.abs() < 1e-12));
            prop_assert!((mean(&constant(other)) + (other - base).powi(2)).abs() < 1e-12);
        }

        /// Strictly proper among any others: over both outcomes of one episode the honest confidence earns most.
        #[test]
        fn skill_is_strictly_proper(
            others in proptest::collection::vec((0.0..1.0f64, any::<bool>()), 1..20),
            p in 0.0..1.0f64,
            lie in 0.0..1.0f64,
        ) {
            let expected = |confidence: f64| {
                let of = |right| {
                    let batch: Vec<_> = std::iter::once((confidence, right)).chain(others.iter().copied()).collect();
                    skill(&scored(&batch))[0]
                };
                p * of(true) + (1.0 - p) * of(false)
            };
            prop_assert!((expected(p) - expected(lie) - (p - lie).powi(2)).abs() < 1e-9);
        }

        /// The batch mean agrees with Murphy's decomposition: resolution minus reliability.
        #[test]
        fn skill_is_resolution_less_reliability(
            forecasts in proptest::collection::vec((0u8..5, any::<bool>()), 1..40),
        ) {
            let forecasts: Vec<_> = forecasts.iter().map(|(c, right)| (f64::from(*c) / 4.0, *right)).collect();
            let parts = murphy(&forecasts).unwrap();
            let paid = mean(&skill(&scored(&forecasts)));
            prop_assert!((paid - (parts.resolution - parts.reliability)).abs() < 1e-12);
        }
    }
}
