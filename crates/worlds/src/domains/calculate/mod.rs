//! The `calculate` tool: Python's `eval` restricted to digits, `+-*/().` and spaces.
//!
//! The alphabet is small but the language is not: `**` and `//` are operators, `()` is a tuple, `...` is Ellipsis, and
//! `2(3)` is a call. All of it ends in `str(round(float(x), 2))` or in one of Python's error texts. Nothing is passed
//! to an interpreter; work is bounded in both rule sets, which is the only intended difference of `compat` from
//! upstream (upstream hangs on `9**9**9`).

mod eval;
mod lex;
mod parse;
mod value;

use super::py::{Dict, Raised, Value, num, ops, text};
use super::tool::{Answer, Failure, Rules, arg, refuse};
use super::world::World;

const ALPHABET: &str = "0123456789+-*/(). ";

/// Longest expression under the strict rules.
const STRICT_LENGTH: usize = 1000;

/// Limit on the size of a power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PowerLimit {
    /// Bits of an integer power.
    bits: u64,
    /// The answer to a larger power.
    answer: &'static str,
}

/// Limit far beyond the range of a float, so the answer is the one Python would give if it ever finished.
const COMPAT_POWERS: PowerLimit = PowerLimit { bits: 1 << 20, answer: "int too large to convert to float" };
const STRICT_POWERS: PowerLimit = PowerLimit { bits: 1 << 10, answer: "the power is too large" };

pub(super) fn run(_: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let expression = arg(arguments, "expression");
    if !in_alphabet(expression)? {
        return refuse("invalid characters in expression");
    }
    evaluate_value(expression, rules)
}

/// `str(round(float(eval(expression)), 2))`.
pub(super) fn evaluate_value(expression: &Value, rules: Rules) -> Answer {
    let Value::Str(expression) = expression else {
        return refuse("eval() arg 1 must be a string, bytes or code object");
    };
    let powers = if rules == Rules::Compat { COMPAT_POWERS } else { STRICT_POWERS };
    if rules == Rules::Strict && expression.len() > STRICT_LENGTH {
        return refuse(format!("the expression is longer than {STRICT_LENGTH} characters"));
    }
    evaluate(expression, powers).map_err(Failure::from)
}

/// `all(char in ALPHABET for char in expression)`, for whatever the expression is.
pub(super) fn in_alphabet(expression: &Value) -> Result<bool, Raised> {
    if let Value::Str(text) = expression {
        return Ok(text.chars().all(|c| ALPHABET.contains(c)));
    }
    for part in ops::iterate(expression)? {
        let Value::Str(part) = &part else {
            return Err(Raised(format!("'in <string>' requires string as left operand, not {}", part.type_name())));
        };
        if !ALPHABET.contains(&**part) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn evaluate(expression: &str, powers: PowerLimit) -> Result<String, Raised> {
    let source = expression.trim_start_matches(' ');
    if source.is_empty() {
        return Err(Raised::new("invalid syntax (<string>, line 0)"));
    }
    let tree = parse::parse(source)?;
    let number = eval::eval(&tree, powers)?.to_float()?;
    Ok(text::float_repr(num::round2_float(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: &str) {
        let answer = evaluate(expression, COMPAT_POWERS).unwrap_or_else(|Raised(text)| format!("Error: {text}"));
        assert_eq!(answer, expected, "{expression:.60}");
    }

    #[test]
    fn arithmetic_is_pythons() {
        for (expression, expected) in [
            ("2 + 3 * 4", "14.0"),
            ("-2**2", "-4.0"),
            ("2**-1", "0.5"),
            ("2**3**2", "512.0"),
            ("-7//2", "-4.0"),
            ("7//-2.0", "-4.0"),
            ("1.0*10**308*10", "inf"),
            ("(10**400)//(10**399)", "10.0"),
            ("10**400/10**399", "10.0"),
            ("0*-1.0", "-0.0"),
            ("0.1+0.2", "0.3"),
            ("01.5", "1.5"),
        ] {
            check(expression, expected);
        }
    }

    #[test]
    fn errors_are_pythons() {
        for (expression, expected) in [
            ("", "Error: invalid syntax (<string>, line 0)"),
            ("(1 1)", "Error: invalid syntax. Perhaps you forgot a comma? (<string>, line 1)"),
            ("(*1)", "Error: cannot use starred expression here (<string>, line 1)"),
            ("1)", "Error: unmatched ')' (<string>, line 1)"),
            ("2(3)", "Error: 'int' object is not callable"),
            ("2(*3)", "Error: 2 argument after * must be an iterable, not int"),
            ("...", "Error: float() argument must be a string or a real number, not 'ellipsis'"),
            ("(-8)**0.5", "Error: float() argument must be a string or a real number, not 'complex'"),
            ("10.0**400", "Error: (34, 'Numerical result out of range')"),
            ("10**400/3", "Error: integer division result too large for a float"),
            ("1//0", "Error: integer division or modulo by zero"),
        ] {
            check(expression, expected);
        }
    }

    #[test]
    fn towers_and_deep_nesting_come_back() {
        check("9**9**9", "Error: int too large to convert to float");
        check("9**9**9**9", "Error: int too large to convert to float");
        check(&"(".repeat(100_000), "Error: too many nested parentheses (<string>, line 1)");
        let deep = format!("{}1", "-".repeat(100_000));
        check(&deep, "Error: maximum recursion depth exceeded during compilation");
        let chain = format!("1{}", "**1".repeat(100_000));
        check(&chain, "Error: maximum recursion depth exceeded during compilation");
        let sum = format!("1{}", "+1".repeat(100_000));
        check(&sum, "100001.0");
    }
}
