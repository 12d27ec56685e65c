//! Plays triage episodes without a model.

use hone_arena::rewards::{Case, Rubric};
use hone_trace::{Action, Arena, Content, EndState, Message, Task, ToolCall, ToolSet, TurnRecord};
use hone_worlds::triage::TriageArena;
use serde_json::{Value, json};

pub(crate) struct Played {
    pub(crate) end: EndState,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) answers: Vec<String>,
    pub(crate) tools: ToolSet,
}

/// Plays `calls`, one per turn, until the episode is over.
pub(crate) fn play(arena: &TriageArena, task: &Task, calls: &[ToolCall]) -> Played {
    futures::executor::block_on(async {
        let mut episode = arena.open(task, 0).await.unwrap();
        let mut answers = Vec::new();
        for call in calls {
            let turn = episode.env.step(Action::Calls(vec![call.clone()])).await.unwrap();
            answers.extend(turn.messages.iter().filter_map(Message::content).map(Content::text));
            if turn.done {
                break;
            }
        }
        Played { end: episode.env.end(), calls: calls.to_vec(), answers, tools: episode.tools }
    })
}

/// The rubric's total, and every component for a message.
pub(crate) fn score(rubric: &Rubric, played: &Played) -> (f64, String) {
    let mut case = Case::read(Value::Object(played.end.facts.clone())).unwrap();
    let last = played.calls.last().map_or(String::new(), |call| {
        format!("<tool_call>\n{}\n</tool_call>", json!({"name": call.name, "arguments": call.arguments}))
    });
    case.completion = Some(last);
    case.turns = Some(
        played.calls.iter().map(|call| TurnRecord { calls: vec![call.clone()], ..TurnRecord::default() }).collect(),
    );
    case.tools = Some(played.tools.clone());
    let card = futures::executor::block_on(rubric.score_case(&case));
    let parts = card.components.iter().map(|part| format!("{} {:?} ({})", part.component, part.value(), part.why()));
    (card.total.value().unwrap(), parts.collect::<Vec<_>>().join("\n"))
}
