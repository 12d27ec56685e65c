//! Metrics page: every recorded metric, by name.

use hone_train::ledger::names;

use super::curves::{View, figure};
use super::{Place, Query, crumbs, frame};
use crate::html::{Html, clipped};
use crate::put;
use crate::run::ViewError;
use crate::site::Site;
use crate::svg::{Chart, Line};

const MOST: usize = 60;

pub(super) fn page(site: &Site, number: usize, query: &Query) -> Result<Html, ViewError> {
    let run = site.run(number)?;
    let wanted = query.get("q").unwrap_or("").to_lowercase();
    let names: Vec<&str> = run.metrics.names().filter(|name| name.to_lowercase().contains(&wanted)).collect();
    let mut body = Html::new();
    put!(
        body,
        "<section class=\"head\"><h1>Metrics</h1></section><form class=\"bar\" method=\"get\" role=\"search\">\
         <input id=\"q\" type=\"search\" name=\"q\" aria-label=\"part of a metric's name\" placeholder=\"part of a \
         name  ( / )\" value=\"",
        query.get("q").unwrap_or(""),
        "\"><button>filter</button><span>",
        names.len(),
        " of ",
        run.metrics.names().count(),
        " metrics"
    );
    if names.len() > MOST {
        put!(body, "; the first ", MOST, " are shown");
    }
    put!(body, "</span></form><section class=\"charts\">");
    for name in names.into_iter().take(MOST) {
        let line = Line { label: String::new(), run: number, colour: 0, points: run.metrics.points(name) };
        let chart = Chart {
            title: name.to_owned(),
            about: clipped(meaning(name), 160),
            lines: vec![line],
            ..View::of(query).chart()
        };
        put!(body, figure(&chart));
    }
    put!(body, "</section>");
    let crumbs = crumbs(site, number, &[("metrics".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Metrics", crumbs }, &body))
}

/// Meaning of a metric, as in docs/metrics.md; empty for an unknown one.
fn meaning(name: &str) -> &'static str {
    names::find(name).map_or("", |metric| metric.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_a_family_have_its_meaning() {
        assert_eq!(meaning("tokens/trained"), "whose advantage reached the gradient");
        assert_eq!(meaning("batch_reward/my_own/std"), "its standard deviation (population)");
        assert!(meaning("reward/avg_pass_at_8").starts_with("share of groups with at least one success"));
        assert!(meaning("batch_reward/total").starts_with("mean of the component"));
        assert_eq!(["no/such", "batch_reward/", "batch_reward/a/b/c"].map(meaning), ["", "", ""]);
    }
}
