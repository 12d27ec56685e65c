//! The built-in customer-service domains: retail and airline, as tau-bench and tau2-bench define them.
//!
//! A [`Domain`] is the shared part (data, tools, policy text); a [`Desk`] is one episode at it: a view of the data that
//! tool calls read and write. What a desk answers depends on the [`Profile`]. Conversation, users and scoring live
//! elsewhere: a desk knows tool calls and states.

pub mod baselines;
pub mod calculate;
pub mod canon;
mod dates;
pub mod generate;
pub mod grade;
mod load;
mod options;
pub mod py;
pub mod replay;
pub mod schema;
pub mod service;
pub mod tasks;
mod tau2;
pub mod tool;
pub mod verdict;
pub mod world;

pub mod airline;
pub mod retail;

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
pub(crate) use options::{AIRLINE, RETAIL, StrategySpec};
pub use options::{ServiceSpec, UserSpec};

/// Which of the two worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Retail,
    Airline,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Retail => "retail",
            Self::Airline => "airline",
        }
    }

    fn tables(self) -> [&'static str; 3] {
        match self {
            Self::Retail => retail::TABLES,
            Self::Airline => airline::TABLES,
        }
    }

    /// The table of the customers.
    fn users(self) -> TableId {
        match self {
            Self::Retail => retail::USERS,
            Self::Airline => airline::USERS,
        }
    }

    fn specs(self) -> &'static [Spec] {
        match self {
            Self::Retail => &retail::SPECS,
            Self::Airline => &airline::SPECS,
        }
    }

    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Retail => &retail::TOOLS,
            Self::Airline => &airline::TOOLS,
        }
    }
}

/// Whose behaviour a domain shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// tau-bench v1, byte for byte.
    Compat,
    /// Arguments checked against the schema, numbers by value, known faults mended, work bounded.
    Strict,
    /// tau2-bench.
    Tau2,
}

impl Profile {
    /// The profile of a data directory where nobody names one: tau2 for tau2-bench's, else `otherwise`.
    pub fn of(directory: &Path, otherwise: Self) -> Self {
        if load::is_tau2(directory) { Self::Tau2 } else { otherwise }
    }

    fn form(self) -> Form {
        match self {
            Self::Compat => Form::Tuples,
            Self::Strict => Form::ByValue,
            Self::Tau2 => Form::SortedJson,
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
    base: Arc<Base>,
}

impl Domain {
    /// Reads the domain's own directory: `users.json`, `orders.json`, `products.json`, or the airline's tables. tau2 has
    /// all of them in one `db.json`.
    pub fn load(kind: Kind, profile: Profile, directory: &Path) -> Result<Self, LoadError> {
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
        Ok(Self { kind, profile, base: Arc::new(Base::new(profile.form(), tables)) })
    }

    /// The tools as the agent is told of them, in our own words.
    pub fn tools(&self) -> Result<ToolSet, DuplicateTool> {
        let own = self.kind.specs().iter();
        let specs: Vec<&Spec> = match self.profile {
            Profile::Tau2 => own.filter(|spec| spec.name != "think").chain([tau2::new_tool(self.kind)]).collect(),
            Profile::Compat | Profile::Strict => own.collect(),
        };
        ToolSet::new(specs.into_iter().map(Spec::tool_spec).collect())
    }

    /// The tools that change the state.
    pub fn writes(&self) -> impl Iterator<Item = &'static str> {
        const WRITES: [&str; 7] = ["book_", "cancel_", "exchange_", "modify_", "return_", "send_", "update_"];
        let names = match self.profile {
            Profile::Tau2 => tau2::tools(self.kind),
            Profile::Compat | Profile::Strict => self.kind.tools(),
        };
        names.iter().map(|tool| tool.name).filter(|name| WRITES.iter().any(|start| name.starts_with(start)))
    }

    /// A fresh episode.
    pub fn open(self: &Arc<Self>) -> Desk {
        Desk { world: World::open(self.base.clone()), domain: self.clone() }
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
}

impl Desk {
    /// Runs a call as the model made it.
    pub fn call(&mut self, call: &ToolCall) -> Result<Reply, Lost> {
        self.invoke(&call.name, &py::dict_from(&call.arguments))
    }

    /// Runs a call whose arguments are Python values already.
    pub fn invoke(&mut self, name: &str, arguments: &Dict) -> Result<Reply, Lost> {
        let kind = self.domain.kind;
        let answer = match self.domain.profile {
            Profile::Tau2 => tau2::run(kind, &mut self.world, name, arguments),
            Profile::Compat | Profile::Strict => {
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

    /// The byte-exact hash of the state, as the profile defines it.
    pub fn state_hash(&self) -> Digest {
        self.world.state_hash()
    }
}
