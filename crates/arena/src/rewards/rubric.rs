//! The rubric: components with weights, gates and products, and one total.
//!
//! total = Σ weight · value over the scored components, scaled by (all weight / scored weight): an unscored component
//! leaves the sum together with its weight and never counts as 0. A gate below its threshold caps the total at 0; an
//! unscored gate leaves the total unscored, and so does a component marked required. Every component is kept beside the
//! total, so that training can normalise them separately.

use futures::future::join_all;
use hone_trace::{EndState, Reward, Trace, Verdict};

use super::{Case, Component, Named, scored, unscored};

/// The name of the total among a trace's rewards.
pub const TOTAL: &str = "total";

/// Start of the reason for a component's `otherwise`.
pub const OTHERWISE: &str = "otherwise: ";

/// One component of a rubric.
#[derive(Debug)]
pub struct Term {
    pub scorer: Named,
    /// Weight in the sum; 0 for a component that is only recorded, a gate, or a factor of a product.
    pub weight: f64,
    /// Gate: the least value that lets the rubric pay.
    pub gate: Option<f64>,
    /// True when the total makes no sense without it.
    pub required: bool,
    /// Value if the component does not apply to the episode.
    pub otherwise: Option<f64>,
}

impl Term {
    /// Verdict of the component, or its `otherwise` if its input is missing.
    fn reward(&self, verdict: Verdict) -> Reward {
        let verdict = match (verdict, self.otherwise) {
            (Verdict::NotApplicable { why }, Some(value)) => scored(value, format!("{OTHERWISE}{why}")),
            (verdict, _) => verdict,
        };
        Reward::new(&self.scorer.name, verdict)
    }

    pub fn new(name: impl Into<String>, weight: f64, component: impl Component + 'static) -> Self {
        let scorer = Named { name: name.into(), component: Box::new(component) };
        Self { scorer, weight, gate: None, required: false, otherwise: None }
    }
}

/// A product of components, weighed as one: quality times parsimony.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    pub name: String,
    pub of: Vec<String>,
    pub weight: f64,
}

/// A weighted set of components.
#[derive(Debug)]
pub struct Rubric {
    terms: Vec<Term>,
    products: Vec<Product>,
}

/// Scorecard of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Scorecard {
    /// Every component, then every product, in the rubric's order.
    pub components: Vec<Reward>,
    pub total: Reward,
}

/// Reason why components do not form a rubric.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RubricError {
    #[error("the rubric has no component with a weight or a product with one; give one of them `weight = 1`")]
    Weightless,
    #[error(
        "{name}: a weight is a finite number of at least 0, found {weight}; let the component return negative values for a penalty"
    )]
    Weight { name: String, weight: f64 },
    #[error("two components are named {0:?}; give one of them another `name`")]
    Duplicate(String),
    #[error("product {product:?} has the factor {factor:?}, which is not a component; the components are {known}")]
    UnknownFactor { product: String, factor: String, known: String },
    #[error("product {0:?} has no factors; name components in `of`")]
    EmptyProduct(String),
    #[error("{name}: a gate is a finite number, found {gate}; write gate = 0.5, or leave it out")]
    Gate { name: String, gate: f64 },
}

impl Rubric {
    pub fn new(terms: Vec<Term>, products: Vec<Product>) -> Result<Self, RubricError> {
        let rubric = Self { terms, products };
        let mut seen = std::collections::HashSet::from([TOTAL]);
        for (name, weight) in rubric.weights() {
            if !seen.insert(name) {
                return Err(RubricError::Duplicate(name.into()));
            }
            if !weight.is_finite() || weight < 0.0 {
                return Err(RubricError::Weight { name: name.into(), weight });
            }
        }
        if rubric.weights().all(|(_, weight)| weight == 0.0) {
            return Err(RubricError::Weightless);
        }
        for term in &rubric.terms {
            if let Some(gate) = term.gate.filter(|gate| !gate.is_finite()) {
                return Err(RubricError::Gate { name: term.scorer.name.clone(), gate });
            }
        }
        for product in &rubric.products {
            if product.of.is_empty() {
                return Err(RubricError::EmptyProduct(product.name.clone()));
            }
            if let Some(factor) =
                product.of.iter().find(|factor| rubric.terms.iter().all(|t| t.scorer.name != **factor))
            {
                let known: Vec<&str> = rubric.terms.iter().map(|term| term.scorer.name.as_str()).collect();
                return Err(RubricError::UnknownFactor {
                    product: product.name.clone(),
                    factor: factor.clone(),
                    known: known.join(", "),
                });
            }
        }
        Ok(rubric)
    }

    /// Name and weight of every component and product, in the order of [`Scorecard::components`].
    pub fn weights(&self) -> impl Iterator<Item = (&str, f64)> {
        let terms = self.terms.iter().map(|term| (term.scorer.name.as_str(), term.weight));
        terms.chain(self.products.iter().map(|product| (product.name.as_str(), product.weight)))
    }

    /// Scores an episode. A fault leaves everything unscored.
    pub async fn score(&self, trace: &Trace, end: &EndState) -> Scorecard {
        match Case::of(trace, end) {
            Ok(case) => self.score_case(&case).await,
            Err(why) => self.unscored(&why),
        }
    }

    /// Scores a case. Components that wait for external services wait concurrently.
    pub async fn score_case(&self, case: &Case) -> Scorecard {
        let verdicts = join_all(self.terms.iter().map(|term| term.scorer.component.verdict(case))).await;
        let components = self.terms.iter().zip(verdicts).map(|(term, verdict)| term.reward(verdict));
        self.weigh(components.collect())
    }

    /// Scores cases concurrently.
    pub async fn score_cases<'a>(&self, cases: impl IntoIterator<Item = &'a Case>) -> Vec<Scorecard> {
        join_all(cases.into_iter().map(|case| self.score_case(case))).await
    }

    /// Products and total over the components' verdicts, one reward per term in the rubric's order.
    pub fn weigh(&self, mut components: Vec<Reward>) -> Scorecard {
        for product in &self.products {
            let verdict = multiply(product, &components);
            components.push(Reward::new(&product.name, verdict));
        }
        let total = Reward::new(TOTAL, self.total(&components));
        Scorecard { components, total }
    }

    fn total(&self, components: &[Reward]) -> Verdict {
        for (term, reward) in self.terms.iter().zip(components) {
            if reward.value().is_none() && (term.required || term.gate.is_some()) {
                let role = if term.gate.is_some() { "a gate" } else { "required" };
                return unscored(format!("{} is {role} and unscored: {}", reward.component, reward.why()));
            }
        }
        let (mut sum, mut scored_weight, mut all_weight) = (0.0, 0.0, 0.0);
        let mut left_out = Vec::new();
        for ((name, weight), reward) in self.weights().zip(components) {
            all_weight += weight;
            match reward.value() {
                Some(value) => {
                    sum += weight * value;
                    scored_weight += weight;
                }
                None if weight > 0.0 => left_out.push(name),
                None => {}
            }
        }
        if scored_weight == 0.0 {
            return unscored(format!("no component with a weight was scored ({} left out)", left_out.join(", ")));
        }
        let total = if left_out.is_empty() { sum } else { sum * (all_weight / scored_weight) };
        let closed: Vec<&str> = self.closed_gates(components).collect();
        match (closed.as_slice(), left_out.as_slice()) {
            ([], []) => scored(total, "sum: all components"),
            ([], left_out) => scored(total, format!("sum: without {}, its weight shared out", left_out.join(", "))),
            // A closed gate removes what was earned, but not the penalties.
            (closed, _) => scored(total.min(0.0), format!("gate_closed: {}", closed.join(", "))),
        }
    }

    fn closed_gates<'a>(&'a self, components: &'a [Reward]) -> impl Iterator<Item = &'a str> {
        self.terms.iter().zip(components).filter_map(|(term, reward)| {
            let (gate, value) = (term.gate?, reward.value()?);
            (value < gate).then_some(term.scorer.name.as_str())
        })
    }

    /// The card of an episode that cannot be scored.
    pub fn unscored(&self, why: &str) -> Scorecard {
        let components = self.weights().map(|(name, _)| Reward::unscored(name, why)).collect();
        Scorecard { components, total: Reward::unscored(TOTAL, why) }
    }
}

fn multiply(product: &Product, components: &[Reward]) -> Verdict {
    let mut value = 1.0;
    for factor in &product.of {
        let Some(reward) = components.iter().find(|reward| reward.component == *factor) else {
            return unscored(format!("{factor} was not scored at all"));
        };
        match reward.value() {
            Some(factor) => value *= factor,
            None => return unscored(format!("{factor} is unscored: {}", reward.why())),
        }
    }
    scored(value, format!("product: {}", product.of.join(" x ")))
}
