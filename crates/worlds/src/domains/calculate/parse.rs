//! Python's expression grammar over these tokens, with the error Python reports for each mistake.
//!
//! As in CPython there are two passes: the first only accepts or refuses; the second, over refused text, follows the
//! same path and names the fault if there is a more specific name than "invalid syntax".

use super::super::py::Raised;
use super::lex::{Token, Tokens, lex};
use super::value::Number;

#[derive(Debug)]
pub(super) enum Tree {
    Number(Number),
    EmptyTuple,
    Ellipsis,
    Unary(char, Box<Tree>),
    /// First operand, then operators with theirs, from left to right.
    Chain(Box<Tree>, Vec<(&'static str, Tree)>),
    Call(Box<Tree>, Option<(Star, Box<Tree>)>),
}

/// Unpacking of a call's only argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Star {
    No,
    One,
    Two,
}

/// Deeper chains of signs and powers are refused, as Python's compiler refuses them; parentheses are bounded by the
/// tokenizer.
const MAX_DEPTH: usize = 300;

const FORGOT_COMMA: &str = "invalid syntax. Perhaps you forgot a comma?";

pub(super) fn parse(source: &str) -> Result<Tree, Raised> {
    let tokens = lex(source).map_err(|what| syntax_error(&what))?;
    match (Parser { tokens: &tokens, at: 0, naming: false, depth: 0 }).whole() {
        Ok(tree) => Ok(tree),
        Err(Fault::TooDeep) => Err(Raised::new("maximum recursion depth exceeded during compilation")),
        Err(Fault::Named(what)) => Err(syntax_error(&what)),
        Err(Fault::Here) => match (Parser { tokens: &tokens, at: 0, naming: true, depth: 0 }).whole() {
            Err(Fault::Named(what)) => Err(syntax_error(&what)),
            _ => Err(syntax_error("invalid syntax")),
        },
    }
}

fn syntax_error(what: &str) -> Raised {
    Raised(format!("{what} (<string>, line 1)"))
}

enum Fault {
    /// Parsing fails here.
    Here,
    Named(String),
    TooDeep,
}

struct Parser<'a> {
    tokens: &'a Tokens,
    at: usize,
    /// The second pass.
    naming: bool,
    depth: usize,
}

type Parsed = Result<Tree, Fault>;

impl Parser<'_> {
    /// The next token. Looking past the end while a parenthesis is open is itself an error.
    fn peek(&self) -> Result<Option<&Token>, Fault> {
        match self.tokens.all.get(self.at) {
            None if self.tokens.unclosed() => Err(Fault::Named("'(' was never closed".into())),
            token => Ok(token),
        }
    }

    fn take(&mut self, token: &Token) -> Result<bool, Fault> {
        let found = self.peek()? == Some(token);
        self.at += usize::from(found);
        Ok(found)
    }

    fn whole(&mut self) -> Parsed {
        let tree = self.expression()?;
        if self.at == self.tokens.all.len() { Ok(tree) } else { Err(Fault::Here) }
    }

    /// An expression. In the second pass, two consecutive ones inside parentheses are a missing comma.
    fn expression(&mut self) -> Parsed {
        let tree = self.sum()?;
        if self.naming {
            let (after, naming) = (self.at, self.naming);
            self.naming = false;
            let second = self.sum();
            let inside = self.at > after && self.tokens.levels[self.at - 1] > 0;
            (self.at, self.naming) = (after, naming);
            match second {
                Ok(_) if inside => return Err(Fault::Named(FORGOT_COMMA.into())),
                Ok(_) | Err(Fault::Here) => {}
                Err(named) => return Err(named),
            }
        }
        Ok(tree)
    }

    fn sum(&mut self) -> Parsed {
        self.chain(&[(Token::Plus, "+"), (Token::Minus, "-")], Self::term)
    }

    fn term(&mut self) -> Parsed {
        self.chain(&[(Token::Star, "*"), (Token::Slash, "/"), (Token::DoubleSlash, "//")], Self::factor)
    }

    /// Operators of one precedence, left to right. A dangling operator ends the chain before itself, as a rule that
    /// does not match leaves its tokens to the next.
    fn chain(&mut self, operators: &[(Token, &'static str)], operand: fn(&mut Self) -> Parsed) -> Parsed {
        let first = operand(self)?;
        let mut rest = Vec::new();
        loop {
            let before = self.at;
            let next = self.peek()?;
            let Some((_, operator)) = operators.iter().find(|(token, _)| next == Some(token)) else { break };
            self.at += 1;
            match operand(self) {
                Ok(tree) => rest.push((*operator, tree)),
                Err(Fault::Here) => {
                    self.at = before;
                    break;
                }
                Err(named) => return Err(named),
            }
        }
        Ok(if rest.is_empty() { first } else { Tree::Chain(Box::new(first), rest) })
    }

    fn factor(&mut self) -> Parsed {
        let sign = match self.peek()? {
            Some(Token::Plus) => '+',
            Some(Token::Minus) => '-',
            _ => return self.power(),
        };
        self.at += 1;
        self.deeper(Self::factor).map(|operand| Tree::Unary(sign, Box::new(operand)))
    }

    fn power(&mut self) -> Parsed {
        let base = self.primary()?;
        let before = self.at;
        if !self.take(&Token::DoubleStar)? {
            return Ok(base);
        }
        match self.deeper(Self::factor) {
            Ok(exponent) => Ok(Tree::Chain(Box::new(base), vec![("**", exponent)])),
            Err(Fault::Here) => {
                self.at = before;
                Ok(base)
            }
            Err(named) => Err(named),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.depth += 1;
        let tree = parse(self);
        self.depth -= 1;
        tree
    }

    /// An atom and the calls after it. Anything that cannot be parsed as a call is left for the next rule.
    fn primary(&mut self) -> Parsed {
        let mut tree = self.atom()?;
        loop {
            let before = self.at;
            if self.take(&Token::Dot)? {
                // An attribute would need a name, which the alphabet lacks; but Python looks for one.
                self.peek()?;
                self.at = before;
            }
            if !self.take(&Token::Open)? {
                return Ok(tree);
            }
            match self.deeper(Self::argument) {
                Ok(argument) => tree = Tree::Call(Box::new(tree), argument),
                Err(Fault::Here) => {
                    self.at = before;
                    return Ok(tree);
                }
                Err(named) => return Err(named),
            }
        }
    }

    /// The rest of a call after its opening parenthesis.
    fn argument(&mut self) -> Result<Option<(Star, Box<Tree>)>, Fault> {
        if self.take(&Token::Close)? {
            return Ok(None);
        }
        let star = if self.take(&Token::Star)? {
            Star::One
        } else if self.take(&Token::DoubleStar)? {
            Star::Two
        } else {
            Star::No
        };
        let argument = Box::new(self.expression()?);
        if self.take(&Token::Close)? { Ok(Some((star, argument))) } else { Err(Fault::Here) }
    }

    fn atom(&mut self) -> Parsed {
        if let Some((position, what)) = &self.tokens.too_long
            && *position == self.at
        {
            return Err(Fault::Named(what.clone()));
        }
        let tree = match self.peek()? {
            Some(Token::Int(number)) => Tree::Number(Number::Int(number.clone())),
            Some(Token::Float(number)) => Tree::Number(Number::Float(*number)),
            Some(Token::Ellipsis) => Tree::Ellipsis,
            Some(Token::Open) => return self.deeper(Self::group),
            _ => return Err(Fault::Here),
        };
        self.at += 1;
        Ok(tree)
    }

    fn group(&mut self) -> Parsed {
        self.at += 1;
        if self.take(&Token::Close)? {
            return Ok(Tree::EmptyTuple);
        }
        self.starred()?;
        let tree = self.expression()?;
        if self.take(&Token::Close)? { Ok(tree) } else { Err(Fault::Here) }
    }

    /// `(*x)` and `(**x)`: never valid, and with their own error in the second pass. The first pass also reads a
    /// starred operand, as the start of a tuple that never follows.
    fn starred(&mut self) -> Result<(), Fault> {
        let before = self.at;
        let what = if self.take(&Token::Star)? {
            "cannot use starred expression here"
        } else if self.naming && self.take(&Token::DoubleStar)? {
            "cannot use double starred expression here"
        } else {
            return Ok(());
        };
        let closed = self.expression().and_then(|_| self.take(&Token::Close));
        self.at = before;
        match closed {
            Ok(true) if self.naming => Err(Fault::Named(what.into())),
            Ok(_) | Err(Fault::Here) => Ok(()),
            Err(named) => Err(named),
        }
    }
}
