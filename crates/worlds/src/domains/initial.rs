//! Initial state of a tau2 task: data merged into the databases, functions run on them, and an earlier conversation.

use std::sync::Arc;

use hone_arena::users::UserTurn;
use hone_trace::{Message, Task, ToolCall};
use serde_json::Value;

use super::py::{self, Dict};
use super::tau2::{self, telecom};
use super::tool::Failure;
use super::world::TableId;
use super::{Desk, Domain, Kind, Profile, Requestor};

/// The beginning of an episode.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) desk: Desk,
    pub(super) history: History,
}

/// A conversation before the episode.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Messages that the agent has seen.
    pub(super) messages: Vec<Message>,
    /// Texts of the agent.
    pub(super) replies: Vec<String>,
    /// The agent's last text, if the user answers it next.
    pub(super) to_user: Option<String>,
}

impl Domain {
    /// A fresh episode in the state in which the task begins, or the reason why it cannot be opened.
    pub(super) fn begin(self: &Arc<Self>, task: &Task) -> Result<Beginning, String> {
        let mut desk = self.open();
        let state = task.extra.get("initial_state").filter(|state| !state.is_null());
        let Some(state) = state.filter(|_| self.profile == Profile::Tau2) else {
            return Ok(Beginning { desk, history: History::default() });
        };
        let part = |name: &str| state.get(name).filter(|value| !value.is_null());
        if let Some(data) = part("initialization_data") {
            desk.lay_over(data).map_err(|what| format!("initialization_data: {what}"))?;
        }
        for (at, action) in part("initialization_actions").and_then(Value::as_array).into_iter().flatten().enumerate() {
            desk.run_function(action).map_err(|what| format!("initialization_actions, entry {at}: {what}"))?;
        }
        let messages = part("message_history").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let history = desk.relive(messages).map_err(|what| format!("message_history: {what}"))?;
        Ok(Beginning { desk, history })
    }
}

/// A function of a toolkit as tasks name it: `{env_type, func_name, arguments}`.
pub(super) struct Named {
    pub(super) of: Requestor,
    pub(super) name: String,
    arguments: Dict,
}

impl Named {
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let of = match value.get("env_type").and_then(Value::as_str) {
            Some("assistant") => Requestor::Assistant,
            Some("user") => Requestor::User,
            _ => return Err("its env_type is neither assistant nor user".into()),
        };
        let name = value.get("func_name").and_then(Value::as_str).ok_or("it has no func_name")?.to_owned();
        let arguments = value.get("arguments").and_then(Value::as_object).map(py::dict_from).unwrap_or_default();
        Ok(Self { of, name, arguments })
    }

    /// Refuses a function that the domain does not have.
    pub(super) fn check(&self, kind: Kind) -> Result<(), String> {
        let known = match (kind, self.of) {
            (Kind::Telecom, of) => telecom::has_function(of, &self.name),
            (_, Requestor::Assistant) => tau2::tools(kind).iter().any(|tool| tool.name == self.name),
            (_, Requestor::User) => return Err(format!("{} has no tools for users", kind.name())),
        };
        let whose = if self.of == Requestor::User { "user" } else { "agent" };
        if known { Ok(()) } else { Err(format!("{}'s {whose} has no function {}", kind.name(), self.name)) }
    }
}

impl Desk {
    /// Runs a function of the agent's or the user's toolkit, tool or not: tasks use them to set up scenarios and to
    /// assert on the end state.
    pub fn scenario(&mut self, of: Requestor, name: &str, arguments: Dict) -> Result<py::Value, String> {
        self.function(&Named { of, name: name.to_owned(), arguments })
    }

    /// Runs a function that sets up the scenario.
    fn run_function(&mut self, action: &Value) -> Result<(), String> {
        let named = Named::read(action)?;
        named.check(self.domain.kind)?;
        self.function(&named).map(drop).map_err(|what| format!("{} failed: {what}", named.name))
    }

    /// Runs a function and returns its value.
    pub(super) fn function(&mut self, named: &Named) -> Result<py::Value, String> {
        let answer = match &mut self.phone {
            Some(phone) => telecom::function(&mut self.world, phone, named.of, &named.name, &named.arguments),
            None => tau2::run(self.domain.kind, &mut self.world, &named.name, &named.arguments).map(py::Value::str),
        };
        answer.map_err(|failure| match failure {
            Failure::Error(what) => what,
            Failure::Lost(why) => why.to_owned(),
        })
    }

    /// Merges data into the databases: objects are merged, everything else is replaced, and the models check the
    /// result.
    fn lay_over(&mut self, data: &Value) -> Result<(), String> {
        let part = |name: &str| data.get(name).filter(|value| !value.is_null()).map(py::Value::from);
        if let Some(agent) = part("agent_data") {
            for (name, value) in agent.as_dict().ok_or("agent_data is not an object")? {
                let tables = self.domain.kind.tables();
                let at = tables.iter().position(|table| **table == **name);
                let at = at.ok_or_else(|| format!("agent_data: no table {name:?}; it has {}", tables.join(", ")))?;
                let shaped = self.merged_table(TableId(at), tables[at], value)?;
                shaped.into_iter().for_each(|(key, record)| self.world.put(TableId(at), &key, record));
            }
        }
        if let Some(user) = part("user_data") {
            let name = self.domain.kind.name();
            let phone = self.phone.as_mut().ok_or_else(|| format!("user_data: {name}'s user has no database"))?;
            for (name, value) in user.as_dict().ok_or("user_data is not an object")? {
                let at = telecom::PHONE_TABLES.iter().position(|table| **table == **name);
                let at = at.ok_or_else(|| format!("user_data: no table {name:?}"))?;
                let old = py::Value::dict(phone.world.records(TableId(at)).map(|(k, v)| (k.clone(), v.clone())));
                let shaped = telecom::shape_phone(name, &merge(&old, value))?;
                shaped.into_iter().for_each(|(key, field)| phone.world.put(TableId(at), &key, field));
            }
        }
        match &mut self.phone {
            Some(phone) => telecom::sync(&mut self.world, phone).map_err(|failure| format!("{failure:?}")),
            None => Ok(()),
        }
    }

    /// The records of a table that data changes, merged and shaped.
    fn merged_table(&self, table: TableId, name: &str, value: &py::Value) -> Result<Dict, String> {
        if self.domain.kind == Kind::Telecom {
            let shaped = telecom::shape_list(name, value)?;
            let before = self.world.records(table).count();
            // The store cannot remove a record.
            return if shaped.len() < before {
                Err(format!("agent_data: {name} has fewer entries than the {before} of the database"))
            } else {
                Ok(shaped)
            };
        }
        let records = value.as_dict().ok_or_else(|| format!("agent_data: {name} is not an object"))?;
        let merged = records.iter().map(|(key, record)| {
            let old = self.world.get(table, key);
            (key.clone(), old.map_or_else(|| record.clone(), |old| merge(old, record)))
        });
        tau2::shape_table(self.domain.kind, name, merged.collect())
    }

    /// Plays a recorded conversation back: calls that change the state are made again and must answer as they did.
    fn relive(&mut self, messages: &[Value]) -> Result<History, String> {
        let mut history = History::default();
        let mut rest = messages.iter().enumerate();
        while let Some((at, message)) = rest.next() {
            let said = Said::read(message).map_err(|what| format!("message {at}: {what}"))?;
            if said.by == Requestor::User && self.domain.solo {
                return Err(format!("message {at}: a user speaks, and nobody does in solo mode"));
            }
            let mut answers = Vec::new();
            for call in &said.calls {
                let (at, answer) = rest.next().ok_or("it ends before a call is answered")?;
                let answer = answered(answer, call).map_err(|what| format!("message {at}: {what}"))?;
                self.repeat(said.by, call, answer).map_err(|what| format!("message {at}: {what}"))?;
                answers.push(Message::Tool {
                    content: answer.into(),
                    name: Some(call.name.clone()),
                    tool_call_id: call.id.clone(),
                });
            }
            history.add(said, answers);
        }
        match (messages.last().and_then(|last| last.get("role")?.as_str()), history.to_user.is_some()) {
            (Some("tool"), true) => Err("it ends with a tool of the user's".into()),
            _ => Ok(history),
        }
    }

    fn repeat(&mut self, by: Requestor, call: &ToolCall, recorded: &str) -> Result<(), String> {
        if !self.is_write(&call.name) {
            self.calls.push(call.clone());
            return Ok(());
        }
        let reply = self.call_by(by, call).map_err(|lost| lost.to_string())?;
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
        if read(&reply.text) == read(recorded) {
            return Ok(());
        }
        Err(format!("{} answers {:?} here, and {recorded:?} there", call.name, reply.text))
    }
}

/// One message of a recorded conversation.
struct Said {
    by: Requestor,
    text: Option<String>,
    calls: Vec<ToolCall>,
}

impl Said {
    fn read(message: &Value) -> Result<Self, String> {
        let by = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => Requestor::Assistant,
            Some("user") => Requestor::User,
            Some("tool") => return Err("a tool answers that nobody called".into()),
            _ => return Err("its role is neither assistant, user nor tool".into()),
        };
        let text = message.get("content").and_then(Value::as_str).map(str::to_owned);
        let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        let calls = calls.map(|call| serde_json::from_value(call.clone()).map_err(|error| error.to_string()));
        Ok(Self { by, text, calls: calls.collect::<Result<_, _>>()? })
    }
}

impl History {
    fn add(&mut self, said: Said, answers: Vec<Message>) {
        match said.by {
            Requestor::Assistant => {
                self.replies.extend(said.text.clone().filter(|text| !text.trim().is_empty()));
                self.to_user = said.text.clone().filter(|_| said.calls.is_empty());
                let content = said.text.map(Into::into);
                self.messages.push(Message::Assistant { content, reasoning: None, tool_calls: said.calls });
                self.messages.extend(answers);
            }
            Requestor::User if said.calls.is_empty() => {
                self.to_user = None;
                self.messages.push(Message::user(UserTurn::read(&said.text.unwrap_or_default()).text));
            }
            // The agent does not see the user's tool calls.
            Requestor::User => {}
        }
    }
}

/// The recorded answer to a call.
fn answered<'a>(message: &'a Value, call: &ToolCall) -> Result<&'a str, String> {
    if message.get("role").and_then(Value::as_str) != Some("tool") {
        return Err(format!("no answer to the call to {}", call.name));
    }
    let id = message.get("id").or_else(|| message.get("tool_call_id")).and_then(Value::as_str);
    if id.unwrap_or_default() != call.id.as_deref().unwrap_or_default() {
        return Err(format!("an answer to another call than that to {}", call.name));
    }
    Ok(message.get("content").and_then(Value::as_str).unwrap_or_default())
}

/// Objects are merged key by key, everything else is replaced.
fn merge(old: &py::Value, new: &py::Value) -> py::Value {
    match (old, new) {
        (py::Value::Dict(old), py::Value::Dict(new)) => {
            let mut merged = Dict::clone(old);
            for (key, value) in new.iter() {
                let value = merged.get(key).map_or_else(|| value.clone(), |old| merge(old, value));
                merged.insert(key.clone(), value);
            }
            py::Value::dict(merged)
        }
        _ => new.clone(),
    }
}
