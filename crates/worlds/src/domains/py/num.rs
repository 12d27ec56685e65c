//! Python's arithmetic and comparison of numbers: integers of any size, floats, and booleans as integers.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{FromPrimitive as _, Signed as _, ToPrimitive as _};

use super::{Raised, Value};

/// A number, with `bool` already read as an integer.
#[derive(Debug, Clone)]
pub enum Number {
    Int(BigInt),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(flag) => Self::Int(i32::from(*flag).into()),
            Value::Int(number) => Self::Int((*number).into()),
            Value::Big(number) => Self::Int(BigInt::clone(number)),
            Value::Float(number) => Self::Float(*number),
            Value::None | Value::Str(_) | Value::List(_) | Value::Dict(_) => return None,
        })
    }

    pub(crate) fn to_float(&self) -> Result<f64, Raised> {
        match self {
            Self::Float(number) => Ok(*number),
            Self::Int(number) => int_to_float(number),
        }
    }
}

/// `float(n)`.
pub(crate) fn int_to_float(number: &BigInt) -> Result<f64, Raised> {
    let float = number.to_f64().filter(|float| float.is_finite());
    float.ok_or_else(|| Raised::new("int too large to convert to float"))
}

fn unsupported(operator: &str, left: &Value, right: &Value) -> Raised {
    let (left, right) = (left.type_name(), right.type_name());
    Raised(format!("unsupported operand type(s) for {operator}: '{left}' and '{right}'"))
}

/// `operator` is its spelling in the expression ("-" or "-="), which the error text repeats.
fn binary(
    operator: &str,
    left: &Value,
    right: &Value,
    ints: impl FnOnce(BigInt, BigInt) -> BigInt,
    floats: impl FnOnce(f64, f64) -> f64,
) -> Result<Value, Raised> {
    let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) else {
        return Err(unsupported(operator, left, right));
    };
    Ok(match (a, b) {
        (Number::Int(a), Number::Int(b)) => Value::integer(ints(a, b)),
        (a, b) => Value::Float(floats(a.to_float()?, b.to_float()?)),
    })
}

pub fn add(operator: &str, left: &Value, right: &Value) -> Result<Value, Raised> {
    binary(operator, left, right, |a, b| a + b, |a, b| a + b)
}

pub fn sub(operator: &str, left: &Value, right: &Value) -> Result<Value, Raised> {
    binary(operator, left, right, |a, b| a - b, |a, b| a - b)
}

/// Integer multiplication. A string or list, which Python would repeat, is returned unrepeated: no caller uses it, and
/// the next operation fails on the right type.
pub fn times(count: i64, value: &Value) -> Result<Value, Raised> {
    if matches!(value, Value::Str(_) | Value::List(_)) {
        return Ok(value.clone());
    }
    binary("*", &Value::Int(count), value, |a, b| a * b, |a, b| a * b)
}

/// `-x`.
pub(crate) fn negate(value: &Value) -> Result<Value, Raised> {
    match Number::of(value) {
        Some(Number::Int(number)) => Ok(Value::integer(-number)),
        Some(Number::Float(number)) => Ok(Value::Float(-number)),
        None => Err(Raised(format!("bad operand type for unary -: '{}'", value.type_name()))),
    }
}

/// `abs(x)`.
pub fn absolute(value: &Value) -> Result<Value, Raised> {
    match Number::of(value) {
        Some(Number::Int(number)) => Ok(Value::integer(number.abs())),
        Some(Number::Float(number)) => Ok(Value::Float(number.abs())),
        None => Err(Raised(format!("bad operand type for abs(): '{}'", value.type_name()))),
    }
}

/// `left < right`.
pub(crate) fn less(left: &Value, right: &Value) -> Result<bool, Raised> {
    if let (Value::Str(a), Value::Str(b)) = (left, right) {
        return Ok(a < b);
    }
    let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) else {
        let (left, right) = (left.type_name(), right.type_name());
        return Err(Raised(format!("'<' not supported between instances of '{left}' and '{right}'")));
    };
    Ok(compare(&a, &b) == Some(Ordering::Less))
}

/// `left > right`.
pub(crate) fn greater(left: &Value, right: &Value) -> Result<bool, Raised> {
    let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) else {
        let (left, right) = (left.type_name(), right.type_name());
        return Err(Raised(format!("'>' not supported between instances of '{left}' and '{right}'")));
    };
    Ok(compare(&a, &b) == Some(Ordering::Greater))
}

/// Exact, even between an integer and a float.
pub fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(b),
        (Number::Int(a), Number::Float(b)) => compare_int_float(a, *b),
        (Number::Float(a), Number::Int(b)) => compare_int_float(b, *a).map(Ordering::reverse),
    }
}

fn compare_int_float(int: &BigInt, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    match BigInt::from_f64(float.trunc()) {
        Some(whole) => Some(int.cmp(&whole).then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))),
        None if float > 0.0 => Some(Ordering::Less),
        None => Some(Ordering::Greater),
    }
}

/// `round(x, 2)`.
pub(crate) fn round2(value: &Value) -> Value {
    match value {
        Value::Float(number) => Value::Float(round2_float(*number)),
        other => other.clone(),
    }
}

/// Correctly rounded on the binary value, ties to even, as Python does it.
pub(crate) fn round2_float(number: f64) -> f64 {
    if number.is_finite() { format!("{number:.2}").parse().unwrap_or(number) } else { number }
}

/// `sum(values)`: plain additions from 0, as before Python 3.12.
pub fn sum<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<Value, Raised> {
    values.into_iter().try_fold(Value::Int(0), |total, value| add("+", &total, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_on_the_binary_value_with_ties_to_even() {
        for (number, rounded) in [
            (0.125, 0.12),
            (2.675, 2.67),
            (0.375, 0.38),
            (1.005, 1.0),
            (99.995, 100.0),
            (-0.125, -0.12),
            (1e300, 1e300),
        ] {
            assert_eq!(round2_float(number), rounded, "{number}");
        }
        assert!(round2_float(-0.001).is_sign_negative());
    }

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = Value::Int(9_007_199_254_740_993);
        assert!(less(&Value::Float(9_007_199_254_740_992.0), &big).unwrap());
        assert!(!less(&big, &Value::Float(9_007_199_254_740_992.0)).unwrap());
        assert!(less(&big, &Value::Float(f64::INFINITY)).unwrap());
        assert!(!less(&big, &Value::Float(f64::NAN)).unwrap());
        assert!(less(&Value::Int(-2), &Value::Float(-1.5)).unwrap());
    }

    #[test]
    fn integers_do_not_overflow() {
        let sum = add("+", &Value::Int(i64::MAX), &Value::Int(1)).unwrap();
        assert_eq!(super::super::text::repr(&sum), "9223372036854775808");
        assert!(matches!(sub("-", &sum, &Value::Int(1)).unwrap(), Value::Int(i64::MAX)));
    }
}
