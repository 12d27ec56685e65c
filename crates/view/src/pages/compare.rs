//! Two checkpoints or runs on the same tasks: who solved what, how they behave, and one task side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::behaviour;
use super::group::{Column, beside};
use super::{Place, Query, frame};
use crate::html::{Html, clipped, encoded};
use crate::number::{cell, signed};
use crate::put;
use crate::run::{Brief, Ending, Filter, Group, Part, Set, ViewError};
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
    let of_run = |choice: &&Choice| choice.run == own && matches!(choice.set, Set::Eval(_));
    let first = choices.iter().find(of_run).or(choices.first());
    let same = |choice: &&Choice| first.is_some_and(|first| choice.set == first.set);
    let last = choices.iter().rev().find(|choice| of_run(choice) && same(choice)).or(choices.last());
    let pick = |key: &str, other: Option<&Choice>| {
        query.get(key).map(str::to_owned).or(other.map(Choice::value)).unwrap_or_default()
    };
    let (a, b) = (pick("a", first), pick("b", last));
    let mut body = Html::new();
    put!(
        body,
        "<section class=\"head\"><h1>Compare</h1></section><form class=\"bar\" method=\"get\" aria-label=\"what is \
         compared\">"
    );
    for (key, now) in [("a", &a), ("b", &b)] {
        put!(body, "<label>", key.to_uppercase(), " <select name=\"", key, "\">");
        for choice in &choices {
            let (value, name) = (choice.value(), format!("{} {}", site.run(choice.run)?.name, choice.part));
            if value == *now {
                put!(body, "<option selected value=\"", value, "\">", name, "</option>");
            } else {
                put!(body, "<option value=\"", value, "\">", name, "</option>");
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

/// Something that can be compared: held-out traces of a run.
struct Choice {
    run: usize,
    /// Its name in the run.
    part: String,
    set: Set,
}

impl Choice {
    /// As the query names it: `run:part`.
    fn value(&self) -> String {
        format!("{}:{}", self.run, self.part)
    }
}

/// Everything with held-out traces.
fn choices(site: &Site) -> Result<Vec<Choice>, ViewError> {
    let mut choices = Vec::new();
    for run in 0..site.len() {
        let opened = site.run(run)?;
        let mut seen = BTreeSet::new();
        for played in opened.events.played.iter().filter(|played| played.traces.is_some()) {
            if seen.insert(played.name()) {
                choices.push(Choice { run, part: played.name(), set: played.set.clone() });
            }
        }
    }
    Ok(choices)
}

fn side(site: &Site, choice: &str) -> Result<Side, ViewError> {
    let (run, part) = choice.split_once(':').unwrap_or(("0", choice));
    let (run, part) = (run.parse().unwrap_or(usize::MAX), Part::parse(part));
    let (groups, _) = site.run(run)?.groups(&part, &Filter::default())?;
    Ok(Side { run, part, groups })
}

/// A number of a rollout.
type Measure = fn(&Brief) -> f64;

/// Behaviour: name, and its mean over the rollouts.
const BEHAVIOUR: [(&str, Measure); 6] = [
    ("turns", |rollout| rollout.turns as f64),
    ("calls", |rollout| rollout.calls.len() as f64),
    ("calls that failed", |rollout| rollout.failed_calls as f64),
    ("replies that did not parse", |rollout| rollout.parse_failures.len() as f64),
    ("sampled tokens", |rollout| rollout.sampled as f64),
    ("ended other than finished", |rollout| f64::from(u8::from(!rollout.outcome.is(Ending::Finished)))),
];

/// Means per rollout in `a` and in `b`.
fn amounts(a: &Side, b: &Side, body: &mut Html) {
    put!(
        *body,
        "<section class=\"panel\"><h2>Means per rollout</h2><div class=\"scroll\"><table><thead><tr><th \
         class=\"text\"></th><th>A</th><th>B</th><th>B − A</th></tr></thead><tbody>"
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

/// Results of a task on one side.
#[derive(Clone, Copy)]
struct Rates {
    success: Option<f64>,
    reward: Option<f64>,
}

impl Rates {
    fn of(group: &Group, success: Option<&str>) -> Self {
        let (solved, scored) = group.solved(success);
        Self { success: (scored > 0).then(|| solved as f64 / scored as f64), reward: group.mean() }
    }

    /// Success, or the reward if success was not scored.
    fn value(self) -> f64 {
        self.success.or(self.reward).unwrap_or(0.0)
    }
}

/// A task of both sides.
struct Paired<'a> {
    task: &'a str,
    a: Rates,
    b: Rates,
}

/// The tasks of both sides, the largest change first.
fn paired<'a>(a: &'a Side, b: &Side, success: Option<&str>) -> Vec<Paired<'a>> {
    let of_b: BTreeMap<&str, Rates> =
        b.groups.iter().map(|group| (group.task.as_str(), Rates::of(group, success))).collect();
    // A task drawn twice counts as drawn last.
    let of_a: BTreeMap<&str, Rates> =
        a.groups.iter().map(|group| (group.task.as_str(), Rates::of(group, success))).collect();
    let both = of_a.into_iter().filter_map(|(task, a)| Some(Paired { task, a, b: *of_b.get(task)? }));
    let mut both: Vec<Paired<'_>> = both.collect();
    both.sort_by(|x, y| y.change().abs().total_cmp(&x.change().abs()).then(x.task.cmp(y.task)));
    both
}

impl Paired<'_> {
    fn change(&self) -> f64 {
        self.b.value() - self.a.value()
    }

    fn row(&self, query: &Query) -> Html {
        let class = super::sign(Some(self.change()));
        let mut out = Html::new();
        put!(
            out,
            "<tr data-item><td class=\"text\"><a href=\"",
            query.with("task", self.task),
            "\">",
            clipped(self.task, 100),
            "</a></td><td>",
            cell(self.a.success),
            "</td><td class=\"",
            class,
            "\">",
            cell(self.b.success),
            "</td><td>",
            cell(self.a.reward),
            "</td><td class=\"",
            class,
            "\">",
            cell(self.b.reward),
            "</td></tr>"
        );
        out
    }
}

fn tasks(site: &Site, a: &Side, b: &Side, query: &Query, body: &mut Html) -> Result<(), ViewError> {
    if (a.run, &a.part) != (b.run, &b.part) {
        let answer = site.comparison((a.run, &a.part), (b.run, &b.part))?;
        put!(body, behaviour::panel(site, [a.run, b.run], &answer));
    }
    let mut both = paired(a, b, site.run(a.run)?.success());
    let (up, down) = (
        both.iter().filter(|task| task.change() > 0.0).count(),
        both.iter().filter(|task| task.change() < 0.0).count(),
    );
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
    both.retain(|task| match wanted {
        "better" => task.change() > 0.0,
        "worse" => task.change() < 0.0,
        "same" => task.change() == 0.0,
        _ => true,
    });
    let page = choice(both.len(), query, body);
    put!(
        *body,
        "<div class=\"scroll\"><table><thead><tr><th class=\"text\">task</th><th>solved in A</th><th>in B</th>",
        "<th>reward in A</th><th>in B</th></tr></thead><tbody>"
    );
    for task in both.iter().skip((page - 1) * TASKS).take(TASKS) {
        put!(body, task.row(query));
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
