//! Gold answers, and the calls that find their documents.

use hone_trace::ToolCall;
use serde_json::{Value, json};

use crate::triage::facts::{Gold, Submitted};
use crate::triage::problems::Problem;
use crate::triage::text::{self, Scene};
use crate::triage::tools::{self, HITS, SUBMIT};
use crate::triage::world::{Shelf, Size, World};

pub(in crate::triage) fn known_gold(world: &World, problem: Problem) -> Option<Gold> {
    let particulars = world.particulars(problem);
    let mut gold_ids = vec![world.article(problem)?.id.clone()];
    let mut key_facts = vec![particulars.value.to_string()];
    if particulars.fix.contains("{service}") {
        key_facts.push(particulars.service.clone());
    }
    let procedure = particulars.procedure.then(|| world.procedure_value(problem));
    if let Some(value) = procedure {
        gold_ids.push(world.procedure(problem)?.id.clone());
        key_facts.push(value.to_string());
    }
    let reference = text::resolution(world.spec.size, &gold_ids[0], problem, particulars, procedure);
    Some(Gold { gold_ids, should_escalate: false, reference, key_facts })
}

pub(in crate::triage) fn unknown_gold(world: &World, problem: Problem) -> Gold {
    let area = problem.domain().name;
    Gold {
        gold_ids: Vec::new(),
        should_escalate: true,
        reference: text::escalation(world.spec.size, area, world.particulars(problem)),
        key_facts: vec![area.into()],
    }
}

/// Calls that find the gold documents honestly: each id is among the hits of a search before it is read. `None` if no
/// plain query finds one.
pub(super) fn find(
    world: &World,
    scene: &Scene,
    ticket: &str,
    gold: &Gold,
    searches: &[Shelf],
) -> Option<Vec<ToolCall>> {
    let (product, failure) = (world.product(scene.problem), scene.problem.failure().name);
    let tiny = world.spec.size == Size::Tiny && scene.log;
    // The ticket's own words; of a tiny ticket, those that matter.
    let code = &world.particulars(scene.problem).code;
    let mut queries = vec![if tiny { format!("{code} {product}") } else { ticket.to_owned() }];
    queries.push(format!("{product} {failure} {}", if scene.log { scene.problem.cause().log } else { scene.site }));
    queries.push(format!("{product} change procedure"));
    let mut calls = Vec::new();
    if gold.gold_ids.is_empty() {
        calls.extend(searches.iter().map(|&shelf| search(shelf, &queries[0])));
    }
    for id in &gold.gold_ids {
        let (shelf, _) = world.get(id)?;
        let found = |query: &&String| world.search(shelf, query, HITS).iter().any(|hit| hit.id == *id);
        calls.push(search(shelf, queries.iter().find(found)?));
        let (tool, argument) = tools::getter(shelf);
        calls.push(call(tool, &json!({argument: id})));
    }
    Some(calls)
}

pub(super) fn search(shelf: Shelf, query: &str) -> ToolCall {
    let tool = match shelf {
        Shelf::Articles => "search_kb",
        Shelf::Tickets => "search_tickets",
        Shelf::Incidents => "search_incidents",
    };
    call(tool, &json!({"query": query}))
}

pub(super) fn submission(submitted: &Submitted) -> ToolCall {
    call(SUBMIT, &json!(submitted))
}

pub(super) fn call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall::new(name, arguments.as_object().cloned().unwrap_or_default())
}
