//! Two checkpoints or runs on the same tasks: who solved what, how they behave, and one task side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::behaviour;
use super::group::{Column, beside};
use super::{Place, Query, frame};
use crate::html::{Html, clipped, encoded};
use crate::number::{cell, signed};
use crate::put;
use crate::run::{Brief, Filter, Group, Part, ViewError};
use crate::site::Site;

const TASKS: usize = 100;

/// One side: a run's part.
struct Side {
    run: usize,
    part: Part,
    groups: Vec<Group>,
}

pub(super) fn page(site: &Site, query: &Query) -> Result<Html, ViewError> {
    let choices = choices(site)?;
    let own = query.number::<usize>("run").unwrap_or(0);
    let of_run = |name: &&String| name.starts_with(&format!("{own}:eval"));
    let first = choices.iter().find(of_run).or(choices.first());
    let kind = |name: &str| name.rsplit('-').next().unwrap_or_default().to_owned();
    let same = |name: &&String| first.is_some_and(|first| kind(name) == kind(first));
    let last = choices.iter().rev().find(|name| of_run(name) && same(name)).or(choices.last());
    let pick =
        |key: &str, other: Option<&String>| query.get(key).map(str::to_owned).or(other.cloned()).unwrap_or_default();
    let (a, b) = (pick("a", first), pick("b", last));
    let mut body = Html::new();
    put!(
        body,
        "<section class=\"head\"><h1>Compare</h1></section><form class=\"bar\" method=\"get\" aria-label=\"what is compared\">"
    );
    for (key, now) in [("a", &a), ("b", &b)] {
        put!(body, "<label>", key.to_uppercase(), " <select name=\"", key, "\">");
        for choice in &choices {
            let name = named(site, choice)?;
            if choice == now {
                put!(body, "<option selected value=\"", choice, "\">", name, "</option>");
            } else {
                put!(body, "<option value=\"", choice, "\">", name, "</option>");
            }
        }
        put!(body, "</select></label>");
    }
    put!(body, "<button>compare</button></form>");
    if a.is_empty() {
        put!(body, "<p>There is nothing to compare yet: no evaluation is recorded.</p>");
    } else {
        let (a, b) = (side(site, &a)?, side(site, &b)?);
        match query.get("task") {
            Some(task) => one_task(site, &a, &b, task, &mut body)?,
            None => tasks(site, &a, &b, query, &mut body)?,
        }
    }
    let crumbs = vec![("compare".to_owned(), String::new())];
    Ok(frame(site, &Place { run: query.number("run"), tab: "Compare", crumbs }, &body))
}

/// Everything with held-out traces, as `run:part`.
fn choices(site: &Site) -> Result<Vec<String>, ViewError> {
    let mut choices = Vec::new();
    for run in 0..site.len() {
        let opened = site.run(run)?;
        let mut seen = BTreeSet::new();
        for played in opened.events.played.iter().filter(|played| played.traces.is_some()) {
            if seen.insert(played.name()) {
                choices.push(format!("{run}:{}", played.name()));
            }
        }
    }
    Ok(choices)
}

fn named(site: &Site, choice: &str) -> Result<String, ViewError> {
    let (run, part) = choice.split_once(':').unwrap_or(("0", choice));
    Ok(format!("{} {part}", site.run(run.parse().unwrap_or(0))?.name))
}

fn side(site: &Site, choice: &str) -> Result<Side, ViewError> {
    let (run, part) = choice.split_once(':').unwrap_or(("0", choice));
    let (run, part) = (run.parse().unwrap_or(usize::MAX), Part::parse(part));
    let (groups, _) = site.run(run)?.groups(&part, &Filter::default())?;
    Ok(Side { run, part, groups })
}

/// A number of a rollout.
type Measure = fn(&Brief) -> f64;

/// Success rate and mean reward of a task.
type Rates = (Option<f64>, Option<f64>);

/// Behaviour: name, and its mean over the rollouts.
const BEHAVIOUR: [(&str, Measure); 6] = [
    ("turns", |rollout| rollout.turns as f64),
    ("calls", |rollout| rollout.calls.len() as f64),
    ("calls that failed", |rollout| rollout.failed_calls as f64),
    ("replies that did not parse", |rollout| rollout.parse_failures.len() as f64),
    ("sampled tokens", |rollout| rollout.sampled as f64),
    ("ended other than finished", |rollout| f64::from(u8::from(rollout.outcome != "finished"))),
];

/// Means per rollout in `a` and in `b`.
fn amounts(a: &Side, b: &Side, body: &mut Html) {
    put!(
        *body,
        "<section class=\"panel\"><h2>Means per rollout</h2><div class=\"scroll\"><table><thead><tr><th class=\"text\"></th><th>A</th><th>B</th><th>B − A</th></tr></thead><tbody>"
    );
    let mean = |side: &Side, of: &dyn Fn(&Brief) -> f64| {
        let values: Vec<f64> = side.groups.iter().flat_map(|group| &group.rollouts).map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let tools: BTreeSet<&str> = [a, b]
        .iter()
        .flat_map(|side| &side.groups)
        .flat_map(|group| &group.rollouts)
        .flat_map(|rollout| &rollout.calls)
        .map(String::as_str)
        .collect();
    let mut row = |name: &str, of: &dyn Fn(&Brief) -> f64| {
        let (a, b) = (mean(a, of), mean(b, of));
        put!(
            *body,
            "<tr><td class=\"text\">",
            clipped(name, 80),
            "</td><td>",
            cell(a),
            "</td><td>",
            cell(b),
            "</td><td>",
            a.zip(b).map_or_else(|| "–".to_owned(), |(a, b)| signed(b - a)),
            "</td></tr>"
        );
    };
    for (name, of) in BEHAVIOUR {
        row(name, &of);
    }
    if tools.len() <= 24 {
        for tool in &tools {
            row(&format!("calls of {tool}"), &|rollout: &Brief| {
                rollout.calls.iter().filter(|call| call == tool).count() as f64
            });
        }
    }
    put!(body, "</tbody></table></div></section>");
}

fn tasks(site: &Site, a: &Side, b: &Side, query: &Query, body: &mut Html) -> Result<(), ViewError> {
    if (a.run, &a.part) != (b.run, &b.part) {
        let answer = site.comparison((a.run, &a.part), (b.run, &b.part))?;
        put!(body, behaviour::panel(site, [a.run, b.run], &answer));
    }
    let success = site.run(a.run)?.success().map(str::to_owned);
    let by_task = |side: &Side| -> BTreeMap<String, Rates> {
        let rate = |group: &Group| {
            let (solved, scored) = group.solved(success.as_deref());
            (scored > 0).then(|| solved as f64 / scored as f64)
        };
        side.groups.iter().map(|group| (group.task.clone(), (rate(group), group.mean()))).collect()
    };
    let (of_a, of_b) = (by_task(a), by_task(b));
    let mut both: Vec<_> = of_a.iter().filter_map(|(task, a)| Some((task, *a, *of_b.get(task)?))).collect();
    let change = |(_, a, b): &(&String, Rates, Rates)| b.0.or(b.1).unwrap_or(0.0) - a.0.or(a.1).unwrap_or(0.0);
    both.sort_by(|x, y| change(y).abs().total_cmp(&change(x).abs()).then(x.0.cmp(y.0)));
    let (up, down) =
        (both.iter().filter(|pair| change(pair) > 0.0).count(), both.iter().filter(|pair| change(pair) < 0.0).count());
    put!(
        *body,
        "<section class=\"panel\"><h2>Tasks</h2><p>",
        both.len(),
        " tasks are in both: <b class=\"good\">",
        up,
        " better in B</b>, <b class=\"bad\">",
        down,
        " worse</b>, ",
        both.len() - up - down,
        " the same</p>"
    );
    let wanted = query.get("show").unwrap_or_default();
    both.retain(|pair| match wanted {
        "better" => change(pair) > 0.0,
        "worse" => change(pair) < 0.0,
        "same" => change(pair) == 0.0,
        _ => true,
    });
    let page = choice(both.len(), query, body);
    put!(
        *body,
        "<div class=\"scroll\"><table><thead><tr><th class=\"text\">task</th><th>solved in A</th><th>in B</th><th>reward in A</th><th>in B</th></tr></thead><tbody>"
    );
    for pair in both.iter().skip((page - 1) * TASKS).take(TASKS) {
        let (task, a, b) = pair;
        let class = super::sign(Some(change(pair)));
        put!(
            *body,
            "<tr data-item><td class=\"text\"><a href=\"",
            query.with("task", task),
            "\">",
            clipped(task, 100),
            "</a></td><td>",
            cell(a.0),
            "</td><td class=\"",
            class,
            "\">",
            cell(b.0),
            "</td><td>",
            cell(a.1),
            "</td><td class=\"",
            class,
            "\">",
            cell(b.1),
            "</td></tr>"
        );
    }
    put!(body, "</tbody></table></div></section>");
    amounts(a, b, body);
    Ok(())
}

/// Links to the selected tasks and to their pages; returns the current page.
fn choice(tasks: usize, query: &Query, body: &mut Html) -> usize {
    let first = Query::parse(&query.with("page", "")[1..]);
    put!(body, "<p class=\"bar\">");
    for (value, name) in [("", "all"), ("better", "better in B"), ("worse", "worse in B"), ("same", "the same")] {
        let class = if first.get("show").unwrap_or_default() == value { "on" } else { "" };
        put!(body, "<a class=\"pick ", class, "\" href=\"", first.with("show", value), "\">", name, "</a>");
    }
    let pages = tasks.div_ceil(TASKS).max(1);
    let page = query.number::<usize>("page").unwrap_or(1).clamp(1, pages);
    if pages > 1 {
        put!(body, "<span>page ", page, " of ", pages, "</span>");
        for (name, to) in [("before", page - 1), ("after", page + 1)] {
            if (1..=pages).contains(&to) {
                put!(body, "<a class=\"pick\" href=\"", query.with("page", &to.to_string()), "\">", name, "</a>");
            }
        }
    }
    put!(body, "</p>");
    page
}

fn one_task(site: &Site, a: &Side, b: &Side, task: &str, body: &mut Html) -> Result<(), ViewError> {
    let back =
        format!("/compare?a={}:{}&b={}:{}", a.run, encoded(&a.part.to_string()), b.run, encoded(&b.part.to_string()));
    put!(
        *body,
        "<p class=\"bar\"><a class=\"pick\" href=\"",
        back,
        "\">all tasks</a><b>",
        clipped(task, 200),
        "</b><span>the same call is in the same row</span></p>"
    );
    let mut rollouts = Vec::new();
    for (letter, side) in [("A", a), ("B", b)] {
        let run = site.run(side.run)?;
        let name = format!("{letter}: {} {}", run.name, side.part);
        for group in side.groups.iter().filter(|group| group.task == task) {
            for rollout in group.rollouts.iter().take(8) {
                rollouts.push((name.clone(), side.run, run.trace(rollout.trace)?));
            }
        }
    }
    if rollouts.is_empty() {
        return Err(ViewError::Missing(format!("neither side has the task {task:?}")));
    }
    let columns: Vec<_> =
        rollouts.iter().map(|(name, run, full)| Column { run: *run, full, side: Some(name.as_str()) }).collect();
    put!(body, beside(site, &columns));
    Ok(())
}
