//! Table of a part's groups: a row of dots each.

use super::{Query, sign};
use crate::html::{Html, clipped};
use crate::number::{cell, short, span};
use crate::put;
use crate::run::{Brief, Group, Part, Run};
use crate::site::Site;
use crate::svg::strip;

const GROUPS_A_PAGE: usize = 200;

/// The groups of a part, their dots on common scales.
pub(super) struct Table<'a> {
    site: &'a Site,
    number: usize,
    run: &'a Run,
    part: &'a Part,
    rewards: [f64; 2],
    /// Scale of the advantages; `None` if none is recorded.
    worths: Option<[f64; 2]>,
}

impl<'a> Table<'a> {
    pub(super) fn of(site: &'a Site, number: usize, run: &'a Run, part: &'a Part, groups: &[Group]) -> Self {
        let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
        let rewards = span(rollouts().filter_map(Brief::total)).unwrap_or([0.0, 1.0]);
        let worths = span(rollouts().filter_map(|rollout| rollout.advantage.value())).map(|[low, high]| {
            let most = low.abs().max(high.abs());
            [-most, most]
        });
        Self { site, number, run, part, rewards, worths }
    }

    /// A page of the table, with links to the others.
    pub(super) fn page(&self, groups: &[Group], query: &Query) -> Html {
        let mut out = Html::new();
        let pages = groups.len().div_ceil(GROUPS_A_PAGE).max(1);
        let page = query.number::<usize>("page").unwrap_or(1).clamp(1, pages);
        if pages > 1 {
            put!(out, "<p class=\"bar\"><span>page ", page, " of ", pages, "</span>");
            for (name, to) in [("before", page - 1), ("after", page + 1)] {
                if (1..=pages).contains(&to) {
                    put!(out, "<a class=\"pick\" href=\"", query.with("page", &to.to_string()), "\">", name, "</a>");
                }
            }
            put!(out, "</p>");
        }
        put!(out, "<div class=\"scroll\"><table class=\"groups\">", self.head(), "<tbody>");
        for group in groups.iter().skip((page - 1) * GROUPS_A_PAGE).take(GROUPS_A_PAGE) {
            put!(out, self.row(group));
        }
        put!(out, "</tbody></table></div>");
        out
    }

    fn head(&self) -> Html {
        let mut out = Html::new();
        put!(
            out,
            "<thead><tr><th>group</th><th class=\"text\">task</th><th>mean</th><th>solved</th>",
            "<th class=\"text wide\">reward ",
            ends(self.rewards),
            "</th>"
        );
        if let Some(worths) = self.worths {
            put!(out, "<th class=\"text wide\">advantage ", ends(worths), "</th>");
        } else if matches!(self.part, Part::Step(_)) {
            put!(out, "<th class=\"text\">advantage</th>");
        }
        put!(out, "<th>tokens</th><th class=\"text\"></th></tr></thead>");
        out
    }

    fn row(&self, group: &Group) -> Html {
        let mut out = Html::new();
        let url = || self.site.group_url(self.number, self.part, group.group);
        let (solved, scored) = group.solved(self.run.success());
        let mean = group.rollouts.iter().map(|rollout| rollout.sampled).sum::<usize>() / group.rollouts.len().max(1);
        put!(
            out,
            "<tr data-item><td>",
            self.site.link(url(), &group.group.to_string()),
            "</td><td class=\"text task\"><a href=\"",
            url(),
            "\">",
            clipped(&group.task, 60),
            "</a> <span class=\"dim\">",
            clipped(&group.env, 30),
            "</span></td><td>",
            cell(group.mean()),
            "</td><td>",
            solved,
            "/",
            scored,
            "</td><td class=\"text\">",
            self.reward_dots(group),
            "</td>",
            self.advantage_cell(group),
            "<td>",
            mean,
            "</td><td class=\"text\">",
            trouble(group),
            "</td></tr>"
        );
        out
    }

    fn reward_dots(&self, group: &Group) -> Html {
        let dot = |rollout: &Brief| {
            let solved = self.run.success().and_then(|name| rollout.reward(name)).or(rollout.total());
            let class = match solved {
                Some(1.0) => "good",
                _ if rollout.parse_failures.is_empty() => "flat",
                _ => "warn",
            };
            Some(self.dot(rollout, rollout.total()?, class))
        };
        strip(&group.rollouts.iter().filter_map(dot).collect::<Vec<_>>(), self.rewards)
    }

    /// The advantages as dots, or that there is no signal. Evaluations have no such cell.
    fn advantage_cell(&self, group: &Group) -> Html {
        let mut out = Html::new();
        let Some(worths) = self.worths else {
            if matches!(self.part, Part::Step(_)) {
                put!(out, "<td class=\"text dim\">not recorded</td>");
            }
            return out;
        };
        let dot = |rollout: &Brief| {
            let value = rollout.advantage.value()?;
            Some(self.dot(rollout, value, sign(Some(value))))
        };
        let dots: Vec<_> = group.rollouts.iter().filter_map(dot).collect();
        if dots.is_empty() {
            let why = group.rollouts.first().map(|rollout| rollout.advantage.words());
            put!(out, "<td class=\"text dim\" title=\"", why, "\">no signal</td>");
        } else {
            put!(out, "<td class=\"text\">", strip(&dots, worths), "</td>");
        }
        out
    }

    fn dot(&self, rollout: &Brief, value: f64, class: &'static str) -> (f64, String, Option<String>, &'static str) {
        let title = format!(
            "rollout {}: reward {}, advantage {}, {}",
            rollout.rollout(),
            cell(rollout.total()),
            rollout.advantage.words(),
            rollout.outcome
        );
        (value, title, self.site.trace_url(self.number, rollout.trace), class)
    }
}

/// Numbers of rollouts with parse failures, and of broken ones.
fn trouble(group: &Group) -> Html {
    let mut out = Html::new();
    let failures = group.rollouts.iter().filter(|rollout| !rollout.parse_failures.is_empty()).count();
    let broken = group.rollouts.iter().filter(|rollout| rollout.is_broken()).count();
    if failures > 0 {
        let word = if failures == 1 { " parse failure" } else { " parse failures" };
        put!(out, "<b class=\"warn\">", failures, word, "</b> ");
    }
    if broken > 0 {
        put!(out, "<b class=\"bad\">", broken, " excluded</b>");
    }
    out
}

/// Ends of a scale.
fn ends([low, high]: [f64; 2]) -> Html {
    let mut out = Html::new();
    put!(out, "<span class=\"ends\">", short(low), " … ", short(high), "</span>");
    out
}
