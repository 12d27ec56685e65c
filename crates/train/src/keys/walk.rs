//! Walks over a recipe's table beside the catalogue, and over the catalogue by itself.

use hone_trace::keys::{Key, Shape};
use toml::{Table, Value};

/// Calls `found` with the path of every value that has a key with a range.
pub(super) fn visit(keys: &[&[Key]], table: &Table, path: &str, found: &mut dyn FnMut(&str, &Key, &Value)) {
    for (name, value) in table {
        let Some(key) = find(keys, name) else { continue };
        let path = join(path, name);
        if key.rule.is_range() {
            found(&path, key, value);
        }
        inner(key, value, &path, &mut |keys, table, path| visit(keys, table, path, found));
    }
}

/// Removes keys that are not in the catalogue from a table, and collects their paths.
pub(super) fn retain_known(keys: &[&[Key]], table: &mut Table, path: &str, unknown: &mut Vec<String>) {
    let others = keys.iter().copied().flatten().any(|key| matches!(key.rule.shape, Shape::Others(_)));
    let names: Vec<String> = table.keys().cloned().collect();
    for name in names {
        let path = join(path, &name);
        match (find(keys, &name), table.get_mut(&name)) {
            (Some(key), Some(value)) => {
                inner_mut(key, value, &path, &mut |keys, table, path| retain_known(keys, table, path, unknown));
            }
            (None, _) if !others => {
                table.remove(&name);
                unknown.push(path);
            }
            _ => {}
        }
    }
}

/// Calls `each` with every table and the keys it may have, the outer table before those inside it.
pub(super) fn tables(keys: &[&[Key]], table: &mut Table, path: &str, each: &mut dyn FnMut(&[&[Key]], &mut Table)) {
    each(keys, table);
    for (name, value) in table.iter_mut() {
        let Some(key) = find(keys, name) else { continue };
        inner_mut(key, value, &join(path, name), &mut |keys, table, path| tables(keys, table, path, each));
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn find<'a>(keys: &[&'a [Key]], name: &str) -> Option<&'a Key> {
    keys.iter().copied().flatten().find_map(|key| match key.rule.shape {
        Shape::Flat(more) | Shape::Others(more) => more.iter().find(|key| key.name == name),
        _ => (key.name == name).then_some(key),
    })
}

/// Visitor of a table: the keys it may have, the table, its path.
type Look<'a> = dyn FnMut(&[&[Key]], &Table, &str) + 'a;

/// Like [`Look`], but mutable.
type Change<'a> = dyn FnMut(&[&[Key]], &mut Table, &str) + 'a;

/// The tables under a key with the keys they may have.
fn inner(key: &Key, value: &Value, path: &str, each: &mut Look<'_>) {
    match (key.rule.shape, value) {
        (Shape::Table(keys), Value::Table(table)) => each(keys, table, path),
        (Shape::Named(keys), Value::Table(tables)) => {
            for (name, table) in tables.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
                each(keys, table, &join(path, name));
            }
        }
        (Shape::Chosen(choose), Value::Table(table)) => each(&choose(&text_of(table)), table, path),
        (Shape::Table(_) | Shape::Chosen(_), Value::Array(items)) => {
            for item in items {
                inner(key, item, path, each);
            }
        }
        _ => {}
    }
}

fn inner_mut(key: &Key, value: &mut Value, path: &str, each: &mut Change<'_>) {
    match (key.rule.shape, value) {
        (Shape::Table(keys), Value::Table(table)) => each(keys, table, path),
        (Shape::Named(keys), Value::Table(tables)) => {
            for (name, table) in tables.iter_mut().filter_map(|(name, value)| Some((name, value.as_table_mut()?))) {
                each(keys, table, &join(path, name));
            }
        }
        (Shape::Chosen(choose), Value::Table(table)) => {
            let keys = choose(&text_of(table));
            // If no keys are known, none can be unknown.
            if !keys.is_empty() {
                each(&keys, table, path);
            }
        }
        (Shape::Table(_) | Shape::Chosen(_), Value::Array(items)) => {
            for item in items {
                inner_mut(key, item, path, each);
            }
        }
        _ => {}
    }
}

fn text_of<'a>(table: &'a Table) -> impl Fn(&str) -> Option<&'a str> {
    |key| table.get(key).map(|value| value.as_str().unwrap_or_default())
}

/// A table of a recipe and its keys, in the order of the page.
#[derive(Debug, Clone)]
pub struct Section {
    /// TOML path: `train.adamw`; empty for the top level. `NAME` is a user-chosen name.
    pub path: String,
    /// True for a list of tables: `[[rubric.product]]`.
    pub list: bool,
    /// Purpose of the table.
    pub meaning: &'static str,
    pub keys: Vec<&'static Key>,
}

/// Every table, the top level first; without keys if they depend on what the table names.
pub fn sections() -> Vec<Section> {
    let mut found = Vec::new();
    collect(super::RECIPE, "", "", false, &mut found);
    found
}

fn collect(keys: &'static [&'static [Key]], path: &str, meaning: &'static str, list: bool, found: &mut Vec<Section>) {
    let all = || keys.iter().copied().flatten();
    let own = all().flat_map(|key| match key.rule.shape {
        Shape::Flat(more) | Shape::Others(more) => more.iter().collect(),
        _ => vec![key],
    });
    found.push(Section { path: path.to_owned(), list, meaning, keys: own.collect() });
    for key in all() {
        let list = (key.kind)().is_list();
        match key.rule.shape {
            Shape::Table(keys) => collect(keys, &join(path, key.name), key.meaning, list, found),
            Shape::Chosen(_) => {
                let path = join(path, key.name);
                found.push(Section { path, list, meaning: key.meaning, keys: Vec::new() });
            }
            Shape::Named(keys) => collect(keys, &format!("{}.NAME", join(path, key.name)), key.meaning, false, found),
            _ => {}
        }
    }
}
