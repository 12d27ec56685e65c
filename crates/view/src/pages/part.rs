//! Page of a step or an evaluation: its groups as rows of dots, and filters.

use std::collections::BTreeSet;

use super::{Place, Query, called, crumbs, frame, notes, sign};
use crate::html::{Html, clipped};
use crate::number::{cell, count, short};
use crate::put;
use crate::run::{Brief, Filter, Group, Part, Run, Silent, ViewError};
use crate::site::Site;
use crate::svg::strip;

const GROUPS_A_PAGE: usize = 200;

pub(super) fn page(site: &Site, number: usize, part: &Part, query: &Query) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let filter = Filter {
        env: query.get("env").map(str::to_owned),
        outcome: query.get("outcome").map(str::to_owned),
        failure: query.get("failure").map(str::to_owned),
        least: query.number("least"),
        most: query.number("most"),
        text: query.get("q").map(str::to_owned),
    };
    let (groups, skipped) = run.groups(part, &filter)?;
    let mut body = Html::new();
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    put!(body, "<section class=\"head\"><h1>", called(part), "</h1><p class=\"bar\">");
    around(site, number, &run, part, &mut body);
    put!(
        body,
        "<span>",
        groups.len(),
        " groups, ",
        rollouts().count(),
        " rollouts",
        if filter.is_empty() { "" } else { " that match" },
        "</span></p>"
    );
    facts(&run, part, &mut body);
    if filter.is_empty() {
        silent(&run, &groups, &mut body);
    }
    put!(body, "</section>");
    notes(&skipped, &mut body);
    form(&groups, &filter, &mut body);
    table(site, number, &run, part, &groups, query, &mut body);
    excluded(site, number, rollouts(), &mut body);
    let crumbs = crumbs(site, number, &[(called(part), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "", crumbs }, &body))
}

/// The step before and the step after.
fn around(site: &Site, number: usize, run: &Run, part: &Part, body: &mut Html) {
    let Part::Step(step) = part else { return };
    let (before, after) = run.metrics.neighbours(*step);
    for (step, rel) in [(before, "previous"), (after, "next")] {
        let Some(step) = step else { continue };
        let name = if rel == "next" { format!("step {step} →") } else { format!("← step {step}") };
        let url = site.part_url(number, &Part::Step(step));
        put!(body, "<a class=\"pick\" rel=\"", rel, "\" href=\"", url, "\">", name, "</a>");
    }
}

fn facts(run: &Run, part: &Part, body: &mut Html) {
    put!(body, "<dl class=\"facts\">");
    match part {
        Part::Step(step) => {
            for (name, metric) in [
                ("reward", "batch_reward/total"),
                ("success", "reward/success_rate"),
                ("signal", "reward/signal_ratio"),
                ("parse failures", "reward/parse_failure_rate"),
                ("entropy", "policy/policy_entropy"),
                ("mismatch", "policy/rollout_train_logprobs_abs_diff_mean"),
                ("gradient", "policy/grad_norm"),
                ("sampled tokens", "tokens/sampled"),
                ("trained", "tokens/trained"),
                ("clipped", "tokens/clipped"),
                ("seconds", "timing/step"),
            ] {
                if let Some(value) = run.metrics.at(*step, metric) {
                    let value = if metric.starts_with("tokens/") { count(value) } else { short(value) };
                    put!(body, "<div><dt>", name, "</dt><dd>", value, "</dd></div>");
                }
            }
        }
        Part::Played(name) => {
            let Some(played) = run.events.played(name) else { return };
            let interval =
                played.interval.map_or_else(String::new, |[low, high]| format!(" [{}, {}]", short(low), short(high)));
            put!(body, "<div><dt>success</dt><dd>", cell(played.success), interval, "</dd></div>");
            for (name, value) in [
                ("temperature", played.temperature),
                ("parse failures", played.parse_failures),
                ("entropy", played.entropy),
            ] {
                put!(body, "<div><dt>", name, "</dt><dd>", cell(value), "</dd></div>");
            }
        }
    }
    put!(body, "</dl>");
}

/// Number of groups that teach nothing, and why.
fn silent(run: &Run, groups: &[Group], body: &mut Html) {
    for silent in Silent::of(groups, run.success()) {
        put!(
            *body,
            "<p><b class=\"warn\">",
            silent.groups,
            " of ",
            groups.len(),
            " groups have no signal</b> and train nothing: ",
            silent.why,
            " <span class=\"dim\">(",
            silent.by_all,
            " solved by every rollout, ",
            silent.by_none,
            " by none)</span></p>"
        );
    }
}

fn form(groups: &[Group], filter: &Filter, body: &mut Html) {
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let options = |values: BTreeSet<&str>, now: &Option<String>| {
        let mut out = Html::new();
        let now = now.as_deref();
        let values = values.into_iter().chain(now).collect::<BTreeSet<_>>();
        for value in values {
            if now == Some(value) {
                put!(out, "<option selected>", value, "</option>");
            } else {
                put!(out, "<option>", value, "</option>");
            }
        }
        out
    };
    let envs = options(rollouts().map(|rollout| rollout.env.as_str()).collect(), &filter.env);
    let outcomes = options(rollouts().map(|rollout| rollout.outcome.as_str()).collect(), &filter.outcome);
    let kinds: BTreeSet<&str> =
        rollouts().flat_map(|rollout| &rollout.parse_failures).map(String::as_str).chain(["any"]).collect();
    let failures = options(kinds, &filter.failure);
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    put!(
        *body,
        "<form class=\"bar\" method=\"get\" role=\"search\" aria-label=\"which rollouts are shown\"><input id=\"q\" type=\"search\" name=\"q\" aria-label=\"words in the conversation\" placeholder=\"words in the conversation  ( / )\" value=\"",
        filter.text,
        "\">"
    );
    put!(body, "<label>env <select name=\"env\"><option value=\"\">all</option>", envs, "</select></label>");
    put!(
        *body,
        "<label>outcome <select name=\"outcome\"><option value=\"\">all</option>",
        outcomes,
        "</select></label>"
    );
    put!(
        *body,
        "<label>parse failure <select name=\"failure\"><option value=\"\">all</option>",
        failures,
        "</select></label>"
    );
    put!(
        *body,
        "<label>reward <input name=\"least\" size=\"5\" inputmode=\"decimal\" placeholder=\"least\" value=\"",
        number(filter.least),
        "\"></label><input name=\"most\" size=\"5\" inputmode=\"decimal\" aria-label=\"reward at most\" placeholder=\"most\" value=\"",
        number(filter.most),
        "\"><button>filter</button>"
    );
    if !filter.is_empty() {
        put!(body, "<a class=\"pick\" href=\"?\">all rollouts</a>");
    }
    put!(body, "</form>");
}

fn span(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |span: Option<[f64; 2]>, value| {
        let [low, high] = span.unwrap_or([value, value]);
        Some([low.min(value), high.max(value)])
    })
}

fn table(site: &Site, number: usize, run: &Run, part: &Part, groups: &[Group], query: &Query, body: &mut Html) {
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let rewards = span(rollouts().filter_map(Brief::total)).unwrap_or([0.0, 1.0]);
    let worths = span(rollouts().filter_map(|rollout| rollout.advantage.value())).map(|[low, high]| {
        let most = low.abs().max(high.abs());
        [-most, most]
    });
    let pages = groups.len().div_ceil(GROUPS_A_PAGE).max(1);
    let page = query.number::<usize>("page").unwrap_or(1).clamp(1, pages);
    if pages > 1 {
        put!(body, "<p class=\"bar\"><span>page ", page, " of ", pages, "</span>");
        for (name, to) in [("before", page - 1), ("after", page + 1)] {
            if (1..=pages).contains(&to) {
                put!(body, "<a class=\"pick\" href=\"", query.with("page", &to.to_string()), "\">", name, "</a>");
            }
        }
        put!(body, "</p>");
    }
    put!(
        *body,
        "<div class=\"scroll\"><table class=\"groups\"><thead><tr><th>group</th><th class=\"text\">task</th><th>mean</th><th>solved</th><th class=\"text wide\">reward <span class=\"ends\">",
        short(rewards[0]),
        " … ",
        short(rewards[1]),
        "</span></th>"
    );
    if let Some([low, high]) = worths {
        put!(
            *body,
            "<th class=\"text wide\">advantage <span class=\"ends\">",
            short(low),
            " … ",
            short(high),
            "</span></th>"
        );
    } else if matches!(part, Part::Step(_)) {
        put!(body, "<th class=\"text\">advantage</th>");
    }
    put!(body, "<th>tokens</th><th class=\"text\"></th></tr></thead><tbody>");
    for group in groups.iter().skip((page - 1) * GROUPS_A_PAGE).take(GROUPS_A_PAGE) {
        row(site, number, run, part, group, rewards, worths, body);
    }
    put!(body, "</tbody></table></div>");
}

#[expect(clippy::too_many_arguments, reason = "a row of one table: the scales belong to the table")]
fn row(
    site: &Site,
    number: usize,
    run: &Run,
    part: &Part,
    group: &Group,
    rewards: [f64; 2],
    worths: Option<[f64; 2]>,
    body: &mut Html,
) {
    let dot = |rollout: &Brief, value: f64, class: &'static str| {
        let title = format!(
            "rollout {}: reward {}, advantage {}, {}",
            rollout.rollout(),
            cell(rollout.total()),
            rollout.advantage.words(),
            rollout.outcome
        );
        (value, title, site.trace_url(number, rollout.trace), class)
    };
    let earned: Vec<_> = group
        .rollouts
        .iter()
        .filter_map(|rollout| {
            let solved = run.success().and_then(|name| rollout.reward(name)).or(rollout.total());
            let class = if solved == Some(1.0) {
                "good"
            } else if rollout.parse_failures.is_empty() {
                "flat"
            } else {
                "warn"
            };
            Some(dot(rollout, rollout.total()?, class))
        })
        .collect();
    let (solved, scored) = group.solved(run.success());
    put!(
        *body,
        "<tr data-item><td>",
        site.link(site.group_url(number, part, group.group), &group.group.to_string()),
        "</td><td class=\"text task\"><a href=\"",
        site.group_url(number, part, group.group),
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
        strip(&earned, rewards),
        "</td>"
    );
    if let Some(worths) = worths {
        let dots: Vec<_> = group
            .rollouts
            .iter()
            .filter_map(|rollout| {
                let value = rollout.advantage.value()?;
                Some(dot(rollout, value, sign(Some(value))))
            })
            .collect();
        if dots.is_empty() {
            put!(
                *body,
                "<td class=\"text dim\" title=\"",
                group.rollouts.first().map(|rollout| rollout.advantage.words()),
                "\">no signal</td>"
            );
        } else {
            put!(body, "<td class=\"text\">", strip(&dots, worths), "</td>");
        }
    } else if matches!(part, Part::Step(_)) {
        put!(body, "<td class=\"text dim\">not recorded</td>");
    }
    let mean = group.rollouts.iter().map(|rollout| rollout.sampled).sum::<usize>() / group.rollouts.len().max(1);
    let failures = group.rollouts.iter().filter(|rollout| !rollout.parse_failures.is_empty()).count();
    let broken = group.rollouts.iter().filter(|rollout| rollout.outcome == "fault").count();
    put!(body, "<td>", mean, "</td><td class=\"text\">");
    if failures > 0 {
        let word = if failures == 1 { " parse failure" } else { " parse failures" };
        put!(body, "<b class=\"warn\">", failures, word, "</b> ");
    }
    if broken > 0 {
        put!(body, "<b class=\"bad\">", broken, " excluded</b>");
    }
    put!(body, "</td></tr>");
}

/// Rollouts excluded from all statistics, and why.
fn excluded<'a>(site: &Site, number: usize, rollouts: impl Iterator<Item = &'a Brief>, body: &mut Html) {
    let broken: Vec<&Brief> =
        rollouts.filter(|rollout| rollout.outcome == "fault" || rollout.total().is_none()).take(200).collect();
    if broken.is_empty() {
        return;
    }
    put!(
        *body,
        "<section class=\"panel\"><h2>Excluded rollouts</h2><table><thead><tr><th>trace</th><th class=\"text\">task</th><th class=\"text\">why</th></tr></thead><tbody>"
    );
    for rollout in broken {
        let unscored = rollout.rewards.iter().find(|reward| reward.value.is_none());
        let why = if rollout.outcome == "fault" {
            rollout.why.clone()
        } else {
            unscored.map_or_else(
                || "no reward is recorded".to_owned(),
                |reward| format!("{}: {}", reward.component, reward.why),
            )
        };
        put!(
            *body,
            "<tr data-item><td>",
            site.link(site.trace_url(number, rollout.trace), &rollout.trace.to_string()),
            "</td><td class=\"text\">",
            clipped(&rollout.task, 80),
            "</td><td class=\"text\">",
            clipped(&why, 300),
            "</td></tr>"
        );
    }
    put!(body, "</tbody></table></section>");
}
