//! Small things drawn from a random stream: names, ids, addresses, calls.

use std::collections::HashSet;

use hone_trace::{Rng, ToolCall};

use super::words::{CITIES, CODAS, FIRST_NAMES, LAST_NAMES, ONSETS, STREETS, VOWELS};
use super::{Names, pick};
use crate::domains::py::Value;

/// Ids that were not given out before.
#[derive(Debug, Default)]
pub(super) struct Ids(HashSet<String>);

impl Ids {
    pub(super) fn fresh(&mut self, mut draw: impl FnMut() -> String) -> String {
        loop {
            let id = draw();
            if self.0.insert(id.clone()) {
                return id;
            }
        }
    }

    pub(super) fn digits(&mut self, rng: &mut Rng, prefix: &str, count: u32) -> String {
        self.fresh(|| format!("{prefix}{:0width$}", rng.below(10usize.pow(count)), width = count as usize))
    }
}

/// First and last name.
pub(super) fn name(rng: &mut Rng, names: Names) -> (String, String) {
    match names {
        Names::Common => ((*pick(rng, &FIRST_NAMES)).to_owned(), (*pick(rng, &LAST_NAMES)).to_owned()),
        Names::Invented => (invented_name(rng), invented_name(rng)),
    }
}

/// Two or three syllables: `Velan`, `Kituro`.
fn invented_name(rng: &mut Rng) -> String {
    let mut name: String = (0..2 + rng.below(2)).flat_map(|_| [*pick(rng, &ONSETS), *pick(rng, &VOWELS)]).collect();
    name.push_str(pick::<&str>(rng, &CODAS));
    name[..1].to_uppercase() + &name[1..]
}

/// An address, its keys in the order of the data sets.
pub(super) fn address(rng: &mut Rng) -> Value {
    let (city, state, zip) = pick(rng, &CITIES);
    Value::dict([
        ("address1", Value::str(format!("{} {}", 100 + rng.below(900), pick(rng, &STREETS)))),
        ("address2", Value::str(format!("Suite {}", 100 + rng.below(900)))),
        ("city", (*city).into()),
        ("country", "USA".into()),
        ("state", (*state).into()),
        ("zip", Value::str(format!("{zip}{:02}", rng.below(100)))),
    ])
}

pub(super) fn date_of_birth(rng: &mut Rng) -> String {
    format!("{}-{:02}-{:02}", 1950 + rng.below(55), 1 + rng.below(12), 1 + rng.below(28))
}

/// True with this chance in a hundred.
pub(super) fn chance(rng: &mut Rng, percent: usize) -> bool {
    rng.below(100) < percent
}

/// A call with arguments in order.
pub(super) fn call(name: &str, arguments: &[(&str, serde_json::Value)]) -> ToolCall {
    ToolCall::new(name, arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// The text of a field; empty where it is something else.
pub(super) fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record.as_dict().and_then(|fields| fields.get(name)).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items<'a>(record: &'a Value, name: &str) -> &'a [Value] {
    record.as_dict().and_then(|fields| fields.get(name)).and_then(Value::as_list).unwrap_or_default()
}

pub(super) fn whole(record: &Value, name: &str) -> i64 {
    match record.as_dict().and_then(|fields| fields.get(name)) {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}
