//! Evaluation of a parsed expression, in Python's order.

use super::super::py::{Raised, text};
use super::PowerLimit;
use super::parse::{Star, Tree};
use super::value::{Number, binary};

pub(super) fn eval(tree: &Tree, powers: PowerLimit) -> Result<Number, Raised> {
    match tree {
        Tree::Number(number) => Ok(number.clone()),
        Tree::EmptyTuple => Ok(Number::Tuple),
        Tree::Ellipsis => Ok(Number::Ellipsis),
        Tree::Unary(sign, operand) => eval(operand, powers)?.unary(*sign),
        Tree::Chain(first, rest) => {
            let mut left = eval(first, powers)?;
            for (operator, operand) in rest {
                left = binary(operator, &left, &eval(operand, powers)?, powers)?;
            }
            Ok(left)
        }
        Tree::Call(callee, argument) => {
            let callee = eval(callee, powers)?;
            if let Some((star, argument)) = argument {
                unpack(&callee, *star, &eval(argument, powers)?)?;
            }
            Err(Raised(format!("'{}' object is not callable", callee.type_name())))
        }
    }
}

/// The argument of a call is unpacked before the error that a number cannot be called.
fn unpack(callee: &Number, star: Star, argument: &Number) -> Result<(), Raised> {
    let (mark, wanted) = match (star, argument) {
        (Star::No, _) | (Star::One, Number::Tuple) => return Ok(()),
        (Star::One, _) => ("*", "an iterable"),
        (Star::Two, _) => ("**", "a mapping"),
    };
    let shown = match callee {
        Number::Int(number) => number.to_string(),
        Number::Float(number) => text::float_repr(*number),
        Number::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            format!("({}{sign}{}j)", text::float_repr(*re), text::float_repr(*im))
        }
        Number::Tuple => "()".into(),
        Number::Ellipsis => "Ellipsis".into(),
    };
    Err(Raised(format!("{shown} argument after {mark} must be {wanted}, not {}", argument.type_name())))
}
