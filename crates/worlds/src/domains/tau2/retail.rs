//! tau2's retail tools: the table, the reads, and the common part of the writes.

use super::super::py::{Dict, Value, num, ops};
use super::super::retail::{ORDERS, PRODUCTS, USERS};
use super::super::tool::{Answer, Failure, Rules, Tool, arg, refuse, show};
use super::super::world::World;
use super::{calculate, retail_write as write};

pub(super) const TOOLS: [Tool; 16] = [
    Tool { name: "calculate", parameters: &["expression"], run: calculate },
    Tool { name: "cancel_pending_order", parameters: &["order_id", "reason"], run: write::cancel },
    Tool {
        name: "exchange_delivered_order_items",
        parameters: &["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        run: write::exchange,
    },
    Tool { name: "find_user_id_by_name_zip", parameters: &["first_name", "last_name", "zip"], run: by_name_zip },
    Tool { name: "find_user_id_by_email", parameters: &["email"], run: by_email },
    Tool {
        name: "get_order_details",
        parameters: &["order_id"],
        run: |world, arguments, _| show(order(world, arg(arguments, "order_id"))?),
    },
    Tool {
        name: "get_product_details",
        parameters: &["product_id"],
        run: |world, arguments, _| show(product(world, arg(arguments, "product_id"))?),
    },
    Tool { name: "get_item_details", parameters: &["item_id"], run: item },
    Tool {
        name: "get_user_details",
        parameters: &["user_id"],
        run: |world, arguments, _| show(user(world, arg(arguments, "user_id"))?),
    },
    Tool { name: "list_all_product_types", parameters: &[], run: product_types },
    Tool {
        name: "modify_pending_order_address",
        parameters: &["order_id", "address1", "address2", "city", "state", "country", "zip"],
        run: write::change_address,
    },
    Tool {
        name: "modify_pending_order_items",
        parameters: &["order_id", "item_ids", "new_item_ids", "payment_method_id"],
        run: write::change_items,
    },
    Tool {
        name: "modify_pending_order_payment",
        parameters: &["order_id", "payment_method_id"],
        run: write::change_payment,
    },
    Tool {
        name: "modify_user_address",
        parameters: &["user_id", "address1", "address2", "city", "state", "country", "zip"],
        run: write::change_user_address,
    },
    Tool {
        name: "return_delivered_order_items",
        parameters: &["order_id", "item_ids", "payment_method_id"],
        run: write::give_back,
    },
    Tool {
        name: "transfer_to_human_agents",
        parameters: &["summary"],
        run: |_, _, _| Ok("Transfer successful".into()),
    },
];

pub(super) fn order<'a>(world: &'a World, id: &Value) -> Result<&'a Value, Failure> {
    world.find(ORDERS, id)?.map_or_else(|| refuse("Order not found"), Ok)
}

pub(super) fn user<'a>(world: &'a World, id: &Value) -> Result<&'a Value, Failure> {
    world.find(USERS, id)?.map_or_else(|| refuse("User not found"), Ok)
}

fn product<'a>(world: &'a World, id: &Value) -> Result<&'a Value, Failure> {
    world.find(PRODUCTS, id)?.map_or_else(|| refuse("Product not found"), Ok)
}

pub(super) fn variant<'a>(world: &'a World, product_id: &Value, id: &Value) -> Result<&'a Value, Failure> {
    let variants = ops::dict_field(product(world, product_id)?, "variants")?;
    ops::lookup(variants, id)?.map_or_else(|| refuse("Variant not found"), Ok)
}

/// A payment method of the order's user.
pub(super) fn payment_method<'a>(world: &'a World, order: &Value, id: &Value) -> Result<&'a Value, Failure> {
    let methods = ops::dict_field(user(world, ops::field(order, "user_id")?)?, "payment_methods")?;
    ops::lookup(methods, id)?.map_or_else(|| refuse("Payment method not found"), Ok)
}

pub(super) fn is_gift_card(method: &Value) -> bool {
    ops::field(method, "source").is_ok_and(|source| ops::is(source, "gift_card"))
}

/// True when a gift card holds less than `amount`; other methods always suffice.
pub(super) fn falls_short(method: &Value, amount: &Value) -> Result<bool, Failure> {
    Ok(is_gift_card(method) && num::less(ops::field(method, "balance")?, amount)?)
}

fn by_email(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    for (id, profile) in world.records(USERS) {
        if ops::lower(ops::field(profile, "email")?)? == ops::lower(arg(arguments, "email"))? {
            return Ok(id.to_string());
        }
    }
    refuse("User not found")
}

fn by_name_zip(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    for (id, profile) in world.records(USERS) {
        let name = ops::field(profile, "name")?;
        if ops::lower(ops::field(name, "first_name")?)? == ops::lower(arg(arguments, "first_name"))?
            && ops::lower(ops::field(name, "last_name")?)? == ops::lower(arg(arguments, "last_name"))?
            && ops::equal(ops::field(ops::field(profile, "address")?, "zip")?, arg(arguments, "zip"))
        {
            return Ok(id.to_string());
        }
    }
    refuse("User not found")
}

fn item(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    for (_, product) in world.records(PRODUCTS) {
        if let Some(variant) = ops::lookup(ops::dict_field(product, "variants")?, arg(arguments, "item_id"))? {
            return show(variant);
        }
    }
    refuse("Item not found")
}

fn product_types(world: &mut World, _: &Dict, _: Rules) -> Answer {
    let mut types = Dict::new();
    for (_, product) in world.records(PRODUCTS) {
        let Some(name) = ops::hashed(ops::field(product, "name")?)? else { continue };
        types.insert(name.into(), ops::field(product, "product_id")?.clone());
    }
    types.sort_keys();
    show(&Value::dict(types))
}
