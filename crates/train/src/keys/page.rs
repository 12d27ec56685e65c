//! docs/recipes.md, from the catalogue.

use std::fmt::Write as _;

use hone_arena::catalogue::keys_table;
use hone_trace::NativeOptions;
use hone_trace::keys::{Key, Shape};
use serde_json::Value;

use super::walk::{Section, sections};
use crate::recipe::{EvalRecipe, Recipe, RecipeError};

/// The annotated example at the top of the page.
pub const EXAMPLE: &str = include_str!("example.toml");

/// A recipe with every optional table, and in each only the required keys.
pub const LEAST: &str = "
credit = { name = \"grpo\" }
[loss]
name = \"dapo\"
kl = { coefficient = 0.001 }
correction = { mode = \"token_truncate\", max = 2.0 }
[policy.lora]
rank = 16
[kl_reward]
coefficient = 0.01
[plan.share.NAME]
[plan.curriculum]
[[rubric.component]]
kind = \"tau_state\"
[[rubric.component]]
kind = \"parse_penalty\"
[[rubric.product]]
name = \"both\"
of = [\"tau_state\", \"parse_penalty\"]
";

/// The reference page of recipes: every table, every key.
pub fn page() -> Result<String, RecipeError> {
    let wrong = |error: &dyn std::fmt::Display| RecipeError::new(format!("the page cannot be written: {error}"));
    let least: Value = toml::from_str(LEAST).map_err(|error| wrong(&error))?;
    let mut complete = serde_json::to_value(Recipe::parse(LEAST, &[])?).map_err(|error| wrong(&error))?;
    // Defaults that are not in a recipe itself: the engine's own, and the one that follows from the rubric.
    let engine = serde_json::to_value(NativeOptions::default()).map_err(|error| wrong(&error))?;
    if let (Value::Object(known), Value::Object(own)) = (&mut complete["engine"], engine) {
        known.extend(own);
    }
    complete["eval"]["success"] = EvalRecipe::default().success.into();
    let mut page = format!(
        "# Recipes: reference\n\n\
         Written from the doc comments and ranges in the code (`documented!` structs, `crates/train/src/recipe.rs` first);\n\
         change them there and run `HONE_BLESS=1 cargo test -p hone-train --test it recipes_page`.\n\n\
         A recipe is a TOML file for `hone train` and `hone sft`. Every key may be left out unless the table says it is\n\
         required, `--set KEY=VALUE` overrides the file, and `hone train RECIPE --dry-run` prints the whole recipe as it will\n\
         run. A key that does not exist, a value of another type and a number outside its range are refused when the recipe\n\
         is read; numbers must be finite. Paths are relative to the recipe, those of `--set` to the current directory.\n\
         [training.md](training.md) says what the tables are for.\n\n\
         ## An example\n\n```toml\n{EXAMPLE}```\n"
    );
    for section in sections() {
        let _ = write!(page, "\n## {}\n\n{}\n", title(&section), lead(&section));
        let keys: Vec<&Key> = section.keys.iter().copied().filter(|key| is_row(key)).collect();
        if !keys.is_empty() {
            let table = keys_table(&keys, &at(&least, &section.path), &at(&complete, &section.path));
            let _ = write!(page, "\n{table}");
        }
    }
    Ok(page)
}

fn title(section: &Section) -> String {
    match (section.path.as_str(), section.list) {
        ("", _) => "Top level".to_owned(),
        (path, false) => format!("[{path}]"),
        (path, true) => format!("[[{path}]]"),
    }
}

fn lead(section: &Section) -> String {
    if section.path.is_empty() { "Keys before the first table.".to_owned() } else { section.meaning.trim().to_owned() }
}

/// Nested tables have their own sections.
fn is_row(key: &Key) -> bool {
    !matches!(key.rule.shape, Shape::Table(_) | Shape::Named(_) | Shape::Chosen(_))
}

fn at(value: &Value, path: &str) -> Value {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    let found = steps.try_fold(value, |value, step| {
        let inner = value.get(step)?;
        Some(inner.get(0).unwrap_or(inner))
    });
    found.cloned().unwrap_or(Value::Null)
}
