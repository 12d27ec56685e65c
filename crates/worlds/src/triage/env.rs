//! The two triage environments: one that shows the documents, one that lets the agent search.
//!
//! An episode holds what the agent has seen and submitted; the world is shared. `end` leaves these facts for scorers:
//!
//! | key | is |
//! |---|---|
//! | `question` | the ticket |
//! | `reference` | what a perfect answer says |
//! | `gold_ids` | what it cites; empty where nothing has the answer |
//! | `should_escalate` | whether escalating is right |
//! | `key_facts` | words every right answer contains |
//! | `context` | id to text of everything the agent was shown: documents in full, search hits as shown |
//! | `retrieved` | ids it read with a `get_*` tool, in order (searcher) |
//! | `reference_calls` | the calls of a perfect episode |
//! | `kind`, `split`, `difficulty` | of the task |
//! | `submission` | `resolution`, `citations`, `confidence`, `escalate`; absent where none was accepted |
//! | `submission_error` | why none was accepted |
//! | `correct`, `correct_why` | [`Gold::judge`]'s answer; `false` where nothing was submitted |

use std::sync::Arc;

use async_trait::async_trait;
use hone_trace::{Action, Boundary, EndState, Env, Fault, Message, Task, ToolCall, Turn};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::facts::{Gold, Submitted};
use super::tasks::Mode;
use super::tools::{HITS, SUBMIT, get_shelf, search_shelf};
use super::world::{Shelf, Size, World};

/// One episode.
#[derive(Debug)]
pub(super) struct TriageEnv {
    pub(super) mode: Mode,
    pub(super) world: Arc<World>,
    pub(super) task: Task,
    pub(super) gold: Gold,
    /// Text by id of the documents the agent was shown.
    pub(super) context: IndexMap<String, String>,
    pub(super) retrieved: Vec<String>,
    pub(super) submitted: Option<Submitted>,
    pub(super) error: Option<String>,
    pub(super) done: bool,
}

#[async_trait]
impl Env for TriageEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        if self.done {
            return Err(Fault::new(Boundary::Hone, "a finished triage episode was stepped again"));
        }
        let (mut messages, failed) = match action {
            Action::Calls(calls) => self.calls(&calls),
            Action::Reply(_) => (self.no_submission(&format!("Nobody reads replies here. Call {SUBMIT}.")), 0),
            Action::Malformed(failure) => (self.no_submission(&format!("{failure}. {}", failure.hint)), 0),
        };
        // The reader has one turn, however it used it.
        self.done |= self.mode == Mode::Reader;
        if self.done && self.submitted.is_none() {
            messages.clear();
        }
        Ok(Turn { messages, done: self.done, failed })
    }

    fn end(&mut self) -> EndState {
        EndState { facts: self.facts() }
    }
}

impl TriageEnv {
    /// The answers, and how many of them are errors.
    fn calls(&mut self, calls: &[ToolCall]) -> (Vec<Message>, u32) {
        let mut messages = Vec::new();
        let mut failed = 0;
        for call in calls {
            let result = self.call(call).unwrap_or_else(|error| {
                failed += 1;
                self.error = Some(error.clone());
                format!("Error: {error}")
            });
            messages.push(Message::tool(&call.name, result));
            if self.done {
                break;
            }
        }
        (messages, failed)
    }

    fn call(&mut self, call: &ToolCall) -> Result<String, String> {
        if call.name == SUBMIT {
            self.submitted = Some(Submitted::read(&call.arguments)?);
            self.done = true;
            return Ok("Submitted.".into());
        }
        if self.mode == Mode::Searcher {
            if let Some(shelf) = search_shelf(&call.name) {
                return Ok(self.search(shelf, argument(call, "query")?));
            }
            if let Some((shelf, name)) = get_shelf(&call.name) {
                return self.get(shelf, argument(call, name)?);
            }
        }
        Err(format!("there is no tool {:?}", call.name))
    }

    fn search(&mut self, shelf: Shelf, query: &str) -> String {
        let mut lines = Vec::new();
        for document in self.world.search(shelf, query, HITS) {
            let line = match self.world.spec.size {
                Size::Tiny => format!("Found \"{}\": \"{}\"", document.title, document.id),
                Size::Brief => format!("{}: {}", document.id, document.title),
                Size::Full => format!("{}: {}: {}", document.id, document.title, opening(&document.body)),
            };
            // A document that was read in full is kept in full.
            self.context.entry(document.id.clone()).or_insert_with(|| line.clone());
            lines.push(line);
        }
        if lines.is_empty() { "Nothing found.".into() } else { lines.join("\n") }
    }

    fn get(&mut self, shelf: Shelf, id: &str) -> Result<String, String> {
        match self.world.get(id) {
            Some((found, document)) if found == shelf => {
                let text = document.text();
                self.context.insert(id.to_owned(), text.clone());
                self.retrieved.push(id.to_owned());
                Ok(text)
            }
            _ => Err(format!("there is no {id:.40} here")),
        }
    }

    fn no_submission(&mut self, why: &str) -> Vec<Message> {
        self.error = Some(why.to_owned());
        vec![Message::user(why)]
    }

    fn facts(&self) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("question".into(), self.task.prompt.clone().into());
        facts.insert("reference".into(), self.gold.reference.clone().into());
        facts.insert("gold_ids".into(), json!(self.gold.gold_ids));
        facts.insert("should_escalate".into(), self.gold.should_escalate.into());
        facts.insert("key_facts".into(), json!(self.gold.key_facts));
        facts.insert("context".into(), json!(self.context));
        facts.insert("retrieved".into(), json!(self.retrieved));
        facts.insert("reference_calls".into(), json!(self.task.reference.as_deref().unwrap_or_default()));
        for key in ["kind", "split"] {
            facts.extend(self.task.extra.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        facts.insert("difficulty".into(), json!(self.task.difficulty));
        let (correct, why) = if let Some(submitted) = &self.submitted {
            facts.insert("submission".into(), json!(submitted));
            self.gold.judge(submitted, &self.task.prompt)
        } else {
            let error = self.error.clone().unwrap_or_else(|| "nothing was submitted".into());
            facts.insert("submission_error".into(), error.into());
            (false, "no_submission: nothing was submitted".into())
        };
        facts.insert("correct".into(), correct.into());
        facts.insert("correct_why".into(), why.into());
        facts
    }
}

fn argument<'a>(call: &'a ToolCall, name: &str) -> Result<&'a str, String> {
    call.arguments.get(name).and_then(Value::as_str).ok_or_else(|| format!("{} needs {name:?}, a string", call.name))
}

/// The first words of a document, for a list of hits.
fn opening(body: &str) -> String {
    let words: Vec<&str> = body.split_whitespace().take(16).collect();
    format!("{} …", words.join(" "))
}
