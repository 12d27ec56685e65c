//! The catalogue of recipe keys: every key a recipe may have, with its type, default, range and meaning.
//!
//! It is [`Recipe`]'s own documentation ([`hone_trace::documented!`]) read as a tree, so a key is declared in one place
//! only: the field that holds it. Ranges are enforced here, before serde sees a value, and docs/recipes.md is
//! generated.

mod page;
mod walk;

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
    match name.map(places) {
        Some(places) if !places.is_empty() && !text.contains("did you mean") => {
            format!("{text}\ndid you mean `{}`?", places.join("` or `"))
        }
        _ => text,
    }
}

fn within(rule: &Rule, value: &Value) -> bool {
    match (rule.shape, value) {
        (Shape::Whole { .. } | Shape::Real(_), Value::Array(items)) => items.iter().all(|item| within(rule, item)),
        (Shape::Whole { min, max }, Value::Integer(number)) => (min..=max).contains(number),
        (Shape::Real(bounds), Value::Integer(number)) => bounds.contain(*number as f64),
        (Shape::Real(bounds), Value::Float(number)) => bounds.contain(*number),
        // A float is not an integer, and digits that TOML could not read are a number it cannot hold.
        (Shape::Whole { .. }, Value::Float(_)) => false,
        (Shape::Whole { .. } | Shape::Real(_), Value::String(text)) => !is_digits(text),
        _ => true,
    }
}

fn is_digits(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '_')
}

fn out_of_range(path: &str, rule: &Rule, value: &Value) -> String {
    let default = match default_of(path) {
        Some(default) => format!("leave it out for the default of {default}"),
        None => "leave it out".to_owned(),
    };
    let value = value.to_string().replace('"', "");
    format!("{path} = {value} is out of range: it is {}; write one of those, or {default}", rule.required())
}

/// The default of a key that every recipe has.
fn default_of(path: &str) -> Option<Value> {
    let defaults = Value::try_from(Recipe::default()).ok()?;
    path.split('.').try_fold(defaults, |value, key| value.get(key).cloned())
}
