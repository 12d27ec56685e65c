//! Rubrics as they are written in recipes and given to `hone score`.
//!
//! ```toml
//! [[component]]
//! kind = "rouge_l"          # one of KINDS; the component's own options stand beside it
//! name = "quality"          # default: the kind
//! weight = 0                # default 1; 0: watched, a gate or a factor only
//! on = "resolution"
//!
//! [[component]]
//! kind = "parsimony"
//! weight = 0
//!
//! [[component]]
//! kind = "format"
//! gate = 0.5                # below it the total is at most 0
//!
//! [[product]]
//! name = "concise_quality"
//! of = ["quality", "parsimony"]
//! weight = 1.5
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::assertions::Assertions;
use super::endpoint::Endpoint;
use super::judge::Judge;
use super::{Component, Named, Product, Rubric, RubricError, Term};
use super::{
    calibration, command, correct, cosine, cost, format, grounding, overlong, parse_penalty, parsimony, process,
    repetition, rouge, state_diff, support, tau,
};
use crate::stdio::StdioScorer;

/// A rubric as written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RubricSpec {
    #[serde(default)]
    pub component: Vec<Map<String, Value>>,
    #[serde(default)]
    pub product: Vec<ProductSpec>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProductSpec {
    pub name: String,
    pub of: Vec<String>,
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

/// What is wrong with a rubric as written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("component {0} has no `kind`; the kinds are {kinds}", kinds = KINDS.join(", "))]
    NoKind(usize),
    #[error("there is no reward component {0:?}; the kinds are {kinds}", kinds = KINDS.join(", "))]
    UnknownKind(String),
    #[error("component {name}: {what}")]
    Options { name: String, what: String },
    #[error(transparent)]
    Rubric(#[from] RubricError),
}

impl RubricSpec {
    /// One component of weight 1 with its options.
    pub fn single(kind: &str, mut options: Map<String, Value>) -> Self {
        options.insert("kind".into(), kind.into());
        Self { component: vec![options], product: Vec::new() }
    }

    pub fn build(&self) -> Result<Rubric, SpecError> {
        let terms = self.component.iter().enumerate().map(|(i, table)| term(i, table)).collect::<Result<_, _>>()?;
        let products = self.product.iter().map(|spec| {
            let ProductSpec { name, of, weight } = spec.clone();
            Product { name, of, weight }
        });
        Ok(Rubric::new(terms, products.collect())?)
    }
}

/// The keys of a component's table that are the rubric's, not the component's.
#[derive(Deserialize)]
#[serde(default)]
struct Place {
    kind: Option<String>,
    name: Option<String>,
    weight: f64,
    gate: Option<f64>,
    required: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self { kind: None, name: None, weight: 1.0, gate: None, required: false }
    }
}

fn term(index: usize, table: &Map<String, Value>) -> Result<Term, SpecError> {
    let bad = |name: &str, what: String| SpecError::Options { name: name.into(), what };
    let place: Place = serde_json::from_value(Value::Object(table.clone()))
        .map_err(|error| bad(&index.to_string(), error.to_string()))?;
    let kind = place.kind.ok_or(SpecError::NoKind(index))?;
    let name = place.name.unwrap_or_else(|| kind.clone());
    let mut options = table.clone();
    options.retain(|key, _| !["kind", "name", "weight", "gate", "required"].contains(&key.as_str()));
    let component = match build(&kind, Value::Object(options)) {
        None => return Err(SpecError::UnknownKind(kind)),
        Some(Err(what)) => return Err(bad(&name, what)),
        Some(Ok(component)) => component,
    };
    Ok(Term { scorer: Named { name, component }, weight: place.weight, gate: place.gate, required: place.required })
}

type Built = Result<Box<dyn Component>, String>;

macro_rules! kinds {
    ($($kind:literal => $build:expr),+ $(,)?) => {
        /// Every kind of component a rubric can name.
        pub const KINDS: &[&str] = &[$($kind),+];

        /// The component of a kind, or `None` when there is no such kind.
        fn build(kind: &str, options: Value) -> Option<Built> {
            match kind {
                $($kind => Some($build(options)),)+
                _ => None,
            }
        }
    };
}

kinds! {
    "format" => plain::<format::Format>,
    "rouge_l" => plain::<rouge::RougeL>,
    "grounding" => plain::<grounding::Grounding>,
    "support" => plain::<support::Support>,
    "correct" => plain::<correct::Correct>,
    "calibration" => plain::<calibration::Calibration>,
    "parsimony" => plain::<parsimony::Parsimony>,
    "repetition" => plain::<repetition::Repetition>,
    "citation_repetition" => plain::<repetition::CitationRepetition>,
    "tau" => plain::<tau::Tau>,
    "tau_state" => plain::<tau::TauState>,
    "tau_outputs" => plain::<tau::TauOutputs>,
    "partial_credit" => plain::<state_diff::PartialCredit>,
    "found_first" => plain::<process::FoundFirst>,
    "confirmed" => plain::<process::Confirmed>,
    "invented_ids" => plain::<process::InventedIds>,
    "repeated_calls" => plain::<process::RepeatedCalls>,
    "turn_cost" => plain::<cost::TurnCost>,
    "length_cost" => plain::<cost::LengthCost>,
    "soft_overlong" => plain::<overlong::SoftOverlong>,
    "cosine" => plain::<cosine::Cosine>,
    "parse_penalty" => plain::<parse_penalty::ParsePenalty>,
    "judge" => judge,
    "nl_assertions" => assertions,
    "command" => plain::<command::Verifier>,
    "stdio" => plain::<StdioScorer>,
}

/// A component that is its own options.
fn plain<C: Component + DeserializeOwned + 'static>(options: Value) -> Built {
    let component: C = serde_json::from_value(options).map_err(|error| error.to_string())?;
    Ok(Box::new(component))
}

/// A chat model's options, with `criteria` and `answer` beside them.
fn judge(options: Value) -> Built {
    let Value::Object(mut options) = options else { return Err("a judge's options are a table".into()) };
    let Some(Value::String(criteria)) = options.remove("criteria") else {
        return Err("a judge needs `criteria`: what a good answer is, in words".into());
    };
    Ok(Box::new(Judge::new(endpoint(options)?, criteria)))
}

/// A chat model's options, with `answer` beside them.
fn assertions(options: Value) -> Built {
    let Value::Object(options) = options else { return Err("a judge's options are a table".into()) };
    Ok(Box::new(Assertions::new(endpoint(options)?)))
}

fn endpoint(mut options: Map<String, Value>) -> Result<Endpoint, String> {
    let read = |error: serde_json::Error| error.to_string();
    let answer = options.remove("answer").map(serde_json::from_value).transpose().map_err(read)?.unwrap_or_default();
    Endpoint::new(serde_json::from_value(Value::Object(options)).map_err(read)?, answer)
}
