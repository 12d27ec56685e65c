//! A tool as tau-bench defines it: a Python function with named parameters, bound the way Python binds them.

use super::py::{Dict, Raised, Value};
use super::world::World;

/// Rule set that the tools reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// tau-bench v1, faults included.
    Compat,
    /// tau-bench v1 with the listed faults fixed.
    Strict,
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The agent reads "Error: " and this text.
    Error(String),
    /// The environment itself breaks here and upstream loses the episode.
    Lost(&'static str),
}

impl From<Raised> for Failure {
    fn from(Raised(text): Raised) -> Self {
        Self::Error(text)
    }
}

/// The answer of a tool.
pub(super) type Answer = Result<String, Failure>;

/// Fails with an error text that the tool itself gives.
pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(text.into()))
}

/// `json.dumps` of a record.
#[expect(clippy::unnecessary_wraps, reason = "the last expression of tools, which can fail")]
pub(super) fn show(record: &Value) -> Answer {
    Ok(super::py::json::dumps(record))
}

/// Tool: its name, its parameters in order (all required), and its function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    pub name: &'static str,
    pub parameters: &'static [&'static str],
    pub run: fn(&mut World, &Dict, Rules) -> Answer,
}

static MISSING: Value = Value::None;

/// An argument of a bound call.
pub(super) fn arg<'a>(arguments: &'a Dict, name: &str) -> &'a Value {
    arguments.get(name).unwrap_or(&MISSING)
}

/// Checks a call's arguments against the parameters, with the text of Python's `TypeError`.
///
/// `function` is the qualified name Python shows, such as `CancelPendingOrder.invoke`.
pub(super) fn bind(function: &str, parameters: &[&str], arguments: &Dict) -> Result<(), Raised> {
    if let Some(unknown) = arguments.keys().find(|name| !parameters.contains(&&***name)) {
        return Err(Raised(format!("{function}() got an unexpected keyword argument '{unknown}'")));
    }
    let missing: Vec<_> =
        (parameters.iter()).filter(|name| !arguments.contains_key(**name)).map(|name| format!("'{name}'")).collect();
    let names = match missing.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [many @ .., last] => format!("{}, and {last}", many.join(", ")),
    };
    let (count, plural) = (missing.len(), if missing.len() == 1 { "" } else { "s" });
    Err(Raised(format!("{function}() missing {count} required positional argument{plural}: {names}")))
}

/// Binds a call the way tau-bench's environment does, which passes the database as `data`.
pub(crate) fn bind_invoke(domain: &str, tool: &Tool, arguments: &Dict) -> Result<(), Raised> {
    let class = camel_case(tool.name);
    if arguments.contains_key("data") {
        let module = format!("tau_bench.envs.{domain}.tools.{}", tool.name);
        return Err(Raised(format!("{module}.{class}.invoke() got multiple values for keyword argument 'data'")));
    }
    bind(&format!("{class}.invoke"), tool.parameters, arguments)
}

fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(word).collect()
}
