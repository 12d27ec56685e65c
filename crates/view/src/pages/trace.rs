//! Trace page: the conversation of one rollout, its rewards with reasons, and its tokens.

use super::{Place, Query, called, crumbs, frame, sign, tokens};
use crate::html::{Html, clipped};
use crate::number::{cell, duration, short};
use crate::put;
use crate::run::{Full, Group, Message, Part, Role, TurnView, ViewError, Worth};
use crate::site::Site;

/// Characters of a message on the page; `hone show --all` prints the rest.
const MESSAGE: usize = 20_000;

/// Views of a trace: name in the URL, label.
const VIEWS: [(&str, &str); 4] =
    [("conversation", "conversation"), ("tokens", "tokens"), ("table", "token table"), ("record", "record")];

pub(super) fn page(site: &Site, number: usize, trace: u64, query: &Query) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let full = run.trace(trace)?;
    let view = query.get("view").unwrap_or(VIEWS[0].0);
    let place = full.part.as_ref().and_then(|part| run.groups(part, &crate::run::Filter::default()).ok());
    let group = place.as_ref().and_then(|(groups, _)| {
        groups.iter().find(|group| group.rollouts.iter().any(|rollout| rollout.trace == trace))
    });
    let mut body = Html::new();
    head(&full, &mut body);
    learned(&full, &mut body);
    put!(body, "<p class=\"bar\">", siblings(number, trace, group, query), tabs(view, query), "</p>");
    put!(body, "<div class=\"sheet\"><div>");
    match view {
        "tokens" => tokens::text(&run.tokens(&full), query, &mut body),
        "table" => tokens::table(&run.tokens(&full), query, &mut body),
        "record" => {
            let text = serde_json::to_string_pretty(&full.record).unwrap_or_default();
            put!(body, "<pre class=\"json\">", clipped(&text, 400_000), "</pre>");
        }
        _ => conversation(&full, &mut body),
    }
    put!(body, "</div>", aside(&full), "</div>");
    let crumbs = crumbs(site, number, &way(site, number, &full, group))?;
    Ok(frame(site, &Place { run: Some(number), tab: "", crumbs }, &body))
}

/// Links to the rollouts before and after in the group.
fn siblings(number: usize, trace: u64, group: Option<&Group>, query: &Query) -> Html {
    let mut out = Html::new();
    let Some(group) = group else { return out };
    let at = group.rollouts.iter().position(|rollout| rollout.trace == trace).unwrap_or(0);
    for (name, other, rel) in [("← rollout", at.checked_sub(1), "previous"), ("rollout →", Some(at + 1), "next")] {
        if let Some(other) = other.and_then(|other| group.rollouts.get(other)) {
            let url = format!("/r/{number}/trace/{}{}", other.trace, query.with("", ""));
            put!(out, "<a class=\"pick\" rel=\"", rel, "\" href=\"", url, "\">", name, "</a>");
        }
    }
    out
}

/// Links to the views; that of the conversation names none.
fn tabs(view: &str, query: &Query) -> Html {
    let mut out = Html::new();
    for (name, label) in VIEWS {
        let class = if view == name { "on" } else { "" };
        let url = query.with("view", if name == VIEWS[0].0 { "" } else { name });
        put!(out, "<a class=\"pick ", class, "\" href=\"", url, "\">", label, "</a>");
    }
    out
}

/// The way to a trace: part, group, trace.
fn way(site: &Site, number: usize, full: &Full, group: Option<&Group>) -> Vec<(String, String)> {
    let mut way = Vec::new();
    if let Some(part) = &full.part {
        way.push((called(part), site.part_url(number, part).unwrap_or_default()));
        way.extend(group.map(|group| {
            (format!("group {}", group.group), site.group_url(number, part, group.group).unwrap_or_default())
        }));
    }
    way.push((format!("trace {}", full.brief.trace), String::new()));
    way
}

fn head(full: &Full, body: &mut Html) {
    let brief = &full.brief;
    put!(
        *body,
        "<section class=\"head\"><h1>",
        clipped(&brief.task, 120),
        " <span class=\"dim\">",
        clipped(&brief.env, 40),
        " · rollout ",
        brief.rollout(),
        "</span></h1><dl class=\"facts\"><div><dt>reward</dt><dd class=\"",
        sign(brief.total()),
        "\">",
        cell(brief.total()),
        "</dd></div><div><dt>advantage</dt><dd class=\"",
        sign(brief.advantage.value()),
        "\" title=\"",
        brief.advantage.words(),
        "\">",
        brief.advantage.value().map_or_else(|| "none".to_owned(), crate::number::signed),
        "</dd></div><div><dt>outcome</dt><dd>",
        brief.outcome,
        "</dd></div>"
    );
    let told = |count: Option<usize>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    put!(
        *body,
        "<div><dt>tokens</dt><dd>",
        brief.tokens,
        "</dd></div><div><dt>sampled</dt><dd>",
        brief.sampled,
        "</dd></div><div><dt>trained</dt><dd>",
        told(brief.trained),
        "</dd></div><div><dt>clipped</dt><dd>",
        told(brief.clipped),
        "</dd></div><div><dt>turns</dt><dd>",
        brief.turns,
        "</dd></div><div><dt>seconds</dt><dd>",
        short(brief.seconds),
        "</dd></div></dl>"
    );
    if !brief.why.is_empty() {
        put!(body, "<p class=\"bad\">", clipped(&brief.why, 1000), "</p>");
    }
    put!(body, "</section>");
}

/// Number of trained tokens of the trace, and why the others were not.
fn learned(full: &Full, body: &mut Html) {
    put!(body, "<ul class=\"learned\" aria-label=\"what was trained\">");
    for (count, trained, why) in full.fates() {
        let (class, word) = if trained { ("good", " trained") } else { ("warn", " sampled, not trained") };
        put!(body, "<li><b class=\"", class, "\">", count, word, "</b> <span class=\"dim\">", why, "</span></li>");
    }
    let others = full.brief.tokens.saturating_sub(full.brief.sampled);
    if others > 0 {
        put!(
            *body,
            "<li><b>",
            others,
            " not sampled</b> <span class=\"dim\">prompt, observations and what Hone appends are never trained: the \
             policy did not choose them</span></li>"
        );
    }
    put!(body, "</ul>");
}

pub(super) fn conversation(full: &Full, body: &mut Html) {
    put!(body, "<section class=\"talk\" aria-label=\"conversation\">");
    let tools = full.tools();
    if !tools.is_empty() {
        put!(
            *body,
            "<details class=\"fold\"><summary>",
            tools.len(),
            " tools <span class=\"dim\">",
            clipped(&tools.join(", "), 200),
            "</span></summary><pre class=\"json\">",
            clipped(&serde_json::to_string_pretty(&full.record["tools"]).unwrap_or_default(), 100_000),
            "</pre></details>"
        );
    }
    for message in &full.messages {
        let turn = message.turn.and_then(|turn| full.turn_records.get(turn));
        if message.role.is(Role::System) {
            put!(
                *body,
                "<details class=\"fold\"><summary>system prompt <span class=\"dim\">",
                clipped(&message.content, 120),
                "</span></summary><div class=\"text\">",
                clipped(&message.content, MESSAGE),
                "</div></details>"
            );
        } else {
            said(message, turn, body);
        }
    }
    put!(body, "</section>");
}

fn said(message: &Message, turn: Option<&TurnView>, body: &mut Html) {
    let class = match message.role.known() {
        Some(Role::Assistant) => "agent",
        Some(Role::User) => "user",
        Some(Role::Tool) => "tool",
        Some(Role::System) | None => "other",
    };
    put!(
        *body,
        "<article class=\"msg ",
        class,
        "\" data-item tabindex=\"-1\"><h3>",
        clipped(message.role.as_str(), 40),
        " ",
        message.name.as_ref().map(|name| clipped(name, 60))
    );
    for (who, seconds) in turn.iter().flat_map(|turn| &turn.timings) {
        put!(body, "<span class=\"dim\">", clipped(who, 30), " ", duration(*seconds), "</span>");
    }
    put!(body, "</h3>");
    if let Some(reasoning) = &message.reasoning {
        put!(body, "<div class=\"reasoning\">", clipped(reasoning, MESSAGE), "</div>");
    }
    if !message.content.is_empty() {
        put!(body, "<div class=\"text\">", pretty(&message.content), "</div>");
    }
    for (at, call) in message.calls.iter().enumerate() {
        let ran = turn.is_none_or(|turn| at < turn.executed as usize);
        let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
        put!(
            *body,
            "<div class=\"call ",
            if ran { "" } else { "notrun" },
            "\"><b>",
            clipped(&call.name, 120),
            "</b>",
            if ran { "" } else { " did not run" },
            "<pre>",
            clipped(&arguments, MESSAGE),
            "</pre></div>"
        );
    }
    if let Some(turn) = turn {
        if let Some(failure) = &turn.failure {
            put!(body, "<div class=\"failure\">", clipped(failure, 2000), "</div>");
        }
        if turn.failed > 0 {
            put!(body, "<div class=\"failure\">", turn.failed, " of ", turn.executed, " calls failed</div>");
        }
        if !turn.repairs.is_empty() {
            put!(body, "<div class=\"dim\">repaired: ", clipped(&turn.repairs.join(", "), 500), "</div>");
        }
    }
    put!(body, "</article>");
}

/// Indented JSON if it is an object or an array; other text unchanged.
fn pretty(text: &str) -> String {
    let is_json = text.len() < 100_000 && text.trim_start().starts_with(['{', '[']);
    let value = is_json.then(|| serde_json::from_str::<serde_json::Value>(text).ok()).flatten();
    clipped(
        &value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.to_owned()),
        MESSAGE,
    )
}

fn aside(full: &Full) -> Html {
    let mut out = Html::new();
    put!(out, "<aside class=\"side\"><h2>Rewards</h2><table><tbody>");
    for reward in &full.brief.rewards {
        put!(
            out,
            "<tr><td class=\"text\">",
            clipped(&reward.component, 40),
            "</td><td class=\"",
            sign(reward.value),
            "\">",
            cell(reward.value),
            "</td></tr><tr class=\"why\"><td colspan=\"2\" class=\"text dim\">",
            clipped(&reward.why, 400),
            "</td></tr>"
        );
    }
    let worth = match &full.brief.advantage {
        Worth::NotRecorded => format!("none: {}", full.untrained()),
        Worth::Nothing(why) => format!("none: {why}"),
        other => other.words(),
    };
    put!(out, "</tbody></table><h2>Advantage</h2><p>", worth, "</p>");
    if let Some(facts) = full.record.get("facts").and_then(|facts| facts.as_object()) {
        put!(out, "<h2>Facts</h2>");
        for (name, value) in facts.iter().filter(|(name, _)| *name != "messages").take(40) {
            put!(
                out,
                "<details class=\"fold\"><summary>",
                clipped(name, 60),
                " <span class=\"dim\">",
                clipped(&value.to_string(), 40),
                "</span></summary><pre class=\"json\">",
                clipped(&serde_json::to_string_pretty(value).unwrap_or_default(), 20_000),
                "</pre></details>"
            );
        }
    }
    put!(
        out,
        "<h2>Seed and sampling</h2><pre class=\"json\">",
        clipped(
            &format!(
                "seed {}\n{}",
                full.record["seed"],
                serde_json::to_string_pretty(&full.record["sampling"]).unwrap_or_default()
            ),
            2000
        ),
        "</pre></aside>"
    );
    out
}

/// A rollout in one piece, for a file: conversation, rewards and tokens.
pub(crate) fn whole(site: &Site, number: usize, trace: u64) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let full = run.trace(trace)?;
    let mut out = Html::new();
    put!(
        out,
        "<details class=\"trace\" id=\"",
        format!("trace-{number}-{trace}"),
        "\"><summary>trace ",
        trace,
        " · ",
        full.part.as_ref().map(Part::to_string),
        " · ",
        clipped(&full.brief.task, 80),
        " · reward ",
        cell(full.brief.total()),
        " · ",
        full.brief.outcome,
        "</summary><div class=\"sheet\"><div>"
    );
    conversation(&full, &mut out);
    put!(out, "<details class=\"fold\"><summary>tokens</summary>");
    learned(&full, &mut out);
    put!(out, "<p class=\"dim\">coloured by advantage</p>");
    tokens::still(&run.tokens(&full), "advantage", &mut out);
    put!(out, "</details></div>", aside(&full), "</div></details>");
    Ok(out)
}
