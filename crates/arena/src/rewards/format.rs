//! Graduated format reward: progress of a reply towards one canonical, valid tool call.
//!
//! Seven ordered predicates, each tested only when those before it hold: one call span (0.1), repairable JSON (0.1),
//! strict JSON (0.2), a known tool (0.2), the required arguments (0.2), types and ranges (0.1), nothing extra, neither
//! keys nor text outside the span (0.1).
//!
//! Laws: 1 exactly for a canonical, valid call; fixing one defect never lowers it; the contents of the fields do not
//! matter; text without a call earns at most the first step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hone_trace::{Digest, Message, ParseFailureKind, ToolSet, ToolSpec, TurnRecord, Verdict};
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::catalogue::{ComponentEntry, plain};
use super::lenient::{self, Reading};
use super::submission::{has_text_outside, spans};
use super::{Case, Measure, excerpt, not_applicable, scored, unscored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "format",
    about: "Format score: progress of a reply towards one valid canonical tool call, in seven steps from 0 to 1",
    advice: "A first signal when most replies do not parse, or a gate; it says nothing about whether the call is \
        useful",
    paper: None,
    options: Options::NONE,
    make: plain::<Format>,
};

/// Value of each step, in tenths.
const TENTHS: [u32; 7] = [1, 1, 2, 2, 2, 1, 1];

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Format {
    /// The most recently compiled schemas: the traces of a run share one tool set.
    #[serde(skip)]
    compiled: Mutex<Option<(Digest, Arc<Schemas>)>>,
}

impl Measure for Format {
    fn measure(&self, case: &Case) -> Verdict {
        if let Some(turns) = &case.turns {
            return episode(turns, case.messages.as_deref().unwrap_or_default());
        }
        let Some(text) = &case.completion else { return not_applicable("the case has no completion text") };
        let Some(tools) = &case.tools else { return not_applicable("the case has no `tools`") };
        match self.schemas(tools) {
            Ok(schemas) => format(text, &schemas),
            Err(why) => unscored(why),
        }
    }
}

impl Format {
    fn schemas(&self, tools: &ToolSet) -> Result<Arc<Schemas>, String> {
        // A panic under the lock cannot leave the pair half written.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((digest, schemas)) = &*compiled
            && *digest == tools.digest()
        {
            return Ok(Arc::clone(schemas));
        }
        let schemas = Arc::new(Schemas::compile(tools)?);
        *compiled = Some((tools.digest(), Arc::clone(&schemas)));
        Ok(schemas)
    }
}

/// The tools of an episode with their schemas compiled.
#[derive(Debug)]
pub struct Schemas(HashMap<String, (ToolSpec, Option<Validator>)>);

impl Schemas {
    pub fn compile(tools: &ToolSet) -> Result<Self, String> {
        let mut schemas = HashMap::new();
        for tool in tools.iter() {
            let validator = match &tool.parameters {
                Some(schema) => Some(
                    jsonschema::validator_for(schema)
                        .map_err(|error| format!("bad_schema: the schema of {} is not valid: {error}", tool.name))?,
                ),
                None => None,
            };
            schemas.insert(tool.name.clone(), (tool.clone(), validator));
        }
        Ok(Self(schemas))
    }
}

/// The graduated format of one reply.
pub fn format(text: &str, schemas: &Schemas) -> Verdict {
    let (steps, why) = match climb(text, schemas) {
        Ok(()) => (TENTHS.len(), "canonical: one valid call and nothing else".to_owned()),
        Err((steps, why)) => (steps, why),
    };
    let tenths: u32 = TENTHS[..steps].iter().sum();
    scored(f64::from(tenths) / 10.0, why)
}

/// Format of an episode: the mean over the replies that attempted a call, as parsed. A plain reply to the user is not a
/// format error; an episode that never attempted a call earns 0.
pub fn episode(turns: &[TurnRecord], messages: &[Message]) -> Verdict {
    let replies = messages.iter().filter(|message| message.role() == "assistant");
    // Without messages, text around the calls is unknown and assumed absent.
    let talks = replies.map(|reply| reply.content().is_some_and(|content| !content.text().trim().is_empty()));
    let talks: Vec<bool> = talks.chain(std::iter::repeat(false)).take(turns.len()).collect();
    let tried: Vec<(usize, &str)> = turns.iter().zip(talks).filter_map(|(turn, talks)| steps_of(turn, talks)).collect();
    let Some((_, worst)) = tried.iter().min_by_key(|(steps, _)| *steps) else {
        return scored(0.0, "no_call: no reply tried a call");
    };
    let tenths: u32 = tried.iter().map(|(steps, _)| TENTHS[..*steps].iter().sum::<u32>()).sum();
    let mean = f64::from(tenths) / (10 * tried.len()) as f64;
    scored(mean, format!("{worst}: the worst of {} replies with a call", tried.len()))
}

/// Steps a recorded reply got right; `None` for a plain reply.
fn steps_of(turn: &TurnRecord, talks: bool) -> Option<(usize, &'static str)> {
    use ParseFailureKind as Kind;
    let Some(failure) = &turn.failure else {
        return match turn.calls.len() {
            0 => None,
            1 if talks => Some((6, "text_outside")),
            1 => Some((TENTHS.len(), "canonical")),
            _ => Some((0, "several_calls")),
        };
    };
    let steps = match failure.kind {
        Kind::Truncated | Kind::MalformedMarkup => 0,
        Kind::MalformedJson if turn.repairs.is_empty() => 1,
        Kind::MalformedJson => 2,
        Kind::MissingName | Kind::UnknownTool => 3,
        Kind::ArgumentsNotObject | Kind::MissingRequired => 4,
        Kind::WrongType => 5,
        Kind::UnexpectedArgument => 6,
    };
    Some((steps, failure.kind.name()))
}

/// Number of steps that hold before the first that fails, and the reason for the failure.
fn climb(text: &str, schemas: &Schemas) -> Result<(), (usize, String)> {
    let span = match spans(text).as_slice() {
        [span] if span.closed => *span,
        [_] => return Err((0, "truncated: the call is not closed".into())),
        [] => return Err((0, "no_call: the reply holds no call".into())),
        several => return Err((0, format!("several_calls: {} where one is expected", several.len()))),
    };
    let call = match lenient::read(span.body) {
        Reading::Strict(call) => call,
        Reading::Lenient(_) => return Err((2, "mended_json: trailing commas or raw control characters".into())),
        Reading::Unreadable(why) => return Err((1, format!("malformed_json: {why}"))),
    };
    let name = call.get("name").and_then(Value::as_str).ok_or((3, "missing_name: the call has no name".to_owned()))?;
    let (tool, validator) = schemas.0.get(name).ok_or_else(|| (3, format!("unknown_tool: {}", excerpt(name, 60))))?;
    let arguments = call
        .get("arguments")
        .and_then(Value::as_object)
        .ok_or((4, "arguments_not_object: the arguments are not an object".to_owned()))?;
    if let Some(missing) = required(tool).find(|key| !arguments.contains_key(*key)) {
        return Err((4, format!("missing_required: {missing}")));
    }
    let errors = validator.iter().flat_map(|validator| validator.iter_errors(&call["arguments"]));
    let mut extra = false;
    for error in errors {
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { .. } => extra = true,
            _ => return Err((5, format!("wrong_type: {}", excerpt(&error.to_string(), 120)))),
        }
    }
    let envelope = call.as_object().is_some_and(|call| call.keys().any(|key| key != "name" && key != "arguments"));
    if extra || envelope || has_unknown_key(tool, arguments) {
        return Err((6, "unexpected_key: the call has keys the schema does not know".into()));
    }
    if has_text_outside(text) {
        return Err((6, "text_outside: there is text outside the call".into()));
    }
    Ok(())
}

fn required(tool: &ToolSpec) -> impl Iterator<Item = &str> {
    let keys = tool.parameters.as_ref().and_then(|schema| schema.get("required")).and_then(Value::as_array);
    keys.into_iter().flatten().filter_map(Value::as_str)
}

/// Keys beside the schema's properties count as extra even if the schema does not forbid them.
fn has_unknown_key(tool: &ToolSpec, arguments: &Map<String, Value>) -> bool {
    let properties = tool.parameters.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.is_some_and(|known| arguments.keys().any(|key| !known.contains_key(key)))
}
