//! The tools of a triage agent.

use hone_trace::{DuplicateTool, ToolSet, ToolSpec};
use serde_json::{Value, json};

use super::world::Shelf;

pub(super) const SUBMIT: &str = "submit_resolution";

/// Hits of one search.
pub(super) const HITS: usize = 5;

/// The reader's only tool.
pub(crate) fn reader_tools() -> Result<ToolSet, DuplicateTool> {
    ToolSet::new(vec![submit()])
}

/// Search and look-up for each kind of documents, and the submission.
pub(crate) fn searcher_tools() -> Result<ToolSet, DuplicateTool> {
    ToolSet::new(vec![
        search("search_kb", "Search the knowledge base articles."),
        search("search_tickets", "Search past tickets."),
        search("search_incidents", "Search incidents, open and closed."),
        get("get_article", "Read an article.", "article_id", "KB-1234"),
        get("get_ticket", "Read a past ticket.", "ticket_id", "TCK-20123"),
        get("get_incident", "Read an incident.", "incident_id", "INC-5012"),
        submit(),
    ])
}

/// The shelf of a search or look-up tool, and the name of its argument.
pub(super) fn search_shelf(tool: &str) -> Option<Shelf> {
    Some(match tool {
        "search_kb" => Shelf::Articles,
        "search_tickets" => Shelf::Tickets,
        "search_incidents" => Shelf::Incidents,
        _ => return None,
    })
}

pub(super) fn get_shelf(tool: &str) -> Option<(Shelf, &'static str)> {
    Some(match tool {
        "get_article" => (Shelf::Articles, "article_id"),
        "get_ticket" => (Shelf::Tickets, "ticket_id"),
        "get_incident" => (Shelf::Incidents, "incident_id"),
        _ => return None,
    })
}

/// The tool that reads a document of a shelf.
pub(super) fn getter(shelf: Shelf) -> (&'static str, &'static str) {
    match shelf {
        Shelf::Articles => ("get_article", "article_id"),
        Shelf::Tickets => ("get_ticket", "ticket_id"),
        Shelf::Incidents => ("get_incident", "incident_id"),
    }
}

fn submit() -> ToolSpec {
    ToolSpec::new(
        SUBMIT,
        "Submit the resolution of the ticket. This ends the episode.",
        object(
            &json!({
                "resolution": {"type": "string", "description": "What to do, in a few sentences"},
                "citations": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Ids of the articles or incidents the resolution rests on",
                },
                "confidence": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "description": "Probability that the resolution is right",
                },
                "escalate": {"type": "boolean", "description": "Whether no document has the answer"},
            }),
            &["resolution", "citations", "confidence", "escalate"],
        ),
    )
}

fn search(name: &str, description: &str) -> ToolSpec {
    ToolSpec::new(name, description, object(&json!({"query": {"type": "string"}}), &["query"]))
}

fn get(name: &str, description: &str, argument: &str, example: &str) -> ToolSpec {
    let id = json!({argument: {"type": "string", "description": format!("Such as {example}")}});
    ToolSpec::new(name, description, object(&id, &[argument]))
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
