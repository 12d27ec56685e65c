//! Page of a step or an evaluation: its facts, its groups, and its excluded rollouts.

use hone_train::ledger::names::{self, Metric};

use super::filter::form;
use super::groups::Table;
use super::{Place, Query, called, crumbs, frame, notes};
use crate::html::{Html, clipped};
use crate::number::{cell, count, short};
use crate::put;
use crate::run::{Brief, Filter, Group, Lenient, Part, Run, Silent, ViewError};
use crate::site::Site;

pub(super) fn page(site: &Site, number: usize, part: &Part, query: &Query) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let filter = Filter {
        env: query.get("env").map(str::to_owned),
        outcome: query.get("outcome").map(Lenient::from),
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
    put!(body, Table::of(site, number, &run, part, &groups).page(&groups, query));
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

/// Fact of a step: name, metric, and how its value is written.
type Fact = (&'static str, Metric, fn(f64) -> String);

const FACTS: [Fact; 11] = [
    ("reward", names::BATCH_REWARD_TOTAL, short),
    ("success", names::REWARD_SUCCESS_RATE, short),
    ("signal", names::REWARD_SIGNAL_RATIO, short),
    ("parse failures", names::REWARD_PARSE_FAILURE_RATE, short),
    ("entropy", names::POLICY_POLICY_ENTROPY, short),
    ("mismatch", names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN, short),
    ("gradient", names::POLICY_GRAD_NORM, short),
    ("sampled tokens", names::TOKENS_SAMPLED, count),
    ("trained", names::TOKENS_TRAINED, count),
    ("clipped", names::TOKENS_CLIPPED, count),
    ("seconds", names::TIMING_STEP, short),
];

fn facts(run: &Run, part: &Part, body: &mut Html) {
    put!(body, "<dl class=\"facts\">");
    match part {
        Part::Step(step) => {
            for (name, metric, shown) in FACTS {
                if let Some(value) = run.metrics.at(*step, metric.name) {
                    put!(body, "<div><dt>", name, "</dt><dd>", shown(value), "</dd></div>");
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

/// Rollouts excluded from all statistics, and why.
fn excluded<'a>(site: &Site, number: usize, rollouts: impl Iterator<Item = &'a Brief>, body: &mut Html) {
    let broken: Vec<&Brief> =
        rollouts.filter(|rollout| rollout.is_broken() || rollout.total().is_none()).take(200).collect();
    if broken.is_empty() {
        return;
    }
    put!(
        *body,
        "<section class=\"panel\"><h2>Excluded rollouts</h2><table><thead><tr><th>trace</th><th class=\"text\">task\
         </th><th class=\"text\">why</th></tr></thead><tbody>"
    );
    for rollout in broken {
        let unscored = rollout.rewards.iter().find(|reward| reward.value.is_none());
        let why = if rollout.is_broken() {
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
