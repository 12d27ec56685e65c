//! Every metric there is, by name.

use super::run::{View, figure};
use super::{Place, Query, crumbs, frame};
use crate::html::Html;
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
        "<section class=\"head\"><h1>Metrics</h1></section><form class=\"bar\" method=\"get\" role=\"search\"><input id=\"q\" type=\"search\" name=\"q\" aria-label=\"part of a metric's name\" placeholder=\"part of a name  ( / )\" value=\"",
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
            about: "docs/metrics.md says what it is".into(),
            lines: vec![line],
            ..View::of(query).chart()
        };
        put!(body, figure(&chart));
    }
    put!(body, "</section>");
    let crumbs = crumbs(site, number, &[("metrics".to_owned(), String::new())])?;
    Ok(frame(site, &Place { run: Some(number), tab: "Metrics", crumbs }, &body))
}
