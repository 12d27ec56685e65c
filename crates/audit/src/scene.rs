//! Scene: one task with its solution split into replaceable parts.

use std::sync::Arc;

use hone_arena::solution::{DONE, Move};
use hone_chat::parse::{Format, Toolbox};
use hone_trace::{Task, ToolCall, ToolSet};
use serde_json::{Map, Value};

/// One task, opened.
#[derive(Debug)]
pub struct Scene {
    pub task: Task,
    pub(crate) tools: ToolSet,
    /// All that the agent reads before its first reply, without the system prompt.
    pub(crate) prompt: String,
    /// The moves of a perfect episode; `None` where the task names none.
    pub(crate) moves: Option<Vec<Move>>,
    /// Last move of the solution, and its replaceable parts.
    pub(crate) answer: Option<Answer>,
    /// Ids that could be cited: what the environment showed.
    pub(crate) shown: Vec<String>,
    /// Ids a perfect answer cites.
    pub(crate) gold: Vec<String>,
    pub(crate) format: Format,
    pub(crate) toolbox: Arc<Toolbox>,
}

/// The move that carries the answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Moves of a perfect episode before the answer.
    pub(crate) before: Vec<Move>,
    /// `None`: the answer is said, not called.
    pub(crate) call: Option<ToolCall>,
    /// Content of the answer.
    pub(crate) text: String,
    /// Names of the arguments that hold its text, its citations and its confidence.
    pub(crate) slots: Slots,
}

/// Arguments of the answering call by what they hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Slots {
    pub(crate) text: Option<String>,
    pub(crate) list: Option<String>,
    pub(crate) confidence: Option<String>,
    pub(crate) flag: Option<String>,
}

/// An answer to give in place of the right one. Fields that are `None` stay as in the solution.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fill<'a> {
    pub(crate) text: Option<&'a str>,
    pub(crate) citations: Option<Vec<String>>,
    pub(crate) confidence: Option<f64>,
    pub(crate) flag: Option<bool>,
}

impl Answer {
    /// Takes the solution apart. `by_call`: the last call ends the episode, and what follows it is never said.
    pub(crate) fn of(moves: &[Move], tools: &ToolSet, by_call: bool) -> Option<Self> {
        let last = moves.iter().rposition(|step| matches!(step, Move::Call(_)) == by_call)?;
        let before = moves[..last].to_vec();
        match &moves[last] {
            Move::Say(text) => Some(Self { before, call: None, text: text.clone(), slots: Slots::default() }),
            Move::Call(call) => {
                let slots = Slots::of(call, tools);
                let text = slots.text.as_ref().and_then(|name| call.arguments.get(name)?.as_str());
                let text = text.unwrap_or_default().to_owned();
                Some(Self { before, call: Some(call.clone()), text, slots })
            }
        }
    }

    /// The call with other contents; `None` where the answer is said.
    pub(crate) fn filled(&self, fill: &Fill<'_>) -> Option<ToolCall> {
        let mut call = self.call.clone()?;
        let mut put = |slot: &Option<String>, value: Option<Value>| {
            if let (Some(slot), Some(value)) = (slot, value) {
                call.arguments.insert(slot.clone(), value);
            }
        };
        put(&self.slots.text, fill.text.map(Value::from));
        put(&self.slots.list, fill.citations.clone().map(Value::from));
        put(&self.slots.confidence, fill.confidence.map(Value::from));
        put(&self.slots.flag, fill.flag.map(Value::from));
        Some(call)
    }
}

impl Slots {
    fn of(call: &ToolCall, tools: &ToolSet) -> Self {
        let none = Map::new();
        let schema = tools.get(&call.name).and_then(|tool| tool.parameters.as_ref());
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object()).unwrap_or(&none);
        let first = |wanted: &dyn Fn(&str, &Value) -> bool| {
            properties.iter().find(|(name, schema)| wanted(name, schema)).map(|(name, _)| name.clone())
        };
        let has_type = |schema: &Value, kind: &str| schema.get("type").is_some_and(|found| found == kind);
        let given = |name: &str| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        // Prose has words; an id or a city is no place for a text.
        let text = first(&|name, schema| has_type(schema, "string") && given(name).split_whitespace().count() >= 3);
        let list = first(&|_, schema| {
            has_type(schema, "array") && schema.get("items").is_some_and(|items| has_type(items, "string"))
        });
        let confidence = first(&|name, schema| {
            let unit = schema.get("minimum").and_then(Value::as_f64) == Some(0.0)
                && schema.get("maximum").and_then(Value::as_f64) == Some(1.0);
            has_type(schema, "number") && (unit || name.contains("confidence"))
        });
        let flag = first(&|_, schema| has_type(schema, "boolean"));
        Self { text, list, confidence, flag }
    }
}

impl Scene {
    /// A call as the policy would write it; `None` where the format cannot say it.
    pub(crate) fn write(&self, call: &ToolCall) -> Option<String> {
        self.format.render_calls(std::slice::from_ref(call), &self.toolbox).ok()
    }

    /// Moves as replies; `None` where one cannot be written.
    pub(crate) fn script(&self, moves: &[Move]) -> Option<Vec<String>> {
        moves
            .iter()
            .map(|step| match step {
                Move::Call(call) => self.write(call),
                Move::Say(text) => Some(text.clone()),
            })
            .collect()
    }

    /// The answering call or reply alone, as text.
    pub(crate) fn answer_text(&self, fill: &Fill<'_>) -> Option<String> {
        let answer = self.answer.as_ref()?;
        match answer.filled(fill) {
            Some(call) => self.write(&call),
            None => Some(fill.text.unwrap_or(&answer.text).to_owned()),
        }
    }

    /// The whole solution with another answer at its end.
    pub(crate) fn solved_but(&self, fill: &Fill<'_>) -> Option<Vec<String>> {
        let answer = self.answer.as_ref()?;
        let mut replies = self.script(&answer.before)?;
        replies.push(self.answer_text(fill)?);
        Some(replies)
    }

    /// An answer without the work. If the answer is a call, the look-ups before it are kept: a citation of something
    /// that was never shown is too easy to refuse.
    pub(crate) fn junk(&self, fill: &Fill<'_>) -> Vec<String> {
        let called = self.answer.as_ref().is_some_and(|answer| answer.call.is_some());
        let cites = fill.citations.as_ref().is_some_and(|ids| !ids.is_empty());
        match (called, cites) {
            (true, true) => self.solved_but(fill),
            (true, false) => self.answer_text(fill).map(|text| vec![text]),
            (false, _) => None,
        }
        .unwrap_or_else(|| vec![fill.text.unwrap_or(DONE).to_owned()])
    }

    /// True when the answer has a field for free text.
    pub(crate) fn has_text(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| answer.call.is_none() || answer.slots.text.is_some())
    }
}
