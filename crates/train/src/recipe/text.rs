//! A recipe's text: TOML to a table, settings put into it, and errors in the words of a recipe.

use hone_trace::{with_nearest, with_type};
use toml::{Table, Value};

use super::RecipeError;
use crate::keys;

/// A recipe's text as a table. A number that TOML cannot hold is answered with its key's range.
pub(super) fn table(text: &str) -> Result<Table, RecipeError> {
    toml::from_str(text).map_err(|error: toml::de::Error| too_large(text, &error).unwrap_or_else(|| unread(error)))
}

/// The error about digits that are no number TOML can hold.
fn too_large(text: &str, error: &toml::de::Error) -> Option<RecipeError> {
    let span = error.span()?;
    let digits = text.get(span.clone())?;
    let whole = digits.trim_start_matches(['-', '+']);
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    // As text the number can be read, and is out of its key's range.
    let quoted = format!("{}\"{digits}\"{}", &text[..span.start], &text[span.end..]);
    match toml::from_str::<Table>(&quoted).ok().map(|table| keys::check(&table)) {
        Some(Err(out_of_range)) => Some(out_of_range),
        _ => Some(RecipeError::new(format!("{}\nthe number is too large; write a smaller one", place(error)))),
    }
}

/// The place and the line that TOML's error shows, without what it says of them.
fn place(error: &toml::de::Error) -> String {
    let text = error.to_string();
    text.split_once(error.message()).map_or_else(String::new, |(place, _)| place.trim_end().to_owned())
}

/// serde's error with the nearest name, the place where a key belongs, or the expected type.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands the error over")]
pub(super) fn unread(error: toml::de::Error) -> RecipeError {
    let text = keys::with_places(with_nearest(&error.to_string()));
    RecipeError::new(keys::with_brackets(&text).unwrap_or_else(|| with_type(&text)))
}

/// Value of a setting: TOML, or else text.
pub(super) fn read_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Puts a value at a dotted key.
pub(super) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set(inner, rest, value),
            // `loss = "dapo"` and then `loss.clip_high=0.3`: the name becomes the table's.
            other => {
                let name = std::mem::replace(other, Value::Table(Table::new()));
                let Value::Table(inner) = other else { return Err(format!("{first} is not a table")) };
                inner.insert("name".into(), name);
                set(inner, rest, value)
            }
        },
    }
}
