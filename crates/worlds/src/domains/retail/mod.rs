//! The retail domain: orders that are pending or delivered, products with variants, users who pay.
//!
//! The tools check in tau-bench's order, because the agent reads the first failed check, and write in its order,
//! because writes before an exception are kept.

mod delivered;
mod lookup;
mod pending;
mod spec;

pub(super) use spec::SPECS;

use super::calculate;
use super::py::{Raised, Value, ops};
use super::tool::{Failure, Tool, refuse};
use super::world::{TableId, World};

pub(super) const TABLES: [&str; 3] = ["orders", "products", "users"];
pub(crate) const ORDERS: TableId = TableId(0);
pub(crate) const PRODUCTS: TableId = TableId(1);
pub(crate) const USERS: TableId = TableId(2);

const ADDRESS: [&str; 6] = ["address1", "address2", "city", "state", "country", "zip"];

/// Tools, in the order in which the model sees them.
pub(super) const TOOLS: [Tool; 16] = [
    Tool { name: "calculate", parameters: &["expression"], run: calculate::run },
    Tool { name: "cancel_pending_order", parameters: &["order_id", "reason"], run: pending::cancel },
    Tool {
        name: "exchange_delivered_order_items",
        parameters: &["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        run: delivered::exchange,
    },
    Tool { name: "find_user_id_by_email", parameters: &["email"], run: lookup::user_by_email },
    Tool {
        name: "find_user_id_by_name_zip",
        parameters: &["first_name", "last_name", "zip"],
        run: lookup::user_by_name_zip,
    },
    Tool { name: "get_order_details", parameters: &["order_id"], run: lookup::order },
    Tool { name: "get_product_details", parameters: &["product_id"], run: lookup::product },
    Tool { name: "get_user_details", parameters: &["user_id"], run: lookup::user },
    Tool { name: "list_all_product_types", parameters: &[], run: lookup::product_types },
    Tool {
        name: "modify_pending_order_address",
        parameters: &["order_id", "address1", "address2", "city", "state", "country", "zip"],
        run: pending::change_address,
    },
    Tool {
        name: "modify_pending_order_items",
        parameters: &["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        run: pending::change_items,
    },
    Tool {
        name: "modify_pending_order_payment",
        parameters: &["order_id", "payment_method_id"],
        run: pending::change_payment,
    },
    Tool {
        name: "modify_user_address",
        parameters: &["user_id", "address1", "address2", "city", "state", "country", "zip"],
        run: lookup::change_user_address,
    },
    Tool {
        name: "return_delivered_order_items",
        parameters: &["order_id", "item_ids", "payment_method_id"],
        run: delivered::give_back,
    },
    Tool { name: "think", parameters: &["thought"], run: |_, _, _| Ok(String::new()) },
    Tool {
        name: "transfer_to_human_agents",
        parameters: &["summary"],
        run: |_, _, _| Ok("Transfer successful".into()),
    },
];

/// The order with this id and status.
fn order_with_status(world: &World, id: &Value, status: &str, otherwise: &str) -> Result<Value, Failure> {
    let Some(order) = world.find(ORDERS, id)? else { return refuse("order not found") };
    if !ops::is(ops::field(order, "status")?, status) {
        return refuse(otherwise);
    }
    Ok(order.clone())
}

/// The payment method of the order's user under the id the agent gave.
fn payment_method(world: &World, order: &Value, id: &Value) -> Result<Value, Failure> {
    let methods = ops::dict_field(world.require(USERS, ops::field(order, "user_id")?)?, "payment_methods")?;
    match ops::lookup(methods, id)? {
        Some(method) => Ok(method.clone()),
        None => refuse("payment method not found"),
    }
}

/// Applies `change` to the balance of a gift card and rounds it to cents.
fn change_balance(
    world: &mut World,
    order: &Value,
    method: &Value,
    change: impl FnOnce(&Value) -> Result<Value, Raised>,
) -> Result<(), Raised> {
    let user = world.edit(USERS, ops::field(order, "user_id")?)?;
    let methods = ops::field_mut(user, "payment_methods")?;
    let Some(name) = ops::hashed(method)? else { return Err(Raised::key(method)) };
    let card = ops::field_mut(methods, name)?;
    let balance = change(ops::field(card, "balance")?)?;
    ops::set(card, "balance", super::py::num::round2(&balance))
}

/// Fails unless the order contains every id as often as requested.
fn check_items(order: &Value, item_ids: &Value, missing: impl Fn(&Value) -> String) -> Result<(), Failure> {
    let items = ops::iterate(ops::field(order, "items")?)?;
    let owned = items.iter().map(|item| ops::field(item, "item_id").cloned()).collect::<Result<Vec<_>, _>>()?;
    let owned = Value::list(owned);
    for id in ops::iterate(item_ids)? {
        if ops::count(item_ids, &id)? > ops::count(&owned, &id)? {
            return refuse(missing(&id));
        }
    }
    Ok(())
}

/// Position of the first item with this id in the order.
fn item_position(order: &Value, id: &Value) -> Result<usize, Raised> {
    let items = ops::iterate(ops::field(order, "items")?)?;
    for (at, item) in items.iter().enumerate() {
        if ops::equal(ops::field(item, "item_id")?, id) {
            return Ok(at);
        }
    }
    Err(Raised::new("list index out of range"))
}

/// Pairs of old and new item, as `zip` pairs them.
fn pairs(item_ids: &Value, new_item_ids: &Value) -> Result<Vec<(Value, Value)>, Raised> {
    Ok(ops::iterate(item_ids)?.into_iter().zip(ops::iterate(new_item_ids)?).collect())
}

/// Price difference of an exchange, unrounded: the cost of the new items minus that of the old ones.
fn price_difference(world: &World, order: &Value, item_ids: &Value, new_item_ids: &Value) -> Result<Value, Failure> {
    if ops::len(item_ids)? != ops::len(new_item_ids)? {
        return refuse("the number of items to be exchanged should match");
    }
    let mut difference = Value::Int(0);
    for (old, new) in pairs(item_ids, new_item_ids)? {
        let items = ops::iterate(ops::field(order, "items")?)?;
        let item = &items[item_position(order, &old)?];
        let variants = variants(world, item)?;
        let variant = match ops::lookup(ops::dict_field(variants, "variants")?, &new)? {
            Some(variant) if is_true(ops::field(variant, "available")?) => variant,
            _ => return refuse(format!("new item {} not found or available", super::py::text::str(&new))),
        };
        let more = super::py::num::sub("-", ops::field(variant, "price")?, ops::field(item, "price")?)?;
        difference = super::py::num::add("+=", &difference, &more)?;
    }
    Ok(difference)
}

/// The product an item is a variant of.
fn variants<'a>(world: &'a World, item: &Value) -> Result<&'a Value, Raised> {
    world.require(PRODUCTS, ops::field(item, "product_id")?)
}

fn is_true(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}
