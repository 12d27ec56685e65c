//! Filter of a part's rollouts, as a form.

use std::collections::BTreeSet;

use crate::html::Html;
use crate::put;
use crate::run::{Filter, Group, Lenient};

/// Form that chooses the rollouts shown.
pub(super) fn form(groups: &[Group], filter: &Filter, body: &mut Html) {
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let options = |values: BTreeSet<&str>, now: Option<&str>| {
        let mut out = Html::new();
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
    let envs = options(rollouts().map(|rollout| rollout.env.as_str()).collect(), filter.env.as_deref());
    let outcomes = options(
        rollouts().map(|rollout| rollout.outcome.as_str()).collect(),
        filter.outcome.as_ref().map(Lenient::as_str),
    );
    let kinds: BTreeSet<&str> =
        rollouts().flat_map(|rollout| &rollout.parse_failures).map(String::as_str).chain(["any"]).collect();
    let failures = options(kinds, filter.failure.as_deref());
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    put!(
        *body,
        "<form class=\"bar\" method=\"get\" role=\"search\" aria-label=\"which rollouts are shown\"><input id=\"q\" \
         type=\"search\" name=\"q\" aria-label=\"words in the conversation\" placeholder=\"words in the \
         conversation  ( / )\" value=\"",
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
        "\"></label><input name=\"most\" size=\"5\" inputmode=\"decimal\" aria-label=\"reward at most\" \
         placeholder=\"most\" value=\"",
        number(filter.most),
        "\"><button>filter</button>"
    );
    if !filter.is_empty() {
        put!(body, "<a class=\"pick\" href=\"?\">all rollouts</a>");
    }
    put!(body, "</form>");
}
