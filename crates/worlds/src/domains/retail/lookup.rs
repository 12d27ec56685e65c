//! Finding and reading records, and the only write that does not involve an order: a user's address.

use super::super::py::{Dict, Raised, Value, ops};
use super::super::tool::{Answer, Rules, arg, refuse, show};
use super::super::world::{IndexId, TableId, World};
use super::{ADDRESS, ORDERS, PRODUCTS, USERS};

const BY_EMAIL: IndexId = IndexId { table: USERS, place: 0, text: email };
const BY_NAME_ZIP: IndexId = IndexId { table: USERS, place: 1, text: name_zip };

fn email(profile: &Value) -> Result<String, Raised> {
    ops::lower(ops::field(profile, "email")?)
}

fn name_zip(profile: &Value) -> Result<String, Raised> {
    let name = ops::field(profile, "name")?;
    let (first, last) = (ops::field(name, "first_name")?, ops::field(name, "last_name")?);
    joined(first, last, ops::field(ops::field(profile, "address")?, "zip")?)
}

/// Name and zip code as one text, a line each.
fn joined(first: &Value, last: &Value, zip: &Value) -> Result<String, Raised> {
    let lines = [ops::lower(first)?, ops::lower(last)?, zip.as_str().ok_or_else(|| Raised::key(zip))?.to_owned()];
    if lines.iter().any(|line| line.contains('\n')) {
        return Err(Raised::key(zip));
    }
    Ok(lines.join("\n"))
}

pub(super) fn user_by_email(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    if let (Ok(wanted), Some(index)) = (ops::lower(arg(arguments, "email")), world.index(BY_EMAIL)) {
        return index.get(&wanted).map_or_else(|| refuse("user not found"), |id| Ok(id.to_string()));
    }
    for (id, profile) in world.records(USERS) {
        if ops::lower(ops::field(profile, "email")?)? == ops::lower(arg(arguments, "email"))? {
            return Ok(id.to_string());
        }
    }
    refuse("user not found")
}

pub(super) fn user_by_name_zip(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let wanted = joined(arg(arguments, "first_name"), arg(arguments, "last_name"), arg(arguments, "zip"));
    if let (Ok(wanted), Some(index)) = (wanted, world.index(BY_NAME_ZIP)) {
        return index.get(&wanted).map_or_else(|| refuse("user not found"), |id| Ok(id.to_string()));
    }
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
