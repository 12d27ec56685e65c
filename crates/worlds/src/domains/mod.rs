//! The built-in customer-service domains: retail and airline, as tau-bench and tau2-bench define them, and tau2's telecom.
//!
//! A [`Domain`] is the shared part (data, tools, policy text); a [`Desk`] is one episode of it: a view of the data that
//! tool calls read and write. A desk's answers depend on the [`Profile`]. Conversation, users and scoring live
//! elsewhere: a desk knows tool calls and states.

mod actions;
mod baselines;
mod calculate;
mod canon;
mod dates;
pub mod generate;
pub mod grade;
mod initial;
mod load;
mod options;
mod prompt;
pub mod py;
pub mod replay;
mod schema;
pub mod service;
pub mod tasks;
mod tau2;
mod tool;
pub mod verdict;
mod world;

mod airline;
mod retail;

use std::path::Path;
use std::sync::Arc;

use hone_trace::{Digest, DuplicateTool, ToolCall, ToolSet};
use serde::{Deserialize, Serialize};

use canon::Form;
use py::Dict;
use schema::Spec;
use tool::{Answer, Failure, Rules, Tool};

use world::{Base, TableId, World};

pub use load::LoadError;
pub(crate) use options::{AIRLINE, RETAIL, StrategySpec, TELECOM};
pub use options::{ServiceSpec, UserSpec};
use tau2::telecom::{self, Phone};

/// Kind of domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Retail,
    Airline,
    /// tau2's telecom: agent and user each have tools.
    Telecom,
}

/// Requestor of a call: agent or user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requestor {
    #[default]
    Assistant,
    User,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Retail => "retail",
            Self::Airline => "airline",
            Self::Telecom => "telecom",
        }
    }

    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Retail => &retail::TABLES,
            Self::Airline => &airline::TABLES,
            Self::Telecom => &telecom::TABLES,
        }
    }

    /// The table of the customers.
    fn users(self) -> TableId {
        match self {
            Self::Retail => retail::USERS,
            Self::Airline => airline::USERS,
            Self::Telecom => telecom::CUSTOMERS,
        }
    }

    fn specs(self) -> &'static [Spec] {
        match self {
            Self::Retail => &retail::SPECS,
            Self::Airline => &airline::SPECS,
            Self::Telecom => &telecom::spec::AGENT,
        }
    }

    /// The tools of tau-bench v1, which has no telecom.
    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Retail => &retail::TOOLS,
            Self::Airline => &airline::TOOLS,
            Self::Telecom => &[],
        }
    }
}

/// Behaviour profile of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// tau-bench v1, byte for byte.
    Compat,
    /// Arguments checked against the schema, numbers by value, known faults fixed, work bounded.
    Strict,
    /// tau2-bench.
    Tau2,
}

impl Profile {
    /// Default profile of a data directory: tau2 for tau2-bench's, otherwise `otherwise`.
    pub fn of(directory: &Path, otherwise: Self) -> Self {
        if load::is_tau2(directory) { Self::Tau2 } else { otherwise }
    }

    fn form(self, kind: Kind) -> Form {
        match (self, kind) {
            (_, Kind::Telecom) => Form::SortedLists,
            (Self::Compat, _) => Form::Tuples,
            (Self::Strict, _) => Form::ByValue,
            (Self::Tau2, _) => Form::SortedJson,
        }
    }
}

/// The tool that hands the user over and ends the episode.
pub const TRANSFER: &str = "transfer_to_human_agents";

/// A domain: data, profile, tools. Shared by all its episodes.
#[derive(Debug)]
pub struct Domain {
    pub kind: Kind,
    pub profile: Profile,
    /// True if the agent also has the user's tools and nobody to talk to (tau2's solo mode).
    pub solo: bool,
    base: Arc<Base>,
    /// The user's own database, if the user has tools.
    phone: Option<Arc<Base>>,
}

impl Domain {
    /// Reads the domain's own directory: `users.json`, `orders.json`, `products.json`, or the airline's tables. tau2 has
    /// all of them in one `db.json`, telecom's in `db.toml` and `user_db.toml`.
    pub fn load(kind: Kind, profile: Profile, directory: &Path) -> Result<Self, LoadError> {
        if kind == Kind::Telecom {
            let telecom = load::telecom(directory)?;
            return if profile == Profile::Tau2 { Ok(telecom) } else { Err(LoadError::Tau2Alone) };
        }
        let tables = load::tables(kind, directory)?;
        Self::from_tables(kind, profile, tables)
    }

    /// `tables` in alphabetical order.
    pub(crate) fn from_tables(
        kind: Kind,
        profile: Profile,
        mut tables: Vec<(&'static str, Dict)>,
    ) -> Result<Self, LoadError> {
        if profile == Profile::Tau2 {
            for (table, records) in &mut tables {
                *records = tau2::shape_table(kind, table, std::mem::take(records)).map_err(LoadError::Model)?;
            }
        }
        let base = Arc::new(Base::new(profile.form(kind), tables));
        Ok(Self { kind, profile, solo: false, base, phone: None })
    }

    /// Telecom, of two databases in their models' shapes.
    fn telecom(tables: Vec<(&'static str, Dict)>, phone: Vec<(&'static str, Dict)>) -> Self {
        let base = Arc::new(Base::new(Form::SortedLists, tables));
        let phone = Some(Arc::new(Base::new(Form::SortedJson, phone)));
        Self { kind: Kind::Telecom, profile: Profile::Tau2, solo: false, base, phone }
    }

    /// Switches to tau2's solo mode.
    #[must_use]
    pub fn solo(&self) -> Self {
        Self { kind: self.kind, profile: self.profile, solo: true, base: self.base.clone(), phone: self.phone.clone() }
    }

    /// The tools as the agent sees them, in our own words.
    pub fn tools(&self) -> Result<ToolSet, DuplicateTool> {
        let own = self.kind.specs().iter();
        let specs: Vec<&Spec> = match self.profile {
            Profile::Tau2 => own.filter(|spec| spec.name != "think").chain(tau2::new_tool(self.kind)).collect(),
            Profile::Compat | Profile::Strict => own.collect(),
        };
        ToolSet::new(specs.into_iter().map(Spec::tool_spec).collect())
    }

    /// The user's tools, in our own words; none if the user only talks.
    pub fn user_tools(&self) -> Result<ToolSet, DuplicateTool> {
        let specs: &[Spec] = if self.phone.is_some() { &telecom::spec::USER } else { &[] };
        ToolSet::new(specs.iter().map(Spec::tool_spec).collect())
    }

    /// The tools that change the state.
    pub fn writes(&self) -> Vec<&'static str> {
        const WRITES: [&str; 7] = ["book_", "cancel_", "exchange_", "modify_", "return_", "send_", "update_"];
        let names = match (self.kind, self.profile) {
            (Kind::Telecom, _) => return telecom::writes().collect(),
            (_, Profile::Tau2) => tau2::tools(self.kind),
            (_, Profile::Compat | Profile::Strict) => self.kind.tools(),
        };
        let names = names.iter().map(|tool| tool.name);
        names.filter(|name| WRITES.iter().any(|start| name.starts_with(start))).collect()
    }

    /// A fresh episode.
    pub fn open(self: &Arc<Self>) -> Desk {
        let phone = self.phone.as_ref().map(|base| Phone::new(World::open(base.clone())));
        let world = World::open(self.base.clone());
        Desk { world, phone, solo: self.solo, calls: Vec::new(), domain: self.clone() }
    }
}

/// Reply to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// True when the text is an error.
    pub failed: bool,
}

/// The environment itself broke on this call: upstream loses the episode here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment broke: {0}")]
pub struct Lost(pub &'static str);

/// One episode's tools and data.
#[derive(Debug, Clone)]
pub struct Desk {
    domain: Arc<Domain>,
    world: World,
    phone: Option<Phone>,
    /// True when the agent has the user's tools too.
    solo: bool,
    /// Calls made so far, of agent and user.
    calls: Vec<ToolCall>,
}

impl Desk {
    /// Runs a call as the model made it.
    pub fn call(&mut self, call: &ToolCall) -> Result<Reply, Lost> {
        self.call_by(Requestor::Assistant, call)
    }

    /// Runs a call by agent or user, for users with their own tools.
    pub(crate) fn call_by(&mut self, by: Requestor, call: &ToolCall) -> Result<Reply, Lost> {
        self.calls.push(call.clone());
        self.invoke_by(by, &call.name, &py::dict_from(&call.arguments))
    }

    /// Runs a call whose arguments are Python values already.
    pub fn invoke(&mut self, name: &str, arguments: &Dict) -> Result<Reply, Lost> {
        self.invoke_by(Requestor::Assistant, name, arguments)
    }

    pub fn invoke_by(&mut self, by: Requestor, name: &str, arguments: &Dict) -> Result<Reply, Lost> {
        let kind = self.domain.kind;
        let answer = match (self.domain.profile, &mut self.phone, by) {
            (_, _, Requestor::User) if self.solo => tool::refuse("User tool calls are not allowed in solo mode"),
            (_, Some(phone), by) => {
                let own = self.solo && telecom::has_tool(Requestor::User, name);
                let by = if own { Requestor::User } else { by };
                telecom::run(&mut self.world, phone, by, name, arguments)
            }
            (_, None, Requestor::User) => tool::refuse("User tools not available"),
            (Profile::Tau2, None, Requestor::Assistant) => tau2::run(kind, &mut self.world, name, arguments),
            (Profile::Compat | Profile::Strict, None, Requestor::Assistant) => {
                let Some(tool) = kind.tools().iter().find(|tool| tool.name == name) else {
                    return Ok(Reply { text: format!("Unknown action {name}"), failed: true });
                };
                self.run(tool, arguments)
            }
        };
        match answer {
            Ok(text) => Ok(Reply { text, failed: false }),
            Err(Failure::Error(what)) => Ok(Reply { text: format!("Error: {what}"), failed: true }),
            Err(Failure::Lost(why)) => Err(Lost(why)),
        }
    }

    fn run(&mut self, tool: &Tool, arguments: &Dict) -> Answer {
        if self.domain.profile == Profile::Compat {
            tool::bind_invoke(self.domain.kind.name(), tool, arguments)?;
            return (tool.run)(&mut self.world, arguments, Rules::Compat);
        }
        let spec = self.domain.kind.specs().iter().find(|spec| spec.name == tool.name);
        let checked = match spec {
            Some(spec) => spec.check(arguments).map_err(Failure::Error)?,
            None => arguments.clone(),
        };
        // A refused call leaves nothing behind.
        let before = self.world.clone();
        (tool.run)(&mut self.world, &checked, Rules::Strict).inspect_err(|_| self.world = before)
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Runs a call of a reference, which upstream makes without synchronising the two databases.
    fn refer(&mut self, by: Requestor, call: &ToolCall) {
        let arguments = py::dict_from(&call.arguments);
        // Errors are silent, and a call that breaks upstream's environment changes nothing here either.
        match &mut self.phone {
            Some(phone) => drop(telecom::call(&mut self.world, phone, by, &call.name, &arguments)),
            None => drop(self.invoke_by(by, &call.name, &arguments)),
        }
    }

    /// True when a call of this name may change the state.
    fn is_write(&self, name: &str) -> bool {
        self.domain.writes().contains(&name)
    }

    /// The byte-exact hash of the state, as the profile defines it.
    pub fn state_hash(&self) -> Digest {
        self.world.state_hash()
    }

    /// Hash of the user's own database, if there is one.
    pub fn user_state_hash(&self) -> Option<Digest> {
        self.phone.as_ref().map(|phone| phone.world.state_hash())
    }

    /// True when both episodes, opened on one domain, ended in the same state.
    pub fn same_state(&self, other: &Self) -> bool {
        let phones = self.phone.iter().zip(&other.phone).all(|(a, b)| a.world.same_state(&b.world));
        self.world.same_state(&other.world) && phones
    }

    /// Calls made so far, of agent and user.
    pub fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// The states of the episode: the domain's, and the user's own.
    pub fn worlds(&self) -> impl Iterator<Item = &World> {
        std::iter::once(&self.world).chain(self.phone.iter().map(|phone| &phone.world))
    }
}
