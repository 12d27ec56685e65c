//! The shop's tools: what they are called, what they take, what they do to a world.

use hone_trace::{DuplicateTool, ToolCall, ToolSet, ToolSpec};
use serde_json::{Value, json};

use super::world::{Status, World};

/// Tools that change the world.
pub(super) const WRITES: [&str; 4] = ["cancel_order", "return_item", "exchange_item", "change_city"];

/// Name, description, parameters.
const TOOLS: [(&str, &str, &[&str]); 8] = [
    ("find_customer", "Find a customer by name", &["name"]),
    ("find_order", "Find a customer's order with an item", &["customer", "item"]),
    ("get_order", "Show city and items of an order", &["order"]),
    ("find_colours", "Show the colours of an item", &["item"]),
    ("cancel_order", "Cancel a pending order", &["order"]),
    ("return_item", "Return an item of a delivered order", &["order", "item"]),
    ("exchange_item", "Exchange an item for another variant", &["order", "item", "variant"]),
    ("change_city", "Send a pending order to another city", &["order", "city"]),
];

/// The tools as the agent is offered them.
pub fn tools() -> Result<ToolSet, DuplicateTool> {
    let spec = |(name, description, parameters): &(&str, &str, &[&str])| {
        let properties: serde_json::Map<String, Value> =
            parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        ToolSpec::new(*name, *description, json!({"type": "object", "properties": properties, "required": parameters}))
    };
    ToolSet::new(TOOLS.iter().map(spec).collect())
}

/// Runs a call. An error is for the agent to read; it changes nothing.
pub(super) fn run(world: &mut World, call: &ToolCall) -> Result<Value, String> {
    let argument = |name: &str| match call.arguments.get(name) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("{name} must be a string")),
        None => Err(format!("{name} is missing")),
    };
    match call.name.as_str() {
        "find_customer" => find_customer(world, argument("name")?),
        "find_order" => find_order(world, argument("customer")?, argument("item")?),
        "get_order" => get_order(world, argument("order")?),
        "find_colours" => find_colours(world, argument("item")?),
        "cancel_order" => {
            let order = pending(world, argument("order")?)?;
            order.status = Status::Cancelled;
            Ok(json!("cancelled"))
        }
        "change_city" => {
            let city = argument("city")?.to_owned();
            pending(world, argument("order")?)?.city = city;
            Ok(json!("changed"))
        }
        "return_item" => {
            item(world, argument("order")?, argument("item")?, Status::Delivered)?.returned = true;
            Ok(json!("returned"))
        }
        "exchange_item" => exchange_item(world, argument("order")?, argument("item")?, argument("variant")?),
        other => Err(format!("there is no tool {other:?}")),
    }
}

fn find_customer(world: &World, name: &str) -> Result<Value, String> {
    let found = world.customers.iter().find(|(_, customer)| customer.name == name);
    found.map(|(id, _)| json!({"customer": id})).ok_or_else(|| "no such customer".into())
}

fn find_order(world: &World, customer: &str, item: &str) -> Result<Value, String> {
    let customer = world.customers.get(customer).ok_or("no such customer")?;
    let orders = customer.orders.iter().filter_map(|id| Some((id, world.orders.get(id)?)));
    let found = orders.into_iter().find(|(_, order)| order.items.contains_key(item));
    found.map(|(id, order)| json!({"order": id, "status": order.status})).ok_or_else(|| "no such order".into())
}

fn get_order(world: &World, id: &str) -> Result<Value, String> {
    let order = world.orders.get(id).ok_or("no such order")?;
    let items = order.items.iter().map(|(name, item)| json!({"item": name, "colour": item.colour}));
    Ok(json!({"city": order.city, "items": items.collect::<Vec<_>>()}))
}

fn find_colours(world: &World, item: &str) -> Result<Value, String> {
    world.products.get(item).map(|product| json!(product.colours)).ok_or_else(|| "no such item".into())
}

fn exchange_item(world: &mut World, order: &str, name: &str, variant: &str) -> Result<Value, String> {
    let colours = world.products.get(name).map(|product| &product.colours);
    let colour = colours.and_then(|colours| colours.iter().find(|(_, id)| *id == variant)).map(|(colour, _)| colour);
    let colour = colour.ok_or("no such variant of this item")?.clone();
    item(world, order, name, Status::Delivered)?.colour = colour;
    Ok(json!("exchanged"))
}

fn pending<'a>(world: &'a mut World, order: &str) -> Result<&'a mut super::world::Order, String> {
    let order = world.orders.get_mut(order).ok_or("no such order")?;
    if order.status == Status::Pending { Ok(order) } else { Err("the order is not pending".into()) }
}

fn item<'a>(
    world: &'a mut World,
    order: &str,
    item: &str,
    status: Status,
) -> Result<&'a mut super::world::Item, String> {
    let order = world.orders.get_mut(order).ok_or("no such order")?;
    if order.status != status {
        return Err("the order was not delivered".into());
    }
    order.items.get_mut(item).filter(|item| !item.returned).ok_or_else(|| "no such item in this order".into())
}
