//! The catalogue of recipe keys: every key a recipe may have, with its type, default, range and meaning.
//!
//! It is [`Recipe`]'s own documentation ([`hone_trace::documented!`]) read as a tree, so a key is declared in one place
//! only: the field that holds it. Ranges are enforced here, before serde sees a value, and docs/recipes.md is
//! generated.

mod page;
mod walk;

use hone_trace::foreign;
use hone_trace::keys::{Documented as _, Key, Rule, Shape};
use toml::{Table, Value};

use crate::recipe::{Recipe, RecipeError};

pub use page::{EXAMPLE, LEAST, page};
pub use walk::{Section, sections};

/// The keys of a recipe's top level; tables hold the others.
pub const RECIPE: &[&[Key]] = &[Recipe::KEYS];

/// Refuses numbers outside their key's range. Values of another type are left to serde, which can show their line.
pub(crate) fn check(table: &Table) -> Result<(), RecipeError> {
    let mut refused = None;
    walk::visit(RECIPE, table, "", &mut |path, key, value| {
        if refused.is_none() && !within(&key.rule, value) {
            refused = Some((path.to_owned(), key.rule, value.clone()));
        }
    });
    match refused {
        None => Ok(()),
        Some((path, rule, value)) => Err(RecipeError::new(out_of_range(&path, &rule, &value))),
    }
}

/// Refuses numbers of an `[env]` table outside their key's range.
pub fn check_env(env: &serde_json::Map<String, serde_json::Value>) -> Result<(), RecipeError> {
    // A value that TOML cannot hold is no number; the environment itself refuses it.
    let Ok(env) = Value::try_from(env) else { return Ok(()) };
    check(&Table::from_iter([("env".to_owned(), env)]))
}

/// Removes numbers that `--set KEY=none` replaced by the word: the key is then absent.
pub(crate) fn remove_none(table: &mut Table) {
    let mut removed = Vec::new();
    walk::visit(RECIPE, table, "", &mut |path, _, value| {
        if value.as_str() == Some(NONE) {
            removed.push(path.to_owned());
        }
    });
    for path in removed {
        remove(table, &path);
    }
}

/// The word that takes a number out of a recipe.
const NONE: &str = "none";

fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => _ = table.remove(path),
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// Removes keys that the catalogue does not know, and returns their paths: a newer version of Hone may have written
/// them.
pub(crate) fn pass_over_unknown(table: &mut Table) -> Vec<String> {
    let mut passed_over = Vec::new();
    walk::retain_known(RECIPE, table, "", &mut passed_over);
    passed_over
}

/// Calls `each` with every table of a recipe, outermost first, and the keys it may have.
pub(crate) fn tables(recipe: &mut Table, each: &mut dyn FnMut(&[&[Key]], &mut Table)) {
    walk::tables(RECIPE, recipe, "", each);
}

/// Paths of the keys that a resumed run may change.
pub fn may_change() -> Vec<String> {
    let paths = sections().into_iter().flat_map(|section| {
        let keys = section.keys.into_iter().filter(|key| key.rule.may_change);
        keys.map(move |key| walk::join(&section.path, key.name))
    });
    paths.collect()
}

/// Paths of the keys with this name, anywhere under the top level: `steps` is `train.steps` and `sft.steps`.
pub fn places(name: &str) -> Vec<String> {
    let inner = sections().into_iter().filter(|section| !section.path.is_empty() && !section.list);
    let holding = inner.filter(|section| section.keys.iter().any(|key| key.name == name));
    holding.map(|section| format!("{}.{name}", section.path)).filter(|path| !path.contains("NAME")).collect()
}

/// Adds the right table to an error about a misplaced key. Other errors are returned unchanged.
pub(crate) fn with_places(text: String) -> String {
    let name = text.split_once("unknown field `").and_then(|(_, rest)| rest.split('`').next());
    let placed = |name: &str| Some(places(name)).filter(|places| !places.is_empty());
    match name.and_then(|name| placed(name).or_else(|| foreign(name).find_map(placed))) {
        Some(places) if !text.contains("did you mean") => {
            format!("{text}\ndid you mean `{}`?", places.join("` or `"))
        }
        _ => text,
    }
}

/// Adds how a list of tables is written to an error about one that is none. `None` for other errors.
pub(crate) fn with_brackets(text: &str) -> Option<String> {
    let (shown, _) = text.split_once(", expected a list")?;
    let named = text.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    // In a file TOML's error shows the line.
    let header = shown.lines().find_map(|line| line.split_once("| [")?.1.trim_end().strip_suffix(']'));
    let path = named.or(header)?;
    let list = sections().into_iter().any(|section| section.list && section.path == path);
    list.then(|| format!("{text}\nhint: write a table for each: [[{path}]]"))
}

fn within(rule: &Rule, value: &Value) -> bool {
    match (rule.shape, value) {
        (Shape::Whole { .. } | Shape::Real(_), Value::Array(items)) => items.iter().all(|item| within(rule, item)),
        (Shape::Whole { min, max }, Value::Integer(number)) => (min..=max).contains(number),
        (Shape::Real(bounds), Value::Integer(number)) => bounds.contain(*number as f64),
        (Shape::Real(bounds), Value::Float(number)) => bounds.contain(*number),
        // A float is not an integer. A number in quotes is text, or digits of --set that TOML cannot hold.
        (Shape::Whole { .. }, Value::Float(_)) => false,
        (Shape::Whole { .. } | Shape::Real(_), Value::String(text)) => !is_number(text),
        _ => true,
    }
}

fn is_number(text: &str) -> bool {
    text.replace('_', "").parse::<f64>().is_ok()
}

fn out_of_range(path: &str, rule: &Rule, value: &Value) -> String {
    let default = match default_of(path) {
        Some(default) => format!("leave it out for the default of {default}"),
        None => "leave it out".to_owned(),
    };
    if let Some(text) = value.as_str().filter(|text| within(rule, &unquoted(text))) {
        return format!("{path} = {text:?} is text and takes {}; write {text} without quotes", rule.required());
    }
    let value = value.to_string().replace('"', "");
    format!("{path} = {value} is out of range: it is {}; write one of those, or {default}", rule.required())
}

/// The number that a text would be without its quotes.
fn unquoted(text: &str) -> Value {
    let read = toml::from_str::<Table>(&format!("value = {text}")).ok();
    read.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The default of a key that every recipe has.
fn default_of(path: &str) -> Option<Value> {
    let defaults = Value::try_from(Recipe::default()).ok()?;
    path.split('.').try_fold(defaults, |value, key| value.get(key).cloned())
}
