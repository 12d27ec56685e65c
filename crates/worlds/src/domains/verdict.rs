//! The tau reward: the final state is the reference's, and every wanted output was said. Both parts are kept. tau2 adds
//! assertions on the end (`ENV_ASSERTION`) and calls that must have been made (`ACTION`).
//!
//! States are compared record by record, not hashed; the result is the same as comparing hashes.

use hone_trace::Task;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::initial::Named;
use super::world::World;
use super::{Desk, Profile, TRANSFER, actions, py};
use hone_arena::rewards::state_diff::{Change, diff};

/// Verdict on an episode, against its task.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// True when the final state is the reference's.
    pub state: bool,
    /// Outputs the task wants, each with whether the agent said it.
    pub outputs: IndexMap<String, bool>,
    /// Assertions on the end and calls that must have been made, by name, and whether they hold.
    pub conditions: IndexMap<String, bool>,
    /// Parts of the task's reward that need a judge (tau2's `NL_ASSERTION`), or that could not be computed, and are not
    /// decided here.
    pub undecided: Vec<String>,
}

impl Verdict {
    /// 1 or 0; `None` if a part is left to a judge and the rest is right.
    pub fn reward(&self) -> Option<f64> {
        let decided = self.state && self.outputs.values().chain(self.conditions.values()).all(|met| *met);
        match (decided, self.undecided.is_empty()) {
            (false, _) => Some(0.0),
            (true, true) => Some(1.0),
            (true, false) => None,
        }
    }
}

/// Judges an episode: its desk at the end, with the calls made there, and everything the agent said to the user.
pub fn judge(desk: &Desk, task: &Task, replies: &[impl AsRef<str>]) -> Verdict {
    let basis = basis(task);
    let wants = |part: &str| basis.iter().any(|own| own == part);
    let state = !wants("DB") || !has_target(task) || desk.same_state(&reference_end(desk, task));
    // tau2's tasks may list outputs to communicate without making them part of the reward.
    let outputs = if wants("COMMUNICATE") { task.outputs.as_slice() } else { &[] };
    let outputs = outputs.iter().map(|output| (output.clone(), is_said(output, replies))).collect();
    let mut conditions = IndexMap::new();
    let mut undecided = Vec::new();
    if wants("ENV_ASSERTION") {
        undecided.extend(asserted(desk, task, &mut conditions));
    }
    if wants("ACTION") {
        conditions.extend(actions::made(desk.calls(), listed(task, "actions")));
    }
    let has_assertions = !listed(task, "nl_assertions").is_empty();
    undecided.extend(wants("NL_ASSERTION").then(|| "NL_ASSERTION".to_owned()).filter(|_| has_assertions));
    Verdict { state, outputs, conditions, undecided }
}

/// True if a task defines its end state: tau2 compares nothing if neither actions nor assertions are given.
fn has_target(task: &Task) -> bool {
    let Some(verifier) = task.verifier.as_ref().filter(|verifier| verifier.get("actions").is_some()) else {
        return true;
    };
    ["actions", "env_assertions"].iter().any(|name| verifier.get(*name).is_some_and(|part| !part.is_null()))
}

/// Evaluates the assertions on the end state in order; returns those that could not be computed.
fn asserted(desk: &Desk, task: &Task, conditions: &mut IndexMap<String, bool>) -> Vec<String> {
    let mut desk = desk.clone();
    let mut failed = Vec::new();
    for (at, assertion) in listed(task, "env_assertions").iter().enumerate() {
        let expected = assertion.get("assert_value").and_then(Value::as_bool).unwrap_or(true);
        let named = Named::read(assertion);
        let met = named.as_ref().map_err(Clone::clone).and_then(|named| desk.function(named));
        let name = named.map_or_else(|_| format!("assertion {at}"), |named| named.name);
        match met {
            Ok(py::Value::Bool(met)) => {
                // Two assertions by one function are two conditions.
                let name = if conditions.contains_key(&name) { format!("{name} ({at})") } else { name };
                conditions.insert(name, met == expected);
            }
            Ok(other) => failed.push(format!("ENV_ASSERTION ({name}: {} is not a truth value)", other.type_name())),
            Err(what) => failed.push(format!("ENV_ASSERTION ({name}: {what})")),
        }
    }
    failed
}

/// A list of the task's verifier; empty if it has none.
fn listed<'a>(task: &'a Task, name: &str) -> &'a [Value] {
    let list = task.verifier.as_ref().and_then(|verifier| verifier.get(name)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Reward basis: by default the database and the agent's statements.
fn basis(task: &Task) -> Vec<String> {
    let named = task.verifier.as_ref().and_then(|verifier| verifier.get("basis")?.as_array().cloned());
    match named {
        Some(parts) => parts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec!["DB".into(), "COMMUNICATE".into()],
    }
}

/// The desk as the task begins, after the reference's calls. Calls that end the episode are omitted, and errors are
/// silent, as upstream.
pub(crate) fn reference_end(desk: &Desk, task: &Task) -> Desk {
    let domain = desk.domain();
    // A task that cannot begin is refused before it is played.
    let mut fresh = domain.begin(task).map_or_else(|_| domain.open(), |beginning| beginning.desk);
    for (by, call) in actions::reference(task) {
        if call.name != TRANSFER || domain.profile == Profile::Tau2 {
            fresh.refer(by, &call);
        }
    }
    fresh
}

/// True when some reply contains the output: case ignored, commas removed from the reply but not from the output.
pub fn is_said(output: &str, replies: &[impl AsRef<str>]) -> bool {
    let wanted = output.to_lowercase();
    replies.iter().any(|reply| reply.as_ref().to_lowercase().replace(',', "").contains(&wanted))
}

/// The end of an episode as the reward components read it.
pub fn facts(desk: &Desk, task: &Task, verdict: &Verdict) -> Map<String, Value> {
    let reference = task.reference.as_deref().unwrap_or_default();
    let wanted = desk_changes(&reference_end(desk, task));
    let mut facts = Map::new();
    // A verdict that could not be computed is absent: rewards that build on it stay unscored.
    if !verdict.undecided.iter().any(|part| part.starts_with("ENV_ASSERTION")) {
        facts.insert("db_match".into(), verdict.state.into());
    }
    facts.insert("outputs_said".into(), json!(verdict.outputs));
    if !verdict.conditions.is_empty() {
        facts.insert("conditions".into(), json!(verdict.conditions));
    }
    facts.insert("changes".into(), json!({ "made": desk_changes(desk), "wanted": wanted }));
    facts.insert("reference_calls".into(), json!(reference));
    facts.insert("writes".into(), json!(desk.domain().writes()));
    let judged = verdict.undecided.iter().any(|part| part == "NL_ASSERTION");
    let assertions = if judged { listed(task, "nl_assertions") } else { &[] };
    facts.insert("assertions".into(), json!(assertions));
    if !verdict.undecided.is_empty() {
        facts.insert("undecided".into(), json!(verdict.undecided));
    }
    facts
}

/// The leaves in which the states of an episode differ from the data they were opened on.
fn desk_changes(desk: &Desk) -> Vec<Change> {
    desk.worlds().flat_map(changes).collect()
}

/// The leaves in which a state differs from the data it was opened on.
pub fn changes(world: &World) -> Vec<Change> {
    let (mut before, mut after) = (Map::new(), Map::new());
    for (table, key, record) in world.written() {
        if let Some(original) = world.original(table, key) {
            put(&mut before, table, key, original);
        }
        put(&mut after, table, key, record);
    }
    diff(&Value::Object(before), &Value::Object(after))
}

fn put(tables: &mut Map<String, Value>, table: &str, key: &str, record: &py::Value) {
    // NaN and infinities, which JSON lacks, become null: they were never wanted.
    let record = serde_json::from_str(&py::json::dumps(record)).unwrap_or_default();
    if let Value::Object(records) = tables.entry(table).or_insert_with(|| Value::Object(Map::new())) {
        records.insert(key.to_owned(), record);
    }
}
