//! Lossless coercion: an argument of a type other than the schema's, if only one value can be meant.

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::Value;

use super::{json, toolbox::Tool, types::Types};

/// The arguments with every value of the wrong type replaced, when that makes them valid.
pub(super) fn coerce(tool: &Tool, arguments: &Value) -> Option<Value> {
    let mut coerced = arguments.clone();
    for error in tool.errors(arguments) {
        let place = coerced.pointer_mut(error.instance_path().as_str())?;
        *place = convert(place, expected(&error)?)?;
    }
    tool.is_valid(&coerced).then_some(coerced)
}

/// The types the schema wanted at the place of the error; `None` if it is not about the type.
fn expected(error: &ValidationError<'_>) -> Option<Types> {
    match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(single) } => Some(Types::named(single.as_str())),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(several) } => {
            Some(Types::union(several.iter().map(|one| Types::named(one.as_str()))))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let here = error.instance_path();
            let wanted = context.iter().flatten().filter(|inner| inner.instance_path() == here).map(expected);
            Some(Types::union(wanted.collect::<Option<Vec<_>>>()?))
        }
        _ => None,
    }
}

/// The equivalent value of the wanted types, if there is exactly one.
fn convert(value: &Value, wanted: Types) -> Option<Value> {
    match value {
        Value::String(text) => {
            let is = |value: &Value| match value {
                Value::Number(number) if number.is_f64() => wanted.has(Types::NUMBER),
                Value::Number(_) => wanted.has(Types::INTEGER) || wanted.has(Types::NUMBER),
                Value::Bool(_) => wanted.has(Types::BOOLEAN),
                Value::Null => wanted.has(Types::NULL),
                Value::Array(_) => wanted.has(Types::ARRAY),
                Value::Object(_) => wanted.has(Types::OBJECT),
                Value::String(_) => false,
            };
            let word = match text.as_str() {
                "True" => Some(Value::Bool(true)),
                "False" => Some(Value::Bool(false)),
                _ => json::read_all(text).ok().filter(|(_, wide)| wide.is_empty()).map(|(value, _)| value),
            };
            word.filter(is)
        }
        Value::Number(number) if !number.is_f64() && wanted == Types::STRING => Some(Value::from(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::parse::Toolbox;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "json!() literals read better by value")]
    fn coerces(property: Value, value: Value, expected: Option<Value>) {
        let schema = json!({"type": "object", "properties": {"a": property, "b": {"type": "object"}}});
        let tools = Toolbox::new(&ToolSet::new(vec![ToolSpec::new("f", "", schema)]).unwrap()).unwrap();
        let coerced = coerce(tools.get("f").unwrap(), &json!({"a": value}));
        assert_eq!(coerced, expected.map(|value| json!({"a": value})), "{property} {value}");
    }

    #[test]
    fn only_without_loss() {
        let integer = json!({"type": "integer"});
        coerces(integer.clone(), json!("3"), Some(json!(3)));
        coerces(integer.clone(), json!("three"), None);
        coerces(integer.clone(), json!("3.5"), None);
        coerces(integer.clone(), json!("03"), None);
        coerces(integer.clone(), json!(3.5), None);
        coerces(integer, json!("123456789012345678901234"), None);
        coerces(json!({"type": "number"}), json!("1.5"), Some(json!(1.5)));
        coerces(json!({"type": "boolean"}), json!("True"), Some(json!(true)));
        coerces(json!({"type": "boolean"}), json!("yes"), None);
        coerces(json!({"type": "string"}), json!(75001), Some(json!("75001")));
        coerces(json!({"type": "string"}), json!(1.5), None);
        coerces(json!({"type": "string"}), json!(null), None);
        coerces(json!({"type": "string"}), json!(true), None);
        coerces(json!({"type": "array"}), json!("[1]"), Some(json!([1])));
        coerces(json!({"type": "array"}), json!("x"), None);
        coerces(json!({"type": "object"}), json!("{\"x\": 1}"), Some(json!({"x": 1})));
        coerces(json!({"type": ["integer", "null"]}), json!("3"), Some(json!(3)));
        coerces(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!("3"), Some(json!(3)));
        coerces(json!({"type": "integer", "maximum": 2}), json!("3"), None);
        coerces(json!({"enum": ["c"]}), json!("C"), None);
    }
}
