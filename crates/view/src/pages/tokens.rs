//! Token view: every token with its origin, whether it was trained, and its advantage.

use super::Query;
use crate::html::{Html, clipped};
use crate::number::{cell, short, signed};
use crate::put;
use crate::run::{Origin, Token};

const TOKENS_A_PAGE: usize = 4_000;

/// Attributes that tokens may be coloured by: name, explanation.
const COLOURS: [(&str, &str); 8] = [
    ("origin", "where the token came from"),
    ("trained", "trained, not trained, clipped"),
    ("advantage", "red below zero, green above"),
    ("logprob", "the darker, the less likely the sampler found it"),
    ("learner", "the darker, the less likely the learner found it"),
    ("gap", "learner − sampler; red below zero, green above"),
    ("entropy", "the darker, the more open the choice was"),
    ("clipped", "tokens whose gradient the clip set to zero"),
];

/// The text with its tokens marked.
pub(super) fn text(tokens: &[Token], query: &Query, body: &mut Html) {
    let by = query.get("colour").unwrap_or("trained");
    put!(body, "<p class=\"bar colours\"><span>colour by</span>");
    for (name, about) in COLOURS {
        put!(
            *body,
            "<a class=\"pick ",
            if name == by { "on" } else { "" },
            "\" title=\"",
            about,
            "\" href=\"",
            query.with("colour", name),
            "\">",
            name,
            "</a>"
        );
    }
    put!(body, "</p>");
    let aims = aims(tokens, by);
    jumps(&aims, query, body);
    spans(tokens, paged(tokens, query, body), by, &aims, body);
}

/// The same in an exported file, which has no further pages: only the first tokens.
pub(super) fn still(tokens: &[Token], by: &str, body: &mut Html) {
    let shown = &tokens[..tokens.len().min(TOKENS_A_PAGE)];
    if shown.len() < tokens.len() {
        put!(body, "<p class=\"dim\">the first ", shown.len(), " of ", tokens.len(), " tokens</p>");
    }
    spans(tokens, shown, by, &[], body);
}

fn spans(tokens: &[Token], shown: &[Token], by: &str, aims: &[Aim], body: &mut Html) {
    let most = tokens.iter().filter_map(|token| quantity(token, by)).map(f64::abs).fold(0.0, f64::max);
    legend(by, most, body);
    put!(body, "<div class=\"tokens\" aria-label=\"tokens\">");
    let mut node = usize::MAX;
    for token in shown {
        if token.node != node {
            if node != usize::MAX {
                put!(body, "</div>");
            }
            node = token.node;
            put!(body, "<div class=\"node\"><span class=\"origin\">", clipped(token.origin.as_str(), 20), "</span>");
        }
        let aim = aims.iter().find(|aim| aim.position == token.position);
        one(token, by, most, aim.map_or("", |aim| aim.id), body);
    }
    if !shown.is_empty() {
        put!(body, "</div>");
    }
    put!(body, "</div>");
}

/// A token worth jumping to: prompts are long, and the explanation comes after them.
struct Aim {
    id: &'static str,
    name: String,
    position: usize,
}

fn aims(tokens: &[Token], by: &str) -> Vec<Aim> {
    let mut aims = Vec::new();
    let sampled = tokens.iter().find(|token| token.origin.is(Origin::Sampled));
    aims.extend(sampled.map(|token| Aim { id: "sampled", name: "first sampled".into(), position: token.position }));
    let size = |token: &Token| quantity(token, by).map(f64::abs).filter(|size| *size > 0.0);
    let largest = tokens.iter().filter(|token| size(token).is_some()).max_by(|a, b| {
        let size = |token: &Token| size(token).unwrap_or_default();
        size(a).total_cmp(&size(b)).then(b.position.cmp(&a.position))
    });
    aims.extend(largest.map(|token| Aim { id: "largest", name: format!("largest {by}"), position: token.position }));
    // One name per token: the more informative one.
    if aims.len() == 2 && aims[0].position == aims[1].position {
        aims.remove(0);
    }
    aims
}

fn jumps(aims: &[Aim], query: &Query, body: &mut Html) {
    if aims.is_empty() {
        return;
    }
    put!(*body, "<p class=\"bar\"><span>go to</span>");
    for Aim { id, name, position } in aims {
        let page = position / TOKENS_A_PAGE * TOKENS_A_PAGE;
        let page = if page > 0 { page.to_string() } else { String::new() };
        put!(*body, "<a class=\"pick\" href=\"", query.with("token", &page), "#", *id, "\">", name, "</a>");
    }
    put!(*body, "</p>");
}

fn one(token: &Token, by: &str, most: f64, id: &'static str, body: &mut Html) {
    // An anchor before the token, so that a jump also moves the keyboard focus.
    if !id.is_empty() {
        put!(*body, "<i id=\"", id, "\"></i>");
    }
    let special = if token.special { " special" } else { "" };
    let visible = visible(&token.text);
    put!(
        *body,
        "<span tabindex=\"-1\" class=\"t ",
        class(token, by, most),
        special,
        "\" title=\"",
        told(token),
        "\">",
        clipped(&visible, 400),
        "</span>"
    );
}

/// Everything known about a token, one line each.
fn told(token: &Token) -> String {
    let mut lines = vec![format!("{} · id {} · {}", token.position, token.id, token.origin)];
    if token.origin.is(Origin::Sampled) {
        let trained = if token.trained { "trained" } else { "not trained" };
        lines.push(format!("{trained}: {}", token.because));
        lines.push(format!(
            "logprob {} at sampling, {} at training, gap {}",
            cell(token.logprob),
            cell(token.learner_logprob),
            cell(token.gap)
        ));
        lines.push(format!(
            "advantage {} · entropy {}",
            token.advantage.map_or_else(|| "–".to_owned(), signed),
            cell(token.entropy)
        ));
    } else {
        lines.push(format!("not trained: {}", token.because));
    }
    lines.join("\n")
}

/// Makes whitespace visible.
fn visible(text: &str) -> String {
    if text.is_empty() {
        return "∅".to_owned();
    }
    text.replace('\n', "↵\n").replace('\t', "⇥")
}

fn quantity(token: &Token, by: &str) -> Option<f64> {
    match by {
        "advantage" => token.advantage,
        "logprob" => token.logprob,
        "learner" => token.learner_logprob,
        "gap" => token.gap,
        "entropy" => token.entropy,
        _ => None,
    }
}

fn class(token: &Token, by: &str, most: f64) -> &'static str {
    const UP: [&str; 5] = ["n0", "u1", "u2", "u3", "u4"];
    const DOWN: [&str; 5] = ["n0", "d1", "d2", "d3", "d4"];
    const DARK: [&str; 5] = ["n0", "q1", "q2", "q3", "q4"];
    let fate = match (token.trained, token.clipped) {
        _ if !token.origin.is(Origin::Sampled) => "rest",
        (true, _) => "trained",
        (false, Some(true)) => "clip",
        (false, _) => "untrained",
    };
    match by {
        "origin" => match token.origin.known() {
            Some(Origin::Prompt) => "prompt",
            Some(Origin::Observation) => "observed",
            Some(Origin::Sampled) => "sampled",
            Some(Origin::Forced) | None => "forced",
        },
        "trained" => fate,
        "clipped" => {
            if fate == "clip" {
                "clip"
            } else {
                "rest"
            }
        }
        _ => {
            let Some(value) = quantity(token, by) else { return "rest" };
            let level = if most > 0.0 { ((value.abs() / most).sqrt() * 4.0).round() as usize } else { 0 };
            match by {
                "advantage" | "gap" if value < 0.0 => DOWN[level.min(4)],
                "advantage" | "gap" => UP[level.min(4)],
                _ => DARK[level.min(4)],
            }
        }
    }
}

fn legend(by: &str, most: f64, body: &mut Html) {
    put!(body, "<p class=\"legend\" aria-label=\"what the colours mean\">");
    let keys: &[(&'static str, &'static str)] = match by {
        "origin" => &[("prompt", "prompt"), ("observed", "observation"), ("sampled", "sampled"), ("forced", "forced")],
        "trained" => &[
            ("trained", "trained"),
            ("untrained", "sampled, not trained"),
            ("clip", "clipped"),
            ("rest", "not sampled"),
        ],
        "clipped" => &[("clip", "clipped"), ("rest", "everything else")],
        _ => &[],
    };
    for (class, name) in keys {
        put!(body, "<span><i class=\"t ", *class, "\">&nbsp;&nbsp;</i> ", *name, "</span>");
    }
    if keys.is_empty() {
        put!(body, "<span>0 … ", short(most), " in size; tokens without one are pale</span>");
    }
    put!(body, "</p>");
}

fn paged<'a>(tokens: &'a [Token], query: &Query, body: &mut Html) -> &'a [Token] {
    let from = query.number::<usize>("token").unwrap_or(0).min(tokens.len());
    let to = (from + TOKENS_A_PAGE).min(tokens.len());
    if tokens.len() > TOKENS_A_PAGE {
        put!(body, "<p class=\"bar\"><span>tokens ", from, " to ", to, " of ", tokens.len(), "</span>");
        for (name, to) in
            [("before", from.checked_sub(TOKENS_A_PAGE)), ("after", Some(to).filter(|to| *to < tokens.len()))]
        {
            if let Some(to) = to {
                put!(body, "<a class=\"pick\" href=\"", query.with("token", &to.to_string()), "\">", name, "</a>");
            }
        }
        put!(body, "</p>");
    }
    &tokens[from..to]
}

/// One line a token.
pub(super) fn table(tokens: &[Token], query: &Query, body: &mut Html) {
    let aims = aims(tokens, "gap");
    jumps(&aims, query, body);
    let shown = paged(tokens, query, body);
    put!(
        *body,
        "<div class=\"scroll\"><table class=\"tokentable\"><thead><tr><th>at</th><th class=\"text\">origin</th>\
         <th>id</th><th class=\"text\">token</th><th>sampled</th><th>learner</th><th>gap</th><th>advantage</th>\
         <th>entropy</th><th class=\"text\">trained</th></tr></thead><tbody>"
    );
    for token in shown {
        let mut named = Html::new();
        if let Some(aim) = aims.iter().find(|aim| aim.position == token.position) {
            put!(named, " id=\"", aim.id, "\"");
        }
        let trained = match (token.trained, token.clipped) {
            (true, _) => "yes",
            (false, Some(true)) => "clipped",
            (false, _) => "no",
        };
        put!(
            *body,
            "<tr data-item",
            named,
            "><td>",
            token.position,
            "</td><td class=\"text\">",
            clipped(token.origin.as_str(), 20),
            "</td><td>",
            u64::from(token.id),
            "</td><td class=\"text\"><code class=\"t ",
            class(token, "trained", 1.0),
            "\">",
            // One line a token.
            clipped(&visible(&token.text).replace('\n', ""), 60),
            "</code></td><td>",
            cell(token.logprob),
            "</td><td>",
            cell(token.learner_logprob),
            "</td><td>",
            cell(token.gap),
            "</td><td>",
            token.advantage.map_or_else(|| "–".to_owned(), signed),
            "</td><td>",
            cell(token.entropy),
            "</td><td class=\"text\"><b>",
            trained,
            "</b> <span class=\"dim\">",
            token.because,
            "</span></td></tr>"
        );
    }
    put!(body, "</tbody></table></div>");
}
