//! Bounds the work a tool's schema can cause, before it is compiled.
//!
//! Validation walks a schema as if every `$ref` were written out. A few definitions that refer to each other twice
//! expand to more subschemas than there is time for, and a recursive one repeats that at every level of the arguments.
//! Tools come from untrusted servers, so both are counted here.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum number of subschemas, with all references expanded.
const MAX_EXPANSION: u64 = 1_000_000;

/// Schemas nested in one another, references followed.
const MAX_NESTING: usize = 256;

/// Size of an expanded (sub)schema: its subschemas, and how many of them lead back into one that is being expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    nodes: u64,
    back: u64,
}

struct Expansion<'a> {
    root: &'a Value,
    /// References by name; `None` while the target is being expanded.
    seen: HashMap<&'a str, Option<Weight>>,
}

/// The deepest arguments that validate in bounded time (`usize::MAX`: any), or why the schema is refused.
pub(super) fn check(schema: &Value) -> Result<usize, String> {
    let mut expansion = Expansion { root: schema, seen: HashMap::from([("#", None)]) };
    let weight = expansion.weigh(schema, 0)?;
    if weight.nodes > MAX_EXPANSION {
        return Err(format!("its references expand to more than {MAX_EXPANSION} subschemas"));
    }
    if weight.back < 2 {
        return Ok(usize::MAX);
    }
    Ok(((MAX_EXPANSION as f64).ln() / (weight.back as f64).ln()) as usize)
}

impl<'a> Expansion<'a> {
    fn weigh(&mut self, schema: &'a Value, depth: usize) -> Result<Weight, String> {
        if depth > MAX_NESTING {
            return Err(format!("it is nested deeper than {MAX_NESTING} levels"));
        }
        let mut weight = Weight { nodes: 1, back: 0 };
        let mut add = |part: Weight| {
            weight.nodes = weight.nodes.saturating_add(part.nodes);
            weight.back = weight.back.saturating_add(part.back);
        };
        match schema {
            Value::Object(map) => {
                for (key, part) in map {
                    match part {
                        Value::String(target) if key == "$ref" || key == "$dynamicRef" => {
                            add(self.follow(target, depth)?);
                        }
                        // Definitions count where they are referenced.
                        _ if key == "$defs" || key == "definitions" => {}
                        _ => add(self.weigh(part, depth + 1)?),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    add(self.weigh(item, depth + 1)?);
                }
            }
            _ => return Ok(Weight::default()),
        }
        Ok(weight)
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> Result<Weight, String> {
        match self.seen.get(reference) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Ok(Weight { nodes: 1, back: 1 }),
            None => {}
        }
        // The compiler reports a dangling reference.
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) else {
            return Ok(Weight::default());
        };
        self.seen.insert(reference, None);
        let weight = self.weigh(target, depth + 1)?;
        self.seen.insert(reference, Some(weight));
        Ok(weight)
    }
}

/// Nesting of a value: 0 for a scalar.
pub(super) fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn ordinary_schemas_pass() {
        assert_eq!(check(&json!({"type": "object", "properties": {"a": {"type": "string"}}})), Ok(usize::MAX));
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert_eq!(check(&tree), Ok(usize::MAX));
        let shared =
            json!({"properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/d"}}, "$defs": {"d": {}}});
        assert_eq!(check(&shared), Ok(usize::MAX));
    }

    #[test]
    fn doubling_definitions_are_refused() {
        let mut defs = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        defs.insert("d40".to_owned(), json!({"type": "string"}));
        assert!(check(&json!({"$ref": "#/$defs/d0", "$defs": defs})).is_err());
    }

    #[test]
    fn a_branching_recursion_bounds_the_depth() {
        let branch = json!({"properties": {"x": {"$ref": "#"}}, "required": ["z"]});
        assert_eq!(check(&json!({"anyOf": [branch, branch]})), Ok(19));
    }

    #[test]
    fn a_long_chain_of_references_is_refused() {
        let mut defs = Map::new();
        for link in 0..100_000 {
            defs.insert(format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link + 1)}));
        }
        assert!(check(&json!({"$ref": "#/$defs/d0", "$defs": defs})).is_err());
    }
}
