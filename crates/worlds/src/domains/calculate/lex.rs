//! Tokens, with the errors Python's tokenizer raises. They take precedence over any syntax error, wherever they occur.

use num_bigint::BigInt;

/// Maximum nesting of Python's tokenizer.
const MAX_PARENTHESES: usize = 200;
/// Longest integer that Python converts, to bound the quadratic conversion.
const MAX_DIGITS: usize = 4300;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(BigInt),
    Float(f64),
    Plus,
    Minus,
    Star,
    Slash,
    DoubleStar,
    DoubleSlash,
    Open,
    Close,
    Dot,
    Ellipsis,
}

#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) all: Vec<Token>,
    /// Per token, how many parentheses are open after it.
    pub(super) levels: Vec<usize>,
    /// Integer literal longer than Python converts: an error once the parser reaches it.
    pub(super) too_long: Option<(usize, String)>,
}

impl Tokens {
    pub(super) fn unclosed(&self) -> bool {
        self.levels.last().is_some_and(|level| *level > 0)
    }
}

pub(super) fn lex(source: &str) -> Result<Tokens, String> {
    let bytes = source.as_bytes();
    let mut out = Tokens { all: Vec::new(), levels: Vec::new(), too_long: None };
    let (mut at, mut level) = (0, 0usize);
    while at < bytes.len() {
        let rest = &source[at..];
        let (token, length) = match bytes[at] {
            b' ' => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => number(rest, &mut out)?,
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => number(rest, &mut out)?,
            b'.' if rest.starts_with("...") => (Token::Ellipsis, 3),
            b'.' => (Token::Dot, 1),
            b'+' => (Token::Plus, 1),
            b'-' => (Token::Minus, 1),
            b'*' if rest.starts_with("**") => (Token::DoubleStar, 2),
            b'*' => (Token::Star, 1),
            b'/' if rest.starts_with("//") => (Token::DoubleSlash, 2),
            b'/' => (Token::Slash, 1),
            b'(' => (Token::Open, 1),
            _ => (Token::Close, 1),
        };
        match token {
            Token::Open if level >= MAX_PARENTHESES => return Err("too many nested parentheses".into()),
            Token::Open => level += 1,
            Token::Close => level = level.checked_sub(1).ok_or("unmatched ')'")?,
            _ => {}
        }
        out.all.push(token);
        out.levels.push(level);
        at += length;
    }
    Ok(out)
}

fn number(rest: &str, out: &mut Tokens) -> Result<(Token, usize), String> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(rest);
    if rest[whole..].starts_with('.') {
        let length = whole + 1 + digits(&rest[whole + 1..]);
        // "5." and ".5" are floats to Rust as well.
        return Ok((Token::Float(rest[..length].parse().unwrap_or(f64::NAN)), length));
    }
    let text = &rest[..whole];
    if text.starts_with('0') && text.bytes().any(|byte| byte != b'0') {
        let what = "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers";
        return Err(what.into());
    }
    if whole > MAX_DIGITS {
        let what = format!(
            "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion: value has {whole} digits; use \
             sys.set_int_max_str_digits() to increase the limit - Consider hexadecimal for huge integer literals to \
             avoid decimal conversion limits."
        );
        out.too_long.get_or_insert((out.all.len(), what));
        return Ok((Token::Int(BigInt::ZERO), whole));
    }
    Ok((Token::Int(text.parse().unwrap_or_default()), whole))
}
