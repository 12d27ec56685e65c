//! The shop's tools: their effects, and their code names and descriptions in one episode.
//!
//! A tool's name says nothing: every task has its own code names, descriptions and order, so that reading the schemas
//! is the only way to know which tool does what.

use hone_trace::{DuplicateTool, Seed, ToolCall, ToolSet, ToolSpec};
use serde_json::{Map, Value, json};

use super::words::{Vocabulary, Words, one_of};

/// One of the eight things the desk can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    FindCustomer,
    FindOrder,
    GetOrder,
    FindVariant,
    CancelOrder,
    ReturnItem,
    ExchangeItem,
    ChangeCity,
}

impl Tool {
    pub const ALL: [Self; 8] = [
        Self::FindCustomer,
        Self::FindOrder,
        Self::GetOrder,
        Self::FindVariant,
        Self::CancelOrder,
        Self::ReturnItem,
        Self::ExchangeItem,
        Self::ChangeCity,
    ];

    /// Tools that change the shop.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::CancelOrder | Self::ReturnItem | Self::ExchangeItem | Self::ChangeCity)
    }

    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::FindCustomer => &["name"],
            Self::FindOrder => &["customer", "item"],
            Self::GetOrder | Self::CancelOrder => &["order"],
            Self::FindVariant => &["item", "colour"],
            Self::ReturnItem => &["order", "item"],
            Self::ExchangeItem => &["order", "item", "variant"],
            Self::ChangeCity => &["order", "city"],
        }
    }

    /// Descriptions it may have.
    fn descriptions(self) -> &'static [&'static str] {
        match self {
            Self::FindCustomer => {
                &["Find a customer by name", "Look up a customer by name", "Get the id of a customer"]
            }
            Self::FindOrder => {
                &["Find the order with an item", "Look up the order with an item", "Get the id of an order"]
            }
            Self::GetOrder => {
                &["Show the status of an order", "Look up the status of an order", "Tell if an order was delivered"]
            }
            Self::FindVariant => {
                &["Find a variant by colour", "Look up a variant by colour", "Get the id of a variant"]
            }
            Self::CancelOrder => {
                &["Cancel an order before delivery", "Stop an order before delivery", "Call off a pending order"]
            }
            Self::ReturnItem => {
                &["Return an item after delivery", "Take back an item after delivery", "Give back a delivered item"]
            }
            Self::ExchangeItem => &[
                "Exchange an item for another variant",
                "Swap an item for another variant",
                "Replace an item by another variant",
            ],
            Self::ChangeCity => {
                &["Send an order to another city", "Ship an order to another city", "Change the city of an order"]
            }
        }
    }

    /// The tool a description belongs to.
    pub(super) fn described(description: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.descriptions().contains(&description))
    }
}

/// The tools of one task, in the order in which they are offered.
#[derive(Debug, Clone)]
pub struct Kit(Vec<Entry>);

#[derive(Debug, Clone)]
struct Entry {
    tool: Tool,
    name: String,
    description: &'static str,
}

impl Kit {
    /// The kit of a task's seed.
    pub fn new(seed: u64, vocabulary: Vocabulary) -> Self {
        let mut rng = Seed::root(seed).with("shop tools").rng();
        let mut tools = Tool::ALL;
        rng.shuffle(&mut tools);
        let descriptions = tools.map(|tool| one_of(&mut rng, tool.descriptions()));
        let names = Words::new(vocabulary, &mut rng).codes(tools.len());
        let entries = tools.into_iter().zip(descriptions).zip(names);
        Self(entries.map(|((tool, description), name)| Entry { tool, name, description }).collect())
    }

    /// The tools as the agent is offered them.
    pub fn specs(&self) -> Result<ToolSet, DuplicateTool> {
        let spec = |entry: &Entry| {
            let parameters = entry.tool.parameters();
            let properties: Map<String, Value> =
                parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
            let schema = json!({"type": "object", "properties": properties, "required": parameters});
            ToolSpec::new(&entry.name, entry.description, schema)
        };
        ToolSet::new(self.0.iter().map(spec).collect())
    }

    /// The tool behind a name.
    pub fn tool(&self, name: &str) -> Option<Tool> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| entry.tool)
    }

    /// Names of the tools that change the shop.
    pub(super) fn writes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|entry| entry.tool.writes()).map(|entry| entry.name.as_str())
    }

    /// A call of a tool under the name it has here, with its arguments in the order of its parameters.
    pub(super) fn call(&self, tool: Tool, arguments: &[&str]) -> ToolCall {
        let name = self.0.iter().find(|entry| entry.tool == tool).map_or("", |entry| entry.name.as_str());
        call(name, tool, arguments)
    }
}

/// A call of a tool by a name, with its arguments in the order of its parameters.
pub(super) fn call(name: &str, tool: Tool, arguments: &[&str]) -> ToolCall {
    let pairs = tool.parameters().iter().zip(arguments);
    ToolCall::new(name, pairs.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect())
}
