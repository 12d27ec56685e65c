//! Scripted policies of the shop: success without understanding.
//!
//! They are given what a small policy has to learn (copying names and ids, writing calls, recognising a tool by its
//! description), so that their success shows what the rest is worth.

use hone_trace::{Action, Content, Message, Seed, ToolSet, ToolSpec};
use serde_json::Value;

use super::tools::{Tool, call};
use hone_arena::baseline::Script;
use hone_arena::solution::DONE;

/// The shop's own scripted policies, least capable first.
pub(super) const BASELINES: [Script; 2] = [
    Script { name: "cancels whatever it hears of", act: |tools, said, _: Seed| act(tools, said, cancels) },
    Script { name: "goes by one keyword, once", act: |tools, said, _: Seed| act(tools, said, by_keyword) },
];

/// Verbs of a request, and the tools they call for once the order is found.
const KEYWORDS: [(&[&str], &[Tool]); 4] = [
    (&["send", "ship"], &[Tool::ChangeCity]),
    (&["return", "take back"], &[Tool::ReturnItem]),
    (&["exchange", "swap"], &[Tool::FindVariant, Tool::ExchangeItem]),
    (&["cancel", "stop", "call off", "rid", "relieve"], &[Tool::CancelOrder]),
];

fn cancels(_request: &str) -> &'static [Tool] {
    &[Tool::CancelOrder]
}

/// Tools for the first verb in the request.
fn by_keyword(request: &str) -> &'static [Tool] {
    let place = |words: &[&str]| words.iter().filter_map(|word| request.find(&format!(" {word} "))).min();
    let found = KEYWORDS.iter().filter_map(|(words, means)| Some((place(words)?, *means)));
    found.min_by_key(|(place, _)| *place).map_or(&[], |(_, means)| means)
}

/// Finds customer and order of the first item named, calls the tools one after the other, ignoring the answers, and is
/// done.
fn act(tools: &ToolSet, said: &[Message], means: fn(&str) -> &'static [Tool]) -> Action {
    let text = |message: &Message| message.content().map(Content::text).unwrap_or_default();
    let request = said.iter().find(|message| message.role() == "user").map(text).unwrap_or_default();
    let quoted: Vec<&str> = request.split('"').skip(1).step_by(2).collect();
    let answers: Vec<Value> = said
        .iter()
        .filter(|message| message.role() == "tool")
        .map(|message| serde_json::from_str(&text(message)).unwrap_or_default())
        .collect();
    let answered = |key: &str| answers.iter().find_map(|answer| answer.get(key)?.as_str()).unwrap_or_default();
    let named = |at: usize| quoted.get(at).copied().unwrap_or_default();
    let (item, detail) = (named(1), named(2));
    let plan = [Tool::FindCustomer, Tool::FindOrder].into_iter().chain(means(&request).iter().copied());
    let Some(tool) = plan.into_iter().nth(answers.len()) else { return Action::Reply(DONE.into()) };
    let arguments = match tool {
        Tool::FindCustomer => vec![named(0)],
        Tool::FindOrder => vec![answered("customer"), item],
        Tool::GetOrder | Tool::CancelOrder => vec![answered("order")],
        Tool::FindVariant => vec![item, detail],
        Tool::ReturnItem => vec![answered("order"), item],
        Tool::ExchangeItem => vec![answered("order"), item, answered("variant")],
        Tool::ChangeCity => vec![answered("order"), detail],
    };
    let is_it = |spec: &&ToolSpec| spec.description.as_deref().and_then(Tool::described) == Some(tool);
    let name = tools.iter().find(is_it).map_or("", |spec| spec.name.as_str());
    Action::Calls(vec![call(name, tool, &arguments)])
}
