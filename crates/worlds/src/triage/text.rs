//! Texts of documents, tickets and resolutions, in three sizes.
//!
//! Texts name the product, the symptom and the evidence for the cause; nothing here decides what exists or what is
//! right.

use hone_trace::Rng;

use super::problems::{Incident, Particulars, Problem};
use super::world::{Document, Size};

pub(super) fn article(size: Size, id: String, problem: Problem, particulars: &Particulars) -> Document {
    let (product, failure, cause) = (&particulars.product, problem.failure(), problem.cause());
    let fix = fix(particulars);
    let procedure =
        if particulars.procedure { format!(" Follow the change procedure of {product}.") } else { String::new() };
    let (log, code, service) = (cause.log, &particulars.code, &particulars.service);
    let (title, body) = match size {
        Size::Tiny => (format!("{code} {product}"), format!("Fix: \"{code}: {}\"{procedure}", with_id(&fix, &id))),
        Size::Brief => (format!("{product}: {}", failure.name), format!("Log: {log} ({code}). Fix: {fix}{procedure}")),
        Size::Full => (
            format!("{product}: {} ({})", failure.name, cause.name),
            format!(
                "Symptoms\nAfter normal operation {}. Users describe it like this: {}. The log of {service} shows \
                 \"{log}\" with error code {code}.\n\nCause\nOn affected systems {}. Other causes of the same symptom \
                 leave other messages in the log; compare the message before you change anything.\n\n\
                 Resolution\n{fix}{procedure}\n\nVerification\nWatch the log of {service} for {} minutes. The message \
                 must not come back.",
                failure.name, failure.says[0], cause.name, particulars.minutes
            ),
        ),
    };
    Document { id, title, body }
}

/// Sentence of a tiny article: fix and id together, since tiny policies are good at following a text.
fn with_id(fix: &str, id: &str) -> String {
    format!("{} '{id}'.", fix.trim_end_matches('.'))
}

pub(super) fn procedure(size: Size, id: String, product: &str, value: u32) -> Document {
    let step = procedure_step(value);
    let body = match size {
        Size::Tiny | Size::Brief => format!("{step} Then make the change."),
        Size::Full => format!(
            "Scope\nSome changes to {product} may only be made under a change record; the article of the fix says \
             so.\n\nSteps\n{step} Then make the change, and close the record with the result."
        ),
    };
    Document { id, title: format!("{product}: change procedure"), body }
}

pub(super) fn incident(size: Size, number: usize, product: &str, incident: &Incident) -> Document {
    let failure = incident.symptom.failure();
    let state = if incident.open { "Open" } else { "Closed" };
    let workaround = workaround(incident);
    let body = match (size, incident.open) {
        (Size::Tiny | Size::Brief, true) => format!("Workaround: {workaround}"),
        (Size::Tiny | Size::Brief, false) => format!("Closed on day {}. Workaround was: {workaround}", incident.day),
        (Size::Full, true) => format!(
            "Since day {} of this month {} at the {} site. The vendor is working on it and no cause is known yet. \
             Workaround until then: {workaround}",
            incident.day, failure.name, incident.site
        ),
        (Size::Full, false) => format!(
            "From day {} of last month {} at the {} site. The vendor has delivered a correction, which is installed \
             everywhere. The incident is closed and its workaround must not be used any more. It was: {workaround}",
            incident.day, failure.name, incident.site
        ),
    };
    Document {
        id: format!("INC-{}", 5000 + number),
        title: format!("{state} incident, {}: {product}: {}", incident.site, failure.name),
        body,
    }
}

pub(super) fn past_ticket(
    size: Size,
    number: usize,
    problem: Problem,
    particulars: &Particulars,
    site: &str,
    solved_by: Option<&str>,
    rng: &mut Rng,
) -> Document {
    let (product, failure, cause) = (&particulars.product, problem.failure(), problem.cause());
    let end = match solved_by {
        Some(article) => format!("Solved with {article}."),
        None => format!("Escalated to the {} team: no article.", problem.domain().name),
    };
    let says = failure.says[rng.below(failure.says.len())];
    let body = match size {
        Size::Tiny | Size::Brief => format!("{site}: {says}. Log: {}. {end}", cause.log),
        Size::Full => format!(
            "Reported by {} in {site}: {says}. First level found \"{}\" ({}) in the log of {}. {end}",
            pick(rng, &PEOPLE),
            cause.log,
            particulars.code,
            particulars.service
        ),
    };
    Document { id: format!("TCK-{}", 20_000 + number), title: format!("{product}: {}", failure.name), body }
}

/// Details that make the tickets of one problem differ.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) problem: Problem,
    pub(super) site: &'static str,
    /// Level from 1 to 3: with the error code; without; in the user's words.
    pub(super) level: u8,
    /// False for tickets about an open incident and vague tickets, whose log does not reveal a cause.
    pub(super) log: bool,
}

/// An open ticket, as the agent gets it.
pub(super) fn ticket(size: Size, scene: &Scene, particulars: &Particulars, rng: &mut Rng) -> String {
    let Scene { problem, site, level, log } = *scene;
    let (product, failure) = (&particulars.product, problem.failure());
    let symptom = if level >= 3 { failure.says[rng.below(failure.says.len())] } else { failure.name };
    let code = if level == 1 { format!(" ({})", particulars.code) } else { String::new() };
    let host = format!("{}-{}", site[..3].to_lowercase(), 100 + rng.below(900));
    let area = problem.domain().name;
    match size {
        // Quoted like the query and the hit: a tiny policy follows a text that repeats token by token.
        Size::Tiny if log => format!("[{area}, {site}] \"{} {product}\": {symptom}.", particulars.code),
        Size::Tiny => format!("[{area}, {site}] \"{product}\": {symptom}. No code."),
        Size::Brief => {
            let log = if log { format!(" Log: {}{code}.", problem.cause().log) } else { String::new() };
            format!("[{area}, {site}, {host}] {product}: {symptom}.{log}")
        }
        Size::Full => {
            let log = if log {
                format!(" The log of {} shows \"{}\"{code}.", particulars.service, problem.cause().log)
            } else {
                format!(" The log of {} shows nothing unusual.", particulars.service)
            };
            format!(
                "Area: {area}\nSite: {site}\nProduct: {product}\nFrom: {}\n\n{} Since {} {symptom}. It concerns {} and \
                 was first seen on {host}.{log} {} {}",
                pick(rng, &PEOPLE),
                pick(rng, &GREETINGS),
                pick(rng, &WHEN),
                pick(rng, &WHOM),
                pick(rng, &TRIED),
                pick(rng, &CLOSINGS),
            )
        }
    }
}

/// The fix of a problem, one sentence.
fn fix(particulars: &Particulars) -> String {
    let value = particulars.value.to_string();
    particulars.fix.replace("{value}", &value).replace("{service}", &particulars.service)
}

/// A perfect answer to a known problem with this article.
pub(super) fn resolution(
    size: Size,
    id: &str,
    problem: Problem,
    particulars: &Particulars,
    procedure: Option<u32>,
) -> String {
    let before = procedure.map_or(String::new(), |value| format!("{} ", procedure_step(value)));
    let fix = fix(particulars);
    match size {
        Size::Tiny => format!("{}: {before}{}", particulars.code, with_id(&fix, id)),
        Size::Brief => format!("{before}{fix}"),
        Size::Full => format!(
            "The cause: {}. {before}{fix} Then watch the log of {} for {} minutes.",
            problem.cause().name,
            particulars.service,
            particulars.minutes
        ),
    }
}

/// A perfect answer if no document has the answer.
pub(super) fn escalation(size: Size, area: &str, particulars: &Particulars) -> String {
    let said = format!("No document covers this. Escalate to the {area} team.");
    match size {
        Size::Tiny => format!("{}: {said}", particulars.code),
        Size::Brief | Size::Full => said,
    }
}

pub(super) fn workaround(incident: &Incident) -> String {
    incident.workaround.replace("{value}", &incident.value.to_string())
}

fn procedure_step(value: u32) -> String {
    format!("First open change template {value}.")
}

fn pick(rng: &mut Rng, items: &[&'static str]) -> &'static str {
    items[rng.below(items.len())]
}

const PEOPLE: [&str; 12] = [
    "Ana Ferreira, accounting",
    "Bram Kuipers, warehouse",
    "Chidi Okafor, sales",
    "Dorota Wilk, payroll",
    "Emeka Obi, logistics",
    "Freya Lund, research",
    "Goran Petrov, quality",
    "Hana Sato, design",
    "Iris Novak, legal",
    "Jonas Weber, production",
    "Kavya Rao, purchasing",
    "Luis Romero, service",
];
const GREETINGS: [&str; 4] =
    ["Hello team.", "Good morning, we need your help.", "Hi, this is getting urgent.", "Dear service desk."];
const WHEN: [&str; 6] =
    ["this morning", "yesterday evening", "the weekend", "Monday", "the last maintenance", "about ten o'clock"];
const WHOM: [&str; 5] =
    ["the whole floor", "two colleagues and me", "everybody on the late shift", "one department", "our external staff"];
const TRIED: [&str; 5] = [
    "A restart of the workstation did not help.",
    "We have changed nothing on our side.",
    "Logging off and on made no difference.",
    "It works from the neighbouring office.",
    "Our local support had no idea.",
];
const CLOSINGS: [&str; 4] = [
    "Please tell us what to do.",
    "We cannot ship anything until this is solved.",
    "Thank you for a quick answer.",
    "Can somebody take care of it today?",
];
