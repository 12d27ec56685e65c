//! Values of `calculate`, and Python's operators on them.

use num_bigint::{BigInt, Sign};
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};

use super::super::py::Raised;
use super::super::py::num::int_to_float;
use super::PowerLimit;

/// An intermediate result. A tuple can only be empty.
#[derive(Debug, Clone)]
pub(super) enum Number {
    Int(BigInt),
    Float(f64),
    /// A negative number to a fractional power. It never becomes a real number again.
    Complex(f64, f64),
    Tuple,
    Ellipsis,
}

use Number::{Complex, Ellipsis, Float, Int, Tuple};

impl Number {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Int(_) => "int",
            Float(_) => "float",
            Complex(..) => "complex",
            Tuple => "tuple",
            Ellipsis => "ellipsis",
        }
    }

    /// `float(x)`.
    pub(super) fn to_float(&self) -> Result<f64, Raised> {
        match self {
            Int(number) => int_to_float(number),
            Float(number) => Ok(*number),
            other => {
                let what = other.type_name();
                Err(Raised(format!("float() argument must be a string or a real number, not '{what}'")))
            }
        }
    }

    pub(super) fn unary(self, sign: char) -> Result<Self, Raised> {
        match (sign, self) {
            ('+', number @ (Int(_) | Float(_) | Complex(..))) => Ok(number),
            (_, Int(number)) => Ok(Int(-number)),
            (_, Float(number)) => Ok(Float(-number)),
            (_, Complex(re, im)) => Ok(Complex(-re, -im)),
            (_, other) => Err(Raised(format!("bad operand type for unary {sign}: '{}'", other.type_name()))),
        }
    }
}

fn unsupported(operator: &str, left: &Number, right: &Number) -> Raised {
    let operator = if operator == "**" { "** or pow()" } else { operator };
    let (left, right) = (left.type_name(), right.type_name());
    Raised(format!("unsupported operand type(s) for {operator}: '{left}' and '{right}'"))
}

pub(super) fn binary(operator: &str, left: &Number, right: &Number, powers: PowerLimit) -> Result<Number, Raised> {
    match (left, right) {
        (Int(a), Int(b)) => ints(operator, a, b, powers),
        (Int(_) | Float(_), Int(_) | Float(_)) => floats(operator, left.to_float()?, right.to_float()?),
        (Int(_) | Float(_) | Complex(..), Int(_) | Float(_) | Complex(..)) if operator != "//" => {
            complexes(operator, to_complex(left)?, to_complex(right)?)
        }
        (Tuple, _) if operator == "+" => match right {
            Tuple => Ok(Tuple),
            other => Err(Raised(format!("can only concatenate tuple (not \"{}\") to tuple", other.type_name()))),
        },
        (Tuple, other) | (other, Tuple) if operator == "*" => repeat(other),
        _ => Err(unsupported(operator, left, right)),
    }
}

/// An empty tuple times something.
fn repeat(count: &Number) -> Result<Number, Raised> {
    match count {
        Int(number) if number.to_i64().is_some() => Ok(Tuple),
        Int(_) => Err(Raised::new("cannot fit 'int' into an index-sized integer")),
        other => Err(Raised(format!("can't multiply sequence by non-int of type '{}'", other.type_name()))),
    }
}

fn ints(operator: &str, a: &BigInt, b: &BigInt, powers: PowerLimit) -> Result<Number, Raised> {
    Ok(match operator {
        "+" => Int(a + b),
        "-" => Int(a - b),
        "*" if a.bits() + b.bits() > 8 * powers.bits.max(1 << 20) => return Err(Raised::new(powers.answer)),
        "*" => Int(a * b),
        "//" if b.is_zero() => return Err(Raised::new("integer division or modulo by zero")),
        "//" => Int(num_integer::Integer::div_floor(a, b)),
        "/" => Float(true_division(a, b)?),
        _ if b.is_negative() => return floats("**", int_to_float(a)?, int_to_float(b)?),
        _ => Int(power(a, b, powers)?),
    })
}

fn power(base: &BigInt, exponent: &BigInt, powers: PowerLimit) -> Result<BigInt, Raised> {
    if base.magnitude().bits() <= 1 {
        // 0, 1 and -1 stay small for any exponent.
        let odd = exponent.bit(0);
        return Ok(match (base.sign(), exponent.is_zero()) {
            (_, true) | (Sign::Plus, _) => 1.into(),
            (Sign::NoSign, _) => BigInt::ZERO,
            (Sign::Minus, _) => if odd { -1 } else { 1 }.into(),
        });
    }
    let bits = exponent.to_u64().and_then(|exponent| base.bits().checked_mul(exponent));
    match (bits, exponent.to_u32()) {
        (Some(bits), Some(exponent)) if bits <= powers.bits => Ok(base.pow(exponent)),
        _ => Err(Raised::new(powers.answer)),
    }
}

/// The quotient of two integers as the nearest float, ties to even.
fn true_division(a: &BigInt, b: &BigInt) -> Result<f64, Raised> {
    if b.is_zero() {
        return Err(Raised::new("division by zero"));
    }
    let negative = (a.sign() == Sign::Minus) != (b.sign() == Sign::Minus);
    let (a, b) = (a.magnitude(), b.magnitude());
    // Scaled so that the quotient has 64 to 66 bits: enough to round once, with a sticky last bit for the remainder.
    let shift = 65 + b.bits() as i64 - a.bits() as i64;
    let (a, b) = if shift >= 0 { (a << shift, b.clone()) } else { (a.clone(), b << -shift) };
    let (quotient, remainder) = num_integer::Integer::div_rem(&a, &b);
    let quotient = (quotient << 1usize) + u32::from(!remainder.is_zero());
    let exponent = -(shift + 1);
    // In two steps, because 2^exponent by itself may be out of range.
    let half = exponent / 2;
    let rounded = quotient.to_f64().unwrap_or(f64::INFINITY);
    let float = rounded * 2f64.powi(half as i32) * 2f64.powi((exponent - half) as i32);
    if float.is_infinite() {
        return Err(Raised::new("integer division result too large for a float"));
    }
    Ok(if negative { -float } else { float })
}

fn floats(operator: &str, a: f64, b: f64) -> Result<Number, Raised> {
    Ok(Float(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" if b == 0.0 => return Err(Raised::new("float division by zero")),
        "/" => a / b,
        "//" if b == 0.0 => return Err(Raised::new("float floor division by zero")),
        "//" => floor_division(a, b),
        _ => return float_power(a, b),
    }))
}

/// CPython's floor division: the floor of the exact quotient, which rounding the quotient first would not give.
fn floor_division(a: f64, b: f64) -> f64 {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    let _ = remainder;
    if quotient == 0.0 {
        return 0f64.copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

fn float_power(a: f64, b: f64) -> Result<Number, Raised> {
    if a == 0.0 && b < 0.0 {
        return Err(Raised::new("0.0 cannot be raised to a negative power"));
    }
    if a < 0.0 && a.is_finite() && b.is_finite() && b.fract() != 0.0 {
        return complexes("**", (a, 0.0), (b, 0.0));
    }
    let power = a.powf(b);
    if power.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(Raised::new("(34, 'Numerical result out of range')"));
    }
    Ok(Float(power))
}

fn to_complex(number: &Number) -> Result<(f64, f64), Raised> {
    match number {
        Complex(re, im) => Ok((*re, *im)),
        other => Ok((other.to_float()?, 0.0)),
    }
}

fn complexes(operator: &str, (a, b): (f64, f64), (c, d): (f64, f64)) -> Result<Number, Raised> {
    Ok(match operator {
        "+" => Complex(a + c, b + d),
        "-" => Complex(a - c, b - d),
        "*" => Complex(a * c - b * d, a * d + b * c),
        "/" if c == 0.0 && d == 0.0 => return Err(Raised::new("complex division by zero")),
        "/" => {
            let scale = c * c + d * d;
            Complex((a * c + b * d) / scale, (b * c - a * d) / scale)
        }
        _ => complex_power((a, b), (c, d))?,
    })
}

fn complex_power((a, b): (f64, f64), (c, d): (f64, f64)) -> Result<Number, Raised> {
    if c == 0.0 && d == 0.0 {
        return Ok(Complex(1.0, 0.0));
    }
    if a == 0.0 && b == 0.0 {
        if d != 0.0 || c < 0.0 {
            return Err(Raised::new("0.0 to a negative or complex power"));
        }
        return Ok(Complex(0.0, 0.0));
    }
    let angle = b.atan2(a);
    let mut length = a.hypot(b).powf(c);
    let mut phase = angle * c;
    if d != 0.0 {
        length *= (-angle * d).exp();
        phase += d * a.hypot(b).ln();
    }
    let (re, im) = (length * phase.cos(), length * phase.sin());
    if re.is_infinite() || im.is_infinite() || re.is_nan() {
        return Err(Raised::new("complex exponentiation"));
    }
    Ok(Complex(re, im))
}
