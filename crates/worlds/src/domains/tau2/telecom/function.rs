//! Functions of telecom's two toolkits: the tools, and the functions that set up a scenario or assert on it.

use super::super::super::py::{Dict, Raised, Value, json};
use super::super::super::tool::Failure;

/// The use of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A tool that changes nothing.
    Read,
    /// A tool that changes the state.
    Write,
    /// A function that is no tool: tasks use it to set up their scenario or to assert on its end.
    Scenario,
}

/// A function over a state, by name.
#[derive(Debug)]
pub(super) struct Function<S: 'static> {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
    /// Parameters with a default, after the others.
    pub(super) optional: &'static [&'static str],
    pub(super) of: Use,
    pub(super) run: fn(&mut S, &Dict) -> Result<Value, Failure>,
}

impl<S> Function<S> {
    pub(super) const fn new(
        of: Use,
        name: &'static str,
        parameters: &'static [&'static str],
        run: fn(&mut S, &Dict) -> Result<Value, Failure>,
    ) -> Self {
        Self { name, parameters, optional: &[], of, run }
    }

    pub(super) const fn or(mut self, optional: &'static [&'static str]) -> Self {
        self.optional = optional;
        self
    }

    /// Binds the arguments as Python does and runs.
    pub(super) fn call(&self, toolkit: &str, state: &mut S, arguments: &Dict) -> Result<Value, Failure> {
        let mut given = arguments.clone();
        given.retain(|name, _| !self.optional.contains(&&**name));
        super::super::super::tool::bind(&format!("{toolkit}.{}", self.name), self.parameters, &given)?;
        (self.run)(state, arguments)
    }
}

/// Text of an answer: strings unchanged, everything else as JSON.
pub(super) fn shown(answer: &Value) -> String {
    match answer {
        Value::Str(text) => text.to_string(),
        other => json::dumps(other),
    }
}

/// An optional argument.
pub(super) fn given<'a>(arguments: &'a Dict, name: &str) -> Option<&'a Value> {
    arguments.get(name)
}

/// Error of `left OPERATOR right` for values that cannot be compared.
pub(super) fn incomparable(operator: &str, left: &Value, right: &Value) -> Raised {
    let (left, right) = (left.type_name(), right.type_name());
    Raised(format!("'{operator}' not supported between instances of '{left}' and '{right}'"))
}

/// `bool(value)`.
pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::None => false,
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number != 0,
        Value::Big(_) => true,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Dict(dict) => !dict.is_empty(),
    }
}
