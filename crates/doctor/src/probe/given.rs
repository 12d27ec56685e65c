//! Keys that a recipe's author wrote, as against those that have their default.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// Dotted keys of a recipe's text and of `key=value` settings over it. A text that cannot be read has none.
pub fn given(text: &str, settings: &[String]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    walk("", &toml::from_str::<Table>(text).unwrap_or_default(), &mut keys);
    keys.extend(settings.iter().filter_map(|setting| Some(setting.split_once('=')?.0.trim().to_owned())));
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
