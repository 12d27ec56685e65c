//! The desk: the shop as seen by the tools, including what can go wrong.

use hone_trace::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tools::{Kit, Tool};
use super::world::{Item, Order, Status, World};

/// Unavoidable error along the way: the agent can only overcome it by carrying on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Snag {
    /// The first write to this order is answered with "busy".
    Busy { order: String },
    /// The order is found under an id it no longer has; a call that uses it is told the current id.
    Moved { order: String, formerly: String },
}

/// A shop with its tools.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) world: World,
    kit: Kit,
    snag: Option<Snag>,
}

impl Desk {
    pub(super) fn new(world: World, kit: Kit, snag: Option<Snag>) -> Self {
        Self { world, kit, snag }
    }

    /// Runs a call. An error goes to the agent; it changes nothing in the shop.
    pub(super) fn run(&mut self, call: &ToolCall) -> Result<Value, String> {
        let tool = self.kit.tool(&call.name).ok_or_else(|| format!("there is no tool {:?}", call.name))?;
        let argument = |name: &str| match call.arguments.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(format!("{name} must be a string")),
            None => Err(format!("{name} is missing")),
        };
        match tool {
            Tool::FindCustomer => self.find_customer(argument("name")?),
            Tool::FindOrder => self.find_order(argument("customer")?, argument("item")?),
            Tool::GetOrder => self.order(argument("order")?).map(|order| json!({"status": order.status})),
            Tool::FindVariant => self.find_variant(argument("item")?, argument("colour")?),
            Tool::CancelOrder => {
                self.write(argument("order")?)?.status = Status::Cancelled;
                Ok(json!("cancelled"))
            }
            Tool::ReturnItem => {
                let name = argument("item")?;
                item(self.order(argument("order")?)?, name)?;
                item_mut(self.write(argument("order")?)?, name)?.returned = true;
                Ok(json!("returned"))
            }
            Tool::ExchangeItem => self.exchange(argument("order")?, argument("item")?, argument("variant")?),
            Tool::ChangeCity => {
                let city = argument("city")?;
                if !self.world.cities.contains(city) {
                    return Err("no such city".into());
                }
                city.clone_into(&mut self.write(argument("order")?)?.city);
                Ok(json!("changed"))
            }
        }
    }

    fn find_customer(&self, name: &str) -> Result<Value, String> {
        let found = self.world.customers.iter().find(|(_, customer)| customer.name == name);
        found.map(|(id, _)| json!({"customer": id})).ok_or_else(|| "no such customer".into())
    }

    fn find_order(&self, customer: &str, item: &str) -> Result<Value, String> {
        let customer = self.world.customers.get(customer).ok_or("no such customer")?;
        let has = |id: &&String| self.world.orders.get(*id).is_some_and(|order| order.items.contains_key(item));
        let found = customer.orders.iter().find(has).ok_or("no such order")?;
        Ok(json!({"order": self.listed(found)}))
    }

    fn find_variant(&self, item: &str, colour: &str) -> Result<Value, String> {
        let product = self.world.products.get(item).ok_or("no such item")?;
        product.colours.get(colour).map(|id| json!({"variant": id})).ok_or_else(|| "no such colour".into())
    }

    fn exchange(&mut self, order: &str, name: &str, variant: &str) -> Result<Value, String> {
        item(self.order(order)?, name)?;
        let colours = self.world.products.get(name).map(|product| &product.colours);
        let wanted = colours.and_then(|colours| colours.iter().find(|(_, id)| *id == variant));
        let colour = wanted.ok_or("no such variant of this item")?.0.clone();
        item_mut(self.write(order)?, name)?.colour = colour;
        Ok(json!("exchanged"))
    }

    /// The id an order is found under.
    pub(super) fn listed<'a>(&'a self, id: &'a str) -> &'a str {
        match &self.snag {
            Some(Snag::Moved { order, formerly }) if order == id => formerly,
            _ => id,
        }
    }

    fn order(&self, id: &str) -> Result<&Order, String> {
        match &self.snag {
            Some(Snag::Moved { order, formerly }) if formerly == id => Err(format!("order {id} is now {order}")),
            _ => self.world.orders.get(id).ok_or_else(|| "no such order".into()),
        }
    }

    /// An order to change.
    fn write(&mut self, id: &str) -> Result<&mut Order, String> {
        self.order(id)?;
        if self.snag == Some(Snag::Busy { order: id.to_owned() }) {
            self.snag = None;
            return Err("busy, try again".into());
        }
        self.world.orders.get_mut(id).ok_or_else(|| "no such order".into())
    }
}

fn item<'a>(order: &'a Order, name: &str) -> Result<&'a Item, String> {
    order.items.get(name).ok_or_else(|| "no such item in this order".into())
}

fn item_mut<'a>(order: &'a mut Order, name: &str) -> Result<&'a mut Item, String> {
    order.items.get_mut(name).ok_or_else(|| "no such item in this order".into())
}
