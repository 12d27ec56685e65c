//! Partial credit by state: the share of the reference's changes that were made, minus unwanted changes.
//!
//! (made and wanted - made and unwanted) / wanted, at least 0, over the leaves of the state. A wanted leaf set to a
//! wrong value is both missed and unwanted. If the reference changes nothing, 1 for changing nothing and 0 otherwise.
//!
//! Laws: 1 exactly when the final state is the reference's; making one more wanted change never lowers it; making one
//! more unwanted change never raises it; doing nothing earns 0 if something was to be done.

use std::collections::BTreeMap;

use hone_trace::Verdict;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "partial_credit",
    about: "Share of the reference's changes to the database that were made, minus unwanted changes, from 0 to 1",
    advice: "For when tau is almost always 0; anneal its weight to 0, since half a change helps no customer",
    paper: None,
    options: Options::NONE,
    make: plain::<PartialCredit>,
};

/// One leaf of the state that differs from the episode's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// JSON pointer of the leaf: `/orders/#W123/status`.
    pub path: String,
    /// The value now. Absent: it was removed (`null` is a value).
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Serde reads `null` into `None`; here only an absent key is `None`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PartialCredit {}

impl Measure for PartialCredit {
    fn measure(&self, case: &Case) -> Verdict {
        match (&case.changes, &case.states) {
            (Some(changes), _) => partial_credit(&changes.made, &changes.wanted),
            (None, Some(states)) => {
                let wanted = diff(&states.initial, &states.reference);
                partial_credit(&diff(&states.initial, &states.r#final), &wanted)
            }
            (None, None) => not_applicable("the case has neither `changes` nor `states`"),
        }
    }
}

pub fn partial_credit(made: &[Change], wanted: &[Change]) -> Verdict {
    let (made, wanted) = (by_path(made), by_path(wanted));
    let hits = wanted.iter().filter(|(path, to)| made.get(*path).is_some_and(|made| same_leaf(*made, **to))).count();
    let unwanted = made.len() - hits;
    if wanted.is_empty() {
        let value = if made.is_empty() { 1.0 } else { 0.0 };
        return scored(value, format!("no_op: nothing was to be changed, {unwanted} changes were made"));
    }
    let value = (hits as f64 - unwanted as f64) / wanted.len() as f64;
    scored(value.max(0.0), format!("changes: {hits} of {} wanted, {unwanted} unwanted", wanted.len()))
}

fn by_path(changes: &[Change]) -> BTreeMap<&str, Option<&Value>> {
    changes.iter().map(|change| (change.path.as_str(), change.to.as_ref())).collect()
}

/// The leaves in which `to` differs from `from`.
pub fn diff(from: &Value, to: &Value) -> Vec<Change> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    leaves(from, &mut String::new(), &mut before);
    leaves(to, &mut String::new(), &mut after);
    let removed =
        before.keys().filter(|path| !after.contains_key(*path)).map(|path| Change { path: path.clone(), to: None });
    let set = after
        .iter()
        .filter(|(path, value)| !before.get(*path).is_some_and(|old| same(old, value)))
        .map(|(path, value)| Change { path: path.clone(), to: Some((*value).clone()) });
    removed.chain(set).collect()
}

/// Scalars and empty containers, under their JSON pointers.
fn leaves<'a>(value: &'a Value, path: &mut String, out: &mut BTreeMap<String, &'a Value>) {
    let length = path.len();
    let mut child = |key: &str, value: &'a Value| {
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        leaves(value, path, out);
        path.truncate(length);
    };
    match value {
        Value::Object(map) if !map.is_empty() => map.iter().for_each(|(key, value)| child(key, value)),
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(i, value)| child(&i.to_string(), value));
        }
        leaf => {
            out.insert(path.clone(), leaf);
        }
    }
}

fn same_leaf(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Equality with numbers compared by value: 1 and 1.0 are the same state, whatever a hash of the text says.
fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b)
}
