//! Rubrics as written in recipes and passed to `hone score`.
//!
//! ```toml
//! [[component]]
//! kind = "rouge_l"          # one of docs/rewards.md; the component's own options stand beside it
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

use hone_trace::with_nearest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::COMPONENTS;
use super::catalogue::find;
use super::{Named, Product, Rubric, RubricError, Term};
use crate::catalogue::{Documented as _, Key, Kind, UnknownName};
use crate::documented;

documented! {
    /// A rubric as written.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RubricSpec {
        /// Parts of the reward, one table each: docs/rewards.md.
        #[serde(default)]
        pub component: Vec<Map<String, Value>> where named(component_keys),
        /// Products of components, one table each.
        #[serde(default)]
        pub product: Vec<ProductSpec> where table::<ProductSpec>(),
    }
}

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ProductSpec {
        /// Name in traces, metrics and reports.
        pub name: String,
        /// Names of the components that are multiplied.
        pub of: Vec<String>,
        /// Weight in the total.
        #[serde(default = "one")]
        pub weight: f64 where real(0.0, 1e6),
    }
}

/// The keys of a component's table: the rubric's, and those of its kind. All keys of all kinds if it names none.
fn component_keys<'a>(text: &dyn Fn(&str) -> Option<&'a str>) -> Vec<&'static [Key]> {
    let kind = text("kind");
    let own = COMPONENTS.iter().filter(|entry| kind.is_none_or(|kind| kind == entry.name));
    own.flat_map(|entry| entry.options.keys).copied().chain([PlaceSpec::KEYS]).collect()
}

fn one() -> f64 {
    1.0
}

/// Errors in a rubric as written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("component {0} has no `kind`; the kinds are {kinds}", kinds = kinds())]
    NoKind(usize),
    #[error(transparent)]
    UnknownKind(#[from] UnknownName),
    #[error("component {name}: {what}")]
    Options { name: String, what: String },
    #[error(transparent)]
    Rubric(#[from] RubricError),
}

fn kinds() -> String {
    COMPONENTS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

impl RubricSpec {
    /// One component of weight 1 with its options.
    pub fn single(kind: &str, mut options: Map<String, Value>) -> Self {
        options.insert("kind".into(), kind.into());
        Self { component: vec![options], product: Vec::new() }
    }

    /// True if there is no component and no product.
    pub fn is_empty(&self) -> bool {
        self.component.is_empty() && self.product.is_empty()
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

documented! {
    /// The keys of a component's table that are the rubric's, not the component's.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub(super) struct PlaceSpec {
        /// Kind of the component: a name of this page.
        kind: Option<String> where open().needed(),
        /// Name of the component in traces, metrics and reports; absent: its kind.
        name: Option<String>,
        /// Weight in the total; 0: watched, a gate or a factor of a product only.
        weight: f64 where real(0.0, 1e6),
        /// Below this value of the component the total is at most 0.
        gate: Option<f64> where real(-1e6, 1e6),
        /// An episode without a value of this component has no total.
        required: bool,
        /// Value if the episode did not produce the component's input, for example because it ended early; absent:
        /// unscored, with the weight redistributed to the others. A scorer or a judge that failed is unscored either
        /// way.
        otherwise: Option<f64> where real(-1e6, 1e6),
    }
}

impl Default for PlaceSpec {
    fn default() -> Self {
        Self { kind: None, name: None, weight: 1.0, gate: None, required: false, otherwise: None }
    }
}

/// The component's name in an error, before its table could be read: as written, or its number.
fn called(index: usize, table: &Map<String, Value>) -> String {
    let written = ["name", "kind"].iter().find_map(|key| table.get(*key)?.as_str());
    written.map_or_else(|| (index + 1).to_string(), str::to_owned)
}

/// The first of the rubric's keys whose value is of another type.
fn mistyped(table: &Map<String, Value>) -> Option<String> {
    PlaceSpec::KEYS.iter().find_map(|key| {
        let value = table.get(key.name)?;
        let alone = Map::from_iter([(key.name.to_owned(), value.clone())]);
        let wrong = serde_json::from_value::<PlaceSpec>(Value::Object(alone)).is_err();
        let kind = (key.kind)();
        let article = if kind == Kind::Number { "a " } else { "" };
        wrong.then(|| format!("`{}` is {value}; write {article}{kind}", key.name))
    })
}

/// serde's error about an unknown option, with the rubric's own keys among the known ones: `wieght` was meant for the
/// rubric.
fn with_own_keys(what: &str) -> String {
    let own = PlaceSpec::KEYS.iter().map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ");
    match what {
        _ if !what.starts_with("unknown field") => what.to_owned(),
        _ if what.contains("there are no fields") => {
            what.replace("there are no fields", &format!("expected one of {own}"))
        }
        _ if what.contains("expected one of ") => {
            what.replacen("expected one of ", &format!("expected one of {own}, "), 1)
        }
        _ => what.replacen("expected ", &format!("expected one of {own}, "), 1),
    }
}

/// An error about a component's options with the nearest key, or where to look if it carries no advice yet.
fn with_advice(what: &str) -> String {
    match with_nearest(what) {
        plain if !plain.contains([';', '\n']) => format!("{plain}; docs/rewards.md lists its keys"),
        advised => advised,
    }
}

fn term(index: usize, table: &Map<String, Value>) -> Result<Term, SpecError> {
    let bad = |name: &str, what: String| SpecError::Options { name: name.into(), what: with_advice(&what) };
    let place: PlaceSpec = serde_json::from_value(Value::Object(table.clone()))
        .map_err(|error| bad(&called(index, table), mistyped(table).unwrap_or_else(|| error.to_string())))?;
    let kind = place.kind.clone().ok_or(SpecError::NoKind(index))?;
    let name = place.name.clone().unwrap_or_else(|| kind.clone());
    let mut options = table.clone();
    options.retain(|key, _| PlaceSpec::KEYS.iter().all(|known| known.name != key));
    let component = (find(&kind)?.make)(Value::Object(options)).map_err(|what| bad(&name, with_own_keys(&what)))?;
    let PlaceSpec { weight, gate, required, otherwise, .. } = place;
    Ok(Term { scorer: Named { name, component }, weight, gate, required, otherwise })
}
