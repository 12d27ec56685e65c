//! Keys that a recipe's author wrote, as against those that have their default.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// Dotted keys of a recipe's text and of `key=value` settings over it. A text that cannot be read has none.
pub fn given(text: &str, settings: &[String]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    walk("", &toml::from_str::<Table>(text).unwrap_or_default(), &mut keys);
    for setting in settings {
        // A table that is set has keys of its own.
        walk("", &toml::from_str::<Table>(setting).unwrap_or_default(), &mut keys);
        keys.extend(setting.split_once('=').map(|(key, _)| key.trim().to_owned()));
    }
    keys
}

fn walk(prefix: &str, table: &Table, keys: &mut BTreeSet<String>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if let Value::Table(inner) = value {
            walk(&key, inner, keys);
        }
        keys.insert(key);
    }
}
