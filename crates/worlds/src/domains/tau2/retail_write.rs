//! tau2's retail tools that write.

use super::super::py::{Dict, Raised, Value, num, ops, text};
use super::super::retail::{ORDERS, USERS};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;
use super::retail::{falls_short, is_gift_card, order, payment_method, user, variant};
use super::tables::{ADDRESS, ORDER_PAYMENT};

/// Sets a field of a record.
fn set(world: &mut World, id: &Value, name: &str, value: Value) -> Result<(), Failure> {
    Ok(ops::set(world.edit(ORDERS, id)?, name, value)?)
}

fn has_status(order: &Value, status: &str) -> Result<bool, Failure> {
    Ok(ops::is(ops::field(order, "status")?, status))
}

/// Any status with "pending" in it, so also after a change of items.
fn is_pending(order: &Value) -> Result<bool, Failure> {
    Ok(ops::field(order, "status")?.as_str().is_some_and(|status| status.contains("pending")))
}

fn payment(kind: &str, amount: &Value, method: &Value) -> Result<Value, Raised> {
    ORDER_PAYMENT.shape(&Value::dict([
        ("transaction_type", kind.into()),
        ("amount", amount.clone()),
        ("payment_method_id", method.clone()),
    ]))
}

/// Adds to or deducts from a gift card of the order's user.
fn move_money(world: &mut World, order: &Value, method: &Value, change: &Value, adds: bool) -> Result<(), Failure> {
    let methods = ops::field_mut(world.edit(USERS, ops::field(order, "user_id")?)?, "payment_methods")?;
    let Some(name) = ops::hashed(method)? else { return Err(Raised::key(method).into()) };
    let card = ops::field_mut(methods, name)?;
    let balance = ops::field(card, "balance")?;
    let balance = if adds { num::add("+=", balance, change)? } else { num::sub("-=", balance, change)? };
    Ok(ops::set(card, "balance", num::round2(&balance))?)
}

pub(super) fn cancel(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, reason) = (arg(arguments, "order_id"), arg(arguments, "reason"));
    let before = order(world, id)?.clone();
    if !has_status(&before, "pending")? {
        return refuse("Non-pending order cannot be cancelled");
    }
    if !ops::hashed(reason)?.is_some_and(|reason| ["no longer needed", "ordered by mistake"].contains(&reason)) {
        return refuse("Invalid reason");
    }
    let mut refunds = Vec::new();
    for paid in ops::iterate(ops::field(&before, "payment_history")?)? {
        let (method_id, amount) = (ops::field(&paid, "payment_method_id")?, ops::field(&paid, "amount")?);
        refunds.push(payment("refund", amount, method_id)?);
        if is_gift_card(payment_method(world, &before, method_id)?) {
            move_money(world, &before, method_id, amount, true)?;
        }
    }
    set(world, id, "status", "cancelled".into())?;
    set(world, id, "cancel_reason", reason.clone())?;
    ops::extend(ops::field_mut(world.edit(ORDERS, id)?, "payment_history")?, refunds)?;
    show(order(world, id)?)
}

/// Fails unless the order contains every id as often as requested.
fn check_items(order: &Value, ids: &Value, missing: impl Fn(&str) -> String) -> Result<(), Failure> {
    let items = ops::iterate(ops::field(order, "items")?)?;
    let owned = Value::list(items.iter().map(|item| ops::field(item, "item_id").cloned()).collect::<Result<_, _>>()?);
    for id in ops::iterate(ids)? {
        if ops::count(ids, &id)? > ops::count(&owned, &id)? {
            return refuse(missing(&text::str(&id)));
        }
    }
    Ok(())
}

fn item_position(items: &[Value], id: &Value) -> Result<usize, Failure> {
    let found = items.iter().position(|item| ops::field(item, "item_id").is_ok_and(|own| ops::equal(own, id)));
    found.map_or_else(|| refuse(format!("Item {} not found", text::str(id))), Ok)
}

/// Price difference of the new items, and the last variant checked.
fn difference(
    world: &World,
    order: &Value,
    pairs: &[(Value, Value)],
    same_allowed: bool,
) -> Result<(Value, Option<Value>), Failure> {
    let items = ops::iterate(ops::field(order, "items")?)?;
    let (mut total, mut last) = (Value::Int(0), None);
    for (old, new) in pairs {
        if !same_allowed && ops::equal(old, new) {
            return refuse("The new item id should be different from the old item id");
        }
        let item = &items[item_position(&items, old)?];
        let variant = variant(world, ops::field(item, "product_id")?, new)?;
        if !matches!(ops::field(variant, "available")?, Value::Bool(true)) {
            return refuse(format!("New item {} not found or available", text::str(new)));
        }
        let more = num::sub("-", ops::field(variant, "price")?, ops::field(item, "price")?)?;
        total = num::add("+=", &total, &more)?;
        last = Some(variant.clone());
    }
    Ok((total, last))
}

fn pairs(old: &Value, new: &Value) -> Result<Vec<(Value, Value)>, Raised> {
    Ok(ops::iterate(old)?.into_iter().zip(ops::iterate(new)?).collect())
}

pub(super) fn exchange(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, method_id) = (arg(arguments, "order_id"), arg(arguments, "payment_method_id"));
    let (old, new) = (arg(arguments, "item_ids"), arg(arguments, "new_item_ids"));
    let before = order(world, id)?.clone();
    if !has_status(&before, "delivered")? {
        return refuse("Non-delivered order cannot be exchanged");
    }
    check_items(&before, old, |id| format!("Number of {id} not found."))?;
    if ops::len(old)? != ops::len(new)? {
        return refuse("The number of items to be exchanged should match.");
    }
    let difference = num::round2(&difference(world, &before, &pairs(old, new)?, true)?.0);
    if falls_short(payment_method(world, &before, method_id)?, &difference)? {
        return refuse("Insufficient gift card balance to pay for the price difference");
    }
    set(world, id, "status", "exchange requested".into())?;
    set(world, id, "exchange_items", ops::sorted_ids(old)?)?;
    set(world, id, "exchange_new_items", ops::sorted_ids(new)?)?;
    set(world, id, "exchange_payment_method_id", method_id.clone())?;
    set(world, id, "exchange_price_difference", difference)?;
    show(order(world, id)?)
}

fn address(arguments: &Dict) -> Result<Value, Raised> {
    let fields = ADDRESS.fields.iter().map(|(name, _)| (*name, arg(arguments, name).clone()));
    ADDRESS.shape(&Value::dict(fields))
}

pub(super) fn change_address(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "order_id");
    if !is_pending(order(world, id)?)? {
        return refuse("Non-pending order cannot be modified");
    }
    set(world, id, "address", address(arguments)?)?;
    show(order(world, id)?)
}

pub(super) fn change_user_address(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "user_id");
    user(world, id)?;
    let address = address(arguments)?;
    let user = world.edit(USERS, id)?;
    ops::set(user, "address", address)?;
    show(user)
}

pub(super) fn change_items(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, method_id) = (arg(arguments, "order_id"), arg(arguments, "payment_method_id"));
    let (old, new) = (arg(arguments, "item_ids"), arg(arguments, "new_item_ids"));
    let before = order(world, id)?.clone();
    if !has_status(&before, "pending")? {
        return refuse("Non-pending order cannot be modified");
    }
    check_items(&before, old, |id| format!("{id} not found"))?;
    if ops::len(old)? != ops::len(new)? {
        return refuse("The number of items to be exchanged should match");
    }
    let pairs = pairs(old, new)?;
    let (difference, last) = difference(world, &before, &pairs, false)?;
    let method = payment_method(world, &before, method_id)?;
    let by_gift_card = is_gift_card(method);
    if falls_short(method, &difference)? {
        return refuse("Insufficient gift card balance to pay for the new item");
    }
    let kind = if num::greater(&difference, &Value::Int(0))? { "payment" } else { "refund" };
    let entry = payment(kind, &num::absolute(&difference)?, method_id)?;
    ops::append(ops::field_mut(world.edit(ORDERS, id)?, "payment_history")?, entry)?;
    if by_gift_card {
        move_money(world, &before, method_id, &difference, false)?;
    }
    let mut items = ops::iterate(ops::field(&before, "items")?)?;
    for (old, new) in &pairs {
        let at = item_position(&items, old)?;
        ops::set(&mut items[at], "item_id", new.clone())?;
        // Upstream uses the variant left over from its checks, the last one, for every item.
        for name in ["price", "options"] {
            let Some(variant) = &last else { continue };
            ops::set(&mut items[at], name, ops::field(variant, name)?.clone())?;
        }
    }
    set(world, id, "items", Value::list(items))?;
    set(world, id, "status", "pending (item modified)".into())?;
    show(order(world, id)?)
}

pub(super) fn change_payment(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, method_id) = (arg(arguments, "order_id"), arg(arguments, "payment_method_id"));
    let before = order(world, id)?.clone();
    if !is_pending(&before)? {
        return refuse("Non-pending order cannot be modified");
    }
    let method = payment_method(world, &before, method_id)?.clone();
    let history = ops::iterate(ops::field(&before, "payment_history")?)?;
    let [paid] = history.as_slice() else {
        return refuse("There should be exactly one payment for a pending order");
    };
    if !ops::is(ops::field(paid, "transaction_type")?, "payment") {
        return refuse("There should be exactly one payment for a pending order");
    }
    let (old_id, amount) = (ops::field(paid, "payment_method_id")?, ops::field(paid, "amount")?);
    if ops::equal(old_id, method_id) {
        return refuse("The new payment method should be different from the current one");
    }
    if falls_short(&method, amount)? {
        return refuse("Insufficient gift card balance to pay for the order");
    }
    let entries = vec![payment("payment", amount, method_id)?, payment("refund", amount, old_id)?];
    ops::extend(ops::field_mut(world.edit(ORDERS, id)?, "payment_history")?, entries)?;
    if is_gift_card(&method) {
        move_money(world, &before, method_id, amount, false)?;
    }
    if is_gift_card(payment_method(world, &before, old_id)?) {
        move_money(world, &before, old_id, amount, true)?;
    }
    show(order(world, id)?)
}

pub(super) fn give_back(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, ids) = (arg(arguments, "order_id"), arg(arguments, "item_ids"));
    let method_id = arg(arguments, "payment_method_id");
    let before = order(world, id)?.clone();
    if !has_status(&before, "delivered")? {
        return refuse("Non-delivered order cannot be returned");
    }
    let paid_with = ops::field(&before, "payment_history").and_then(ops::first).cloned();
    if !is_gift_card(payment_method(world, &before, method_id)?)
        && !ops::equal(method_id, ops::field(&paid_with?, "payment_method_id")?)
    {
        return refuse("Payment method should be the original payment method");
    }
    check_items(&before, ids, |_| "Some item not found".into())?;
    set(world, id, "status", "return requested".into())?;
    set(world, id, "return_items", ops::sorted_ids(ids)?)?;
    set(world, id, "return_payment_method_id", method_id.clone())?;
    show(order(world, id)?)
}
