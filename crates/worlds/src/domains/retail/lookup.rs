//! Finding and reading records, and the only write that does not involve an order: a user's address.

use super::super::py::{Dict, Value, ops};
use super::super::tool::{Answer, Rules, arg, refuse, show};
use super::super::world::{TableId, World};
use super::{ADDRESS, ORDERS, PRODUCTS, USERS};

pub(super) fn user_by_email(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    for (id, profile) in world.records(USERS) {
        if ops::lower(ops::field(profile, "email")?)? == ops::lower(arg(arguments, "email"))? {
            return Ok(id.to_string());
        }
    }
    refuse("user not found")
}

pub(super) fn user_by_name_zip(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    for (id, profile) in world.records(USERS) {
        let name = ops::field(profile, "name")?;
        if ops::lower(ops::field(name, "first_name")?)? == ops::lower(arg(arguments, "first_name"))?
            && ops::lower(ops::field(name, "last_name")?)? == ops::lower(arg(arguments, "last_name"))?
            && ops::equal(ops::field(ops::field(profile, "address")?, "zip")?, arg(arguments, "zip"))
        {
            return Ok(id.to_string());
        }
    }
    refuse("user not found")
}

pub(super) fn order(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    details(world, ORDERS, arg(arguments, "order_id"), "order not found")
}

pub(super) fn product(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    details(world, PRODUCTS, arg(arguments, "product_id"), "product not found")
}

pub(super) fn user(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    details(world, USERS, arg(arguments, "user_id"), "user not found")
}

fn details(world: &World, table: TableId, id: &Value, missing: &str) -> Answer {
    world.find(table, id)?.map_or_else(|| refuse(missing), show)
}

pub(super) fn product_types(world: &mut World, _: &Dict, _: Rules) -> Answer {
    let mut types = Dict::new();
    for (_, product) in world.records(PRODUCTS) {
        let Some(name) = ops::hashed(ops::field(product, "name")?)? else { continue };
        types.insert(name.into(), ops::field(product, "product_id")?.clone());
    }
    types.sort_keys();
    show(&Value::dict(types))
}

pub(super) fn change_user_address(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "user_id");
    if world.find(USERS, id)?.is_none() {
        return refuse("user not found");
    }
    let user = world.edit(USERS, id)?;
    ops::set(user, "address", address(arguments))?;
    show(user)
}

/// The address as the tools store it, whatever the agent sent in its fields.
pub(super) fn address(arguments: &Dict) -> Value {
    Value::dict(ADDRESS.map(|field| (field, arg(arguments, field).clone())))
}
