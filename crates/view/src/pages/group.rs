//! The rollouts of one task side by side, the same call in the same row.

use hone_arena::rewards::TOTAL;

use super::{Place, called, crumbs, frame, sign};
use crate::align::align;
use crate::html::{Html, clipped};
use crate::number::{cell, short};
use crate::put;
use crate::run::{Brief, Full, Part, ViewError, Worth};
use crate::site::Site;

/// Maximum number of rollouts side by side.
const BESIDE: usize = 32;
/// Characters of a cell's text.
const CELL: usize = 240;

pub(super) fn page(site: &Site, number: usize, part: &Part, group: usize) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let (found, count) = run.group(part, group)?;
    let rollouts =
        found.rollouts.iter().take(BESIDE).map(|rollout| run.trace(rollout.trace)).collect::<Result<Vec<_>, _>>()?;
    let mut body = Html::new();
    put!(body, "<section class=\"head\"><h1>", clipped(&found.task, 120), "</h1><p class=\"bar\">");
    for (to, rel) in [(group.wrapping_sub(1), "previous"), (group + 1, "next")] {
        if (1..=count).contains(&to) {
            let name = if rel == "next" { format!("group {to} →") } else { format!("← group {to}") };
            put!(
                body,
                "<a class=\"pick\" rel=\"",
                rel,
                "\" href=\"",
                site.group_url(number, part, to),
                "\">",
                name,
                "</a>"
            );
        }
    }
    let (solved, scored) = found.solved(run.success());
    put!(
        body,
        "<span>",
        clipped(&found.env, 60),
        " · ",
        found.rollouts.len(),
        " rollouts · mean reward ",
        cell(found.mean()),
        " · ",
        solved,
        " of ",
        scored,
        " solved</span>"
    );
    if found.rollouts.len() > BESIDE {
        put!(body, "<span class=\"warn\">the first ", BESIDE, " are shown</span>");
    }
    let columns: Vec<_> = rollouts.iter().map(|full| Column { run: number, full, side: None }).collect();
    put!(body, "</p></section>", beside(site, &columns));
    let crumbs = crumbs(
        site,
        number,
        &[(called(part), site.part_url(number, part).unwrap_or_default()), (format!("group {group}"), String::new())],
    )?;
    Ok(frame(site, &Place { run: Some(number), tab: "", crumbs }, &body))
}

/// A rollout as a column: the number of its run, and its side of a comparison.
pub(super) struct Column<'a> {
    pub run: usize,
    pub full: &'a Full,
    pub side: Option<&'a str>,
}

/// The advantage, or why there is none. Evaluations have none.
fn worth(advantage: &Worth) -> Html {
    let mut out = Html::new();
    match advantage {
        Worth::NotRecorded => {}
        Worth::Nothing(why) => {
            put!(out, "<p><b class=\"warn\">no signal</b> <span class=\"dim\">", clipped(why, 160), "</span></p>");
        }
        Worth::Whole(_) | Worth::Varies(..) => {
            put!(out, "<p><b class=\"", sign(advantage.value()), "\">", advantage.words(), "</b> advantage</p>");
        }
    }
    out
}

impl Column<'_> {
    /// Summary of the rollout.
    fn head(&self, site: &Site) -> Html {
        let mut out = Html::new();
        let brief = &self.full.brief;
        put!(out, "<th data-item>");
        if let Some(side) = self.side {
            put!(out, "<p><b>", side, "</b></p>");
        }
        put!(
            out,
            "<a href=\"",
            site.trace_url(self.run, brief.trace),
            "\">rollout ",
            brief.rollout(),
            "</a> <span class=\"dim\">trace ",
            brief.trace,
            "</span><p><b class=\"",
            sign(brief.total()),
            "\">",
            cell(brief.total()),
            "</b> reward</p>",
            worth(&brief.advantage),
            "<p>",
            brief.outcome,
            " <span class=\"dim\">",
            clipped(&brief.why, 80),
            "</span></p><p class=\"dim\">",
            brief.turns,
            " turns · ",
            brief.sampled,
            " sampled of ",
            brief.tokens,
            " tokens · ",
            short(brief.seconds),
            " s</p>",
            rewards(brief),
            "</th>"
        );
        out
    }
}

/// The components of the reward, each with its reason.
fn rewards(brief: &Brief) -> Html {
    let mut out = Html::new();
    put!(out, "<ul class=\"rewards\">");
    for reward in brief.rewards.iter().filter(|reward| reward.component != TOTAL) {
        put!(
            out,
            "<li><b class=\"",
            sign(reward.value),
            "\">",
            cell(reward.value),
            "</b> ",
            clipped(&reward.component, 40),
            " <span class=\"dim\">",
            clipped(&reward.why, 160),
            "</span></li>"
        );
    }
    put!(out, "</ul>");
    out
}

/// Rollouts as the columns of a table.
pub(super) fn beside(site: &Site, rollouts: &[Column<'_>]) -> Html {
    let mut out = Html::new();
    put!(out, "<div class=\"scroll\"><table class=\"beside\"><thead><tr>");
    for column in rollouts {
        put!(out, column.head(site));
    }
    put!(out, "</tr></thead><tbody>");
    let keys: Vec<Vec<String>> = rollouts.iter().map(|column| column.full.turn_keys()).collect();
    for row in align(&keys) {
        put!(out, "<tr>");
        for (turn, column) in row.iter().zip(rollouts) {
            match turn {
                Some(turn) => {
                    put!(out, "<td>", cell_of(column.full, *turn), "</td>");
                }
                None => {
                    put!(out, "<td class=\"gap\"></td>");
                }
            }
        }
        put!(out, "</tr>");
    }
    put!(out, "</tbody></table></div>");
    out
}

fn cell_of(full: &Full, turn: usize) -> Html {
    let mut out = Html::new();
    if let Some(record) = full.turn_records.get(turn) {
        for (at, call) in record.calls.iter().enumerate() {
            let class = if at < record.executed as usize { "call" } else { "call notrun" };
            put!(
                out,
                "<div class=\"",
                class,
                "\"><b>",
                clipped(&call.name, 60),
                "</b> ",
                clipped(&call.arguments.to_string(), CELL),
                "</div>"
            );
        }
        if let Some(failure) = &record.failure {
            put!(out, "<div class=\"failure\">", clipped(failure, CELL), "</div>");
        }
    }
    for message in full.turn_messages(turn).iter().filter(|message| !message.content.is_empty()) {
        let class = if message.is_agent() { "said" } else { "answer" };
        put!(out, "<div class=\"", class, "\">", clipped(&message.content, CELL), "</div>");
    }
    out
}
