//! tau2-bench's retail, airline and telecom: typed records, raised errors, and semantics that differ from v1 in small ways.
//!
//! Every record has all its fields in the model's order, absent ones as null; numbers have their field's type. Tools
//! raise, and the agent reads "Error: " and the text. Upstream's faults at the time of writing are kept: after
//! `modify_pending_order_items` with several items, all have the last one's price and options, and cancelling does not
//! release seats.

mod airline;
mod flights;
mod model;
mod retail;
mod retail_write;
mod scalars;
mod tables;
pub(super) mod telecom;

use std::sync::Arc;

use super::py::{Dict, Raised, Value, ops};
use super::schema::{Spec, Type, param};
use super::tool::{Answer, Failure, Tool, bind, refuse};
use super::world::World;
use super::{Kind, calculate};

pub(super) fn tools(kind: Kind) -> &'static [Tool] {
    match kind {
        Kind::Retail => &retail::TOOLS,
        Kind::Airline => &airline::TOOLS,
        // Its functions work on two states.
        Kind::Telecom => &[],
    }
}

/// The tool that retail and airline have in addition to v1's.
pub(super) fn new_tool(kind: Kind) -> Option<&'static Spec> {
    static ITEM: Spec = Spec {
        name: "get_item_details",
        about: "One variant of a product: options, price, availability.",
        parameters: &[param("item_id", "Item id, which is not a product id.", Type::Text)],
    };
    static STATUS: Spec = Spec {
        name: "get_flight_status",
        about: "The status of a flight on a date.",
        parameters: &[
            param("flight_number", "Flight number, such as 'HAT001'.", Type::Text),
            param("date", "Date as YYYY-MM-DD.", Type::Text),
        ],
    };
    match kind {
        Kind::Retail => Some(&ITEM),
        Kind::Airline => Some(&STATUS),
        Kind::Telecom => None,
    }
}

/// Runs a call as tau2's environment does.
pub(super) fn run(kind: Kind, world: &mut World, name: &str, arguments: &Dict) -> Answer {
    check_own_names(arguments)?;
    let Some(tool) = tools(kind).iter().find(|tool| tool.name == name) else {
        return refuse(format!("Tool '{name}' not found."));
    };
    bind(&format!("{}.{name}", toolkit(kind)), tool.parameters, arguments)?;
    (tool.run)(world, arguments, super::tool::Rules::Compat)
}

/// Upstream's name of the agent's tools, as error texts have it.
pub(super) fn toolkit(kind: Kind) -> &'static str {
    match kind {
        Kind::Retail => "RetailTools",
        Kind::Airline => "AirlineTools",
        Kind::Telecom => "TelecomTools",
    }
}

/// The agent's arguments share a Python call with the environment's own, which must not be given twice.
fn check_own_names(arguments: &Dict) -> Result<(), Failure> {
    const CALL: &str = "Environment.make_tool_call() got multiple values for";
    if arguments.contains_key("requestor") {
        return refuse(format!("tau2.environment.environment.{CALL} keyword argument 'requestor'"));
    }
    let own = arguments.keys().find(|name| ["self", "tool_name"].contains(&&***name));
    own.map_or(Ok(()), |name| refuse(format!("{CALL} argument '{name}'")))
}

/// A table's records in the shape of their model. Users of v1 data have no id in them; it is their key.
pub(super) fn shape_table(kind: Kind, table: &str, records: Dict) -> Result<Dict, String> {
    let model = match (kind, table) {
        (Kind::Retail, "orders") => &tables::ORDER,
        (Kind::Retail, "products") => &tables::PRODUCT,
        (Kind::Retail, _) => &tables::RETAIL_USER,
        (Kind::Airline, "flights") => &tables::FLIGHT,
        (Kind::Airline, "reservations") => &tables::RESERVATION,
        (Kind::Airline, _) => &tables::AIRLINE_USER,
        (Kind::Telecom, _) => return Err(format!("{table}: telecom's tables are lists")),
    };
    let shape = |(key, mut record): (Arc<str>, Value)| {
        if table == "users" && ops::field(&record, "user_id").is_err() {
            let _ = ops::set(&mut record, "user_id", Value::Str(key.clone()));
        }
        match model.shape(&record) {
            Ok(shaped) => Ok((key, shaped)),
            Err(Raised(what)) => Err(format!("{table} {key}: {what}")),
        }
    };
    records.into_iter().map(shape).collect()
}

fn calculate(_: &mut World, arguments: &Dict, rules: super::tool::Rules) -> Answer {
    if !calculate::in_alphabet(super::tool::arg(arguments, "expression"))? {
        return refuse("Invalid characters in expression");
    }
    calculate::evaluate_value(super::tool::arg(arguments, "expression"), rules)
}

/// List that upstream turns into models if all its entries are dictionaries; otherwise it is kept unchanged and fails
/// where it is used.
struct Models {
    items: Vec<Value>,
    shaped: bool,
    /// The list as passed on.
    value: Value,
}

impl Models {
    fn of(value: &Value, model: &'static model::Model) -> Result<Self, Failure> {
        let items = ops::iterate(value)?;
        if items.iter().any(|item| item.as_dict().is_none()) {
            return Ok(Self { items, shaped: false, value: value.clone() });
        }
        let items = items.iter().map(|item| model.shape(item)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { value: Value::list(items.clone()), items, shaped: true })
    }

    /// `item.name`: models have attributes, dictionaries do not.
    fn attribute<'a>(&self, item: &'a Value, name: &str) -> Result<&'a Value, Failure> {
        let field = item.as_dict().and_then(|fields| fields.get(name)).filter(|_| self.shaped);
        field.ok_or_else(|| ops::no_attribute(item, name).into())
    }
}
