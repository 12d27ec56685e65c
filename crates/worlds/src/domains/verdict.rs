//! The tau reward: is the final state the reference's, and was every wanted output said? Both parts are kept.
//!
//! States are compared record by record, not hashed; the answer is the one the hashes would give.

use hone_trace::{Task, ToolCall};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::py;
use super::world::World;
use super::{Desk, Profile, TRANSFER};
use hone_arena::rewards::state_diff::{Change, diff};

/// Verdict on an episode, against its task.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// True when the final state is the reference's.
    pub state: bool,
    /// For each output the task wants, whether the agent said it.
    pub outputs: IndexMap<String, bool>,
    /// Parts of the task's reward that need a judge (tau2's `NL_ASSERTION`) and are not decided here.
    pub undecided: Vec<String>,
}

impl Verdict {
    /// 1 or 0; `None` where a part was left to a judge and the rest is right: right so far is not right.
    pub fn reward(&self) -> Option<f64> {
        let decided = self.state && self.outputs.values().all(|said| *said);
        match (decided, self.undecided.is_empty()) {
            (false, _) => Some(0.0),
            (true, true) => Some(1.0),
            (true, false) => None,
        }
    }
}

/// Judges an episode: its desk at the end, and everything the agent said to the user.
pub fn judge(desk: &Desk, task: &Task, replies: &[impl AsRef<str>]) -> Verdict {
    let basis = basis(task);
    let wants = |part: &str| basis.iter().any(|own| own == part);
    let reference = task.reference.as_deref().unwrap_or_default();
    let state = !wants("DB") || desk.world().same_state(reference_end(desk, reference).world());
    // tau2's tasks may list what to communicate without making it part of the reward.
    let outputs = if wants("COMMUNICATE") { task.outputs.as_slice() } else { &[] };
    let outputs = outputs.iter().map(|output| (output.clone(), is_said(output, replies))).collect();
    let has_assertions = assertions(task).is_some_and(|assertions| !assertions.is_empty());
    let judged = |part: &&String| !["DB", "COMMUNICATE"].contains(&part.as_str());
    let open = |part: &String| part != "NL_ASSERTION" || has_assertions;
    let undecided = basis.iter().filter(judged).filter(|part| open(part)).cloned().collect();
    Verdict { state, outputs, undecided }
}

/// Reward basis: by default the database and the agent's statements.
fn basis(task: &Task) -> Vec<String> {
    let named = task.verifier.as_ref().and_then(|verifier| verifier.get("basis")?.as_array().cloned());
    match named {
        Some(parts) => parts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec!["DB".into(), "COMMUNICATE".into()],
    }
}

fn assertions(task: &Task) -> Option<&Vec<Value>> {
    task.verifier.as_ref()?.get("nl_assertions")?.as_array()
}

/// A fresh desk after the reference's calls. Calls that end the episode are left out, and errors are silent, as upstream
/// has it.
pub(crate) fn reference_end(desk: &Desk, reference: &[ToolCall]) -> Desk {
    let mut fresh = desk.domain().open();
    for call in reference.iter().filter(|call| call.name != TRANSFER || desk.domain().profile == Profile::Tau2) {
        // A call that breaks upstream's environment changes nothing here either.
        let _ = fresh.call(call);
    }
    fresh
}

/// True when some reply contains the output: case ignored, commas taken out of the reply but not of the output.
pub fn is_said(output: &str, replies: &[impl AsRef<str>]) -> bool {
    let wanted = output.to_lowercase();
    replies.iter().any(|reply| reply.as_ref().to_lowercase().replace(',', "").contains(&wanted))
}

/// The end of an episode as the reward components read it.
pub fn facts(desk: &Desk, task: &Task, verdict: &Verdict) -> Map<String, Value> {
    let reference = task.reference.as_deref().unwrap_or_default();
    let wanted = changes(reference_end(desk, reference).world());
    let writes: Vec<_> = desk.domain().writes().collect();
    let mut facts = Map::new();
    facts.insert("db_match".into(), verdict.state.into());
    facts.insert("outputs_said".into(), json!(verdict.outputs));
    facts.insert("changes".into(), json!({ "made": changes(desk.world()), "wanted": wanted }));
    facts.insert("reference_calls".into(), json!(reference));
    facts.insert("writes".into(), json!(writes));
    let judged = verdict.undecided.iter().any(|part| part == "NL_ASSERTION");
    facts.insert("assertions".into(), json!(assertions(task).filter(|_| judged).cloned().unwrap_or_default()));
    if !verdict.undecided.is_empty() {
        facts.insert("undecided".into(), json!(verdict.undecided));
    }
    facts
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
    // NaN and infinities, which JSON has not, become null: they were never wanted.
    let record = serde_json::from_str(&py::json::dumps(record)).unwrap_or_default();
    if let Value::Object(records) = tables.entry(table).or_insert_with(|| Value::Object(Map::new())) {
        records.insert(key.to_owned(), record);
    }
}
