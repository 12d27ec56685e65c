//! Reference pages: an entry as a section of Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Entry, Key};

/// Place of an entry's example in a recipe.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// `[env]`, `[[rubric.component]]`.
    pub header: &'static str,
    /// Key that names the entry; absent if another key does.
    pub key: Option<&'static str>,
}

/// An entry's section: description, paper, an example and its keys.
pub fn section<T>(page: &mut String, place: Place, entry: &Entry<T>) -> Result<(), serde_json::Error> {
    let example = entry.options.shown()?;
    let (required, complete) = entry.options.defaults()?;
    let _ = write!(page, "\n## {}\n\n{}. {}.", entry.name, entry.about, entry.advice);
    if let Some(paper) = entry.paper {
        let _ = write!(page, " After {paper}.");
    }
    let _ = write!(page, "\n\n```toml\n{}\n", place.header);
    if let Some(key) = place.key {
        let _ = writeln!(page, "{key} = {:?}", entry.name);
    }
    for (key, value) in example.as_object().into_iter().flatten() {
        let _ = writeln!(page, "{key} = {}", toml(value));
    }
    page.push_str("```\n");
    let own: Vec<&Key> =
        entry.options.keys.iter().copied().flatten().filter(|key| Some(key.name) != place.key).collect();
    if !own.is_empty() {
        page.push('\n');
        page.push_str(&keys_table(&own, &required, &complete));
    }
    Ok(())
}

/// A table of keys: type, default, range, meaning. A key of `required` has no default.
pub fn keys_table(keys: &[&Key], required: &Value, complete: &Value) -> String {
    let mut table = String::from("| key | type | default | range | meaning |\n|---|---|---|---|---|\n");
    for key in keys {
        let default = match (required.get(key.name), complete.get(key.name)) {
            (Some(_), _) => "required".to_owned(),
            (None, None | Some(Value::Null)) => "absent".to_owned(),
            (None, Some(value)) => format!("`{}`", toml(value)),
        };
        let _ = writeln!(
            table,
            "| `{}` | {} | {default} | {} | {}{} |",
            key.name,
            (key.kind)(),
            key.rule,
            key.meaning.trim(),
            if key.rule.may_change { " May change when a run is resumed." } else { "" }
        );
    }
    table
}

/// A value as TOML writes it on one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let keys: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        // JSON's strings, numbers and booleans are TOML's.
        other => other.to_string(),
    }
}
