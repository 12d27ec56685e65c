use hone_arena::solution::Move;
use serde_json::Value;

use crate::probe::{About, Mark, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// The solution with one thing wrong.
#[derive(Debug)]
pub(super) struct Defect;

impl Probe for Defect {
    fn about(&self) -> About {
        About {
            name: "defect",
            what: "The solution with one thing wrong: a figure in its text, its flag, its last working call changed or left \
                   out.",
            finds: "Rewards that cannot tell nearly right from right.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let (Some(answer), Some(moves)) = (&scene.answer, &scene.moves) else { return Vec::new() };
        let mut variants = Vec::new();
        let mut add = |label: &str, replies: Option<Vec<String>>| {
            variants.extend(replies.map(|replies| Variant::new(label, Role::Defect, replies).marked(Mark::OneWrong)));
        };
        if let Some(wrong) = spoilt(&answer.text).filter(|_| answer.slots.text.is_some()) {
            add(
                "one figure or word of the answer is wrong",
                scene.solved_but(&Fill { text: Some(&wrong), ..Fill::default() }),
            );
        }
        if let (Some(slot), Some(call)) = (&answer.slots.flag, &answer.call) {
            let flag = call.arguments.get(slot).and_then(Value::as_bool).unwrap_or_default();
            add("the flag is the other way", scene.solved_but(&Fill { flag: Some(!flag), ..Fill::default() }));
        }
        // Where the answer is said, the work is in the calls.
        if answer.call.is_none()
            && let Some(last) = moves.iter().rposition(|step| matches!(step, Move::Call(_)))
        {
            let without: Vec<Move> =
                moves.iter().enumerate().filter(|(at, _)| *at != last).map(|(_, step)| step.clone()).collect();
            add("the last call is left out", scene.script(&without));
            let changed = moves.iter().enumerate().map(|(at, step)| match step {
                Move::Call(call) if at == last => Move::Call(changed(call)),
                step => step.clone(),
            });
            add("the last call has a wrong argument", scene.script(&changed.collect::<Vec<_>>()));
        }
        variants
    }
}

/// A call with its first text argument changed.
fn changed(call: &hone_trace::ToolCall) -> hone_trace::ToolCall {
    let mut call = call.clone();
    let text =
        call.arguments.values_mut().find_map(|value| if let Value::String(text) = value { Some(text) } else { None });
    if let Some(text) = text {
        *text = spoilt(text).unwrap_or_else(|| format!("{text}x"));
    }
    call
}

/// The text with its first figure another one; without figures, with its longest word another one.
pub(super) fn spoilt(text: &str) -> Option<String> {
    if let Some(at) = text.find(|c: char| c.is_ascii_digit()) {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        let turned: String =
            text[at..at + digits].chars().map(|c| if c == '9' { '1' } else { char::from(c as u8 + 1) }).collect();
        return Some(format!("{}{turned}{}", &text[..at], &text[at + digits..]));
    }
    let longest = text.split_whitespace().max_by_key(|word| word.len())?;
    Some(text.replacen(longest, "something", 1))
}
