//! A conversation with its calls, results, timings and rewards.

use std::fmt::Write as _;

use super::{Page, clean};
use crate::number::{cell, duration};
use crate::run::{Ending, Full, Message, Part, Role, TurnView};

/// Texts longer than this are cut in the middle, unless everything is requested.
const CUT: usize = 4_000;

pub fn conversation(full: &Full, page: Page, all: bool) -> String {
    let mut out = String::new();
    let brief = &full.brief;
    let part = full.part.as_ref().map_or_else(|| "no step".to_owned(), Part::to_string);
    let title = format!("trace {}  {part}  {}/{}  rollout {}", brief.trace, brief.env, brief.task, brief.rollout());
    let ended = format!("{} {}", brief.outcome, brief.why);
    let ended = page.ink(if brief.outcome.is(Ending::Finished) { "32" } else { "31" }, &cut(&clean(ended.trim()), all));
    let _ = writeln!(out, "{}  {ended}", page.bold(&clean(&title)));
    let tools: Vec<&str> = full.tools();
    let _ = writeln!(out, "{}", page.dim(&clean(&format!("{} tools: {}", tools.len(), tools.join(", ")))));
    for message in &full.messages {
        say(message, full, page, all, &mut out);
    }
    let _ = writeln!(out, "{}", page.bold("── rewards"));
    for reward in &brief.rewards {
        let value = page.sign(reward.value, &format!("{:>9}", cell(reward.value)));
        let _ = writeln!(out, "   {:<20} {value}  {}", clean(&reward.component), cut(&clean(&reward.why), all));
    }
    let _ = writeln!(out, "   {:<20} {:>9}", "advantage", clean(&brief.advantage.words()));
    let told = |tokens: Option<usize>| tokens.map_or_else(|| "–".to_owned(), |tokens| tokens.to_string());
    let _ = writeln!(
        out,
        "   {} tokens, {} sampled, {} trained, {} clipped",
        brief.tokens,
        brief.sampled,
        told(brief.trained),
        told(brief.clipped)
    );
    out
}

fn say(message: &Message, full: &Full, page: Page, all: bool, out: &mut String) {
    let ink = match message.role.known() {
        Some(Role::Assistant) => "36",
        Some(Role::Tool) => "33",
        Some(Role::User) => "35",
        Some(Role::System) | None => "2",
    };
    let name = message.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    let turn = message.turn.and_then(|turn| full.turn_records.get(turn));
    let timings = turn.map(timing).unwrap_or_default();
    let _ = writeln!(out, "{}{}", page.ink(ink, &clean(&format!("── {}{name}", message.role))), page.dim(&timings));
    if let Some(reasoning) = &message.reasoning {
        let _ = writeln!(out, "{}", page.dim(&cut(&clean(reasoning), all)));
    }
    if !message.content.is_empty() {
        let _ = writeln!(out, "{}", cut(&clean(&message.content), all));
    }
    for (index, call) in message.calls.iter().enumerate() {
        let ran = turn.is_none_or(|turn| index < turn.executed as usize);
        let ran = if ran { "" } else { "  (did not run)" };
        let _ = writeln!(
            out,
            "   {}{ran}",
            page.ink("36", &cut(&clean(&format!("→ {} {}", call.name, call.arguments)), all))
        );
    }
    let Some(turn) = turn else { return };
    if let Some(failure) = &turn.failure {
        let _ = writeln!(out, "   {}", page.ink("31", &cut(&clean(failure), all)));
    }
    if turn.failed > 0 {
        let _ = writeln!(out, "   {}", page.ink("31", &format!("{} of {} calls failed", turn.failed, turn.executed)));
    }
    if !turn.repairs.is_empty() {
        let _ = writeln!(out, "   {}", page.dim(&clean(&format!("repaired: {}", turn.repairs.join(", ")))));
    }
}

fn timing(turn: &TurnView) -> String {
    let parts: Vec<String> =
        turn.timings.iter().map(|(who, seconds)| format!("  {who} {}", duration(*seconds))).collect();
    parts.concat()
}

fn cut(text: &str, all: bool) -> String {
    let count = text.chars().count();
    if all || count <= CUT {
        return text.to_owned();
    }
    let head: String = text.chars().take(CUT / 2).collect();
    let tail: String = text.chars().skip(count - CUT / 2).collect();
    format!("{head}\n… {} characters; --all prints them …\n{tail}", count - CUT)
}
