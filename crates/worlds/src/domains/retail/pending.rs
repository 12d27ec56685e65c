//! Changes to orders that have not shipped: cancel, address, items, payment.

use super::super::py::{Dict, Value, num, ops};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;
use super::lookup::address;
use super::{
    ORDERS, change_balance, check_items, item_position, order_with_status, pairs, payment_method, price_difference,
    variants,
};

const NOT_PENDING: &str = "non-pending order cannot be modified";

pub(super) fn cancel(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "order_id");
    let order = order_with_status(world, id, "pending", "non-pending order cannot be cancelled")?;
    let reason = arg(arguments, "reason");
    if !["no longer needed", "ordered by mistake"].iter().any(|known| ops::is(reason, known)) {
        return refuse("invalid reason");
    }
    let mut refunds = Vec::new();
    for payment in ops::iterate(ops::field(&order, "payment_history")?)? {
        let method = ops::field(&payment, "payment_method_id")?;
        let amount = ops::field(&payment, "amount")?;
        refunds.push(transaction("refund", amount, method));
        if is_gift_card_id(method) {
            change_balance(world, &order, method, |balance| num::add("+=", balance, amount))?;
        }
    }
    let order = world.edit(ORDERS, id)?;
    ops::set(order, "status", "cancelled".into())?;
    ops::set(order, "cancel_reason", reason.clone())?;
    ops::extend(ops::field_mut(order, "payment_history")?, refunds)?;
    show(order)
}

pub(super) fn change_address(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "order_id");
    order_with_status(world, id, "pending", NOT_PENDING)?;
    let order = world.edit(ORDERS, id)?;
    ops::set(order, "address", address(arguments))?;
    show(order)
}

pub(super) fn change_items(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let id = arg(arguments, "order_id");
    let (item_ids, new_item_ids) = (arg(arguments, "item_ids"), arg(arguments, "new_item_ids"));
    let method_id = arg(arguments, "payment_method_id");
    let order = order_with_status(world, id, "pending", NOT_PENDING)?;
    check_items(&order, item_ids, |id| format!("{} not found", super::super::py::text::str(id)))?;
    let mut difference = price_difference(world, &order, item_ids, new_item_ids)?;
    if rules == Rules::Strict {
        refuse_same_item(item_ids, new_item_ids)?;
        difference = num::round2(&difference);
    }
    let method = payment_method(world, &order, method_id)?;
    let by_gift_card = ops::is(ops::field(&method, "source")?, "gift_card");
    if by_gift_card && num::less(ops::field(&method, "balance")?, &difference)? {
        return refuse("insufficient gift card balance to pay for the new item");
    }
    let kind = if num::greater(&difference, &Value::Int(0))? { "payment" } else { "refund" };
    let entry = transaction(kind, &num::absolute(&difference)?, method_id);
    ops::append(ops::field_mut(world.edit(ORDERS, id)?, "payment_history")?, entry)?;
    if by_gift_card {
        change_balance(world, &order, method_id, |balance| num::sub("-=", balance, &difference))?;
    }
    for (old, new) in pairs(item_ids, new_item_ids)? {
        replace_item(world, id, &old, &new)?;
    }
    let order = world.edit(ORDERS, id)?;
    ops::set(order, "status", "pending (item modified)".into())?;
    show(order)
}

fn refuse_same_item(item_ids: &Value, new_item_ids: &Value) -> Result<(), Failure> {
    if pairs(item_ids, new_item_ids)?.iter().any(|(old, new)| ops::equal(old, new)) {
        return refuse("the new item should be different from the old item");
    }
    Ok(())
}

/// Turns the first item with the old id into the new variant.
fn replace_item(world: &mut World, order_id: &Value, old: &Value, new: &Value) -> Result<(), Failure> {
    let order = world.require(ORDERS, order_id)?;
    let at = item_position(order, old)?;
    let mut items = ops::iterate(ops::field(order, "items")?)?;
    let variant = ops::subscript(ops::dict_field(variants(world, &items[at])?, "variants")?, new)?.clone();
    ops::set(&mut items[at], "item_id", new.clone())?;
    for name in ["price", "options"] {
        ops::set(&mut items[at], name, ops::field(&variant, name)?.clone())?;
    }
    ops::set(world.edit(ORDERS, order_id)?, "items", Value::list(items))?;
    Ok(())
}

pub(super) fn change_payment(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, method_id) = (arg(arguments, "order_id"), arg(arguments, "payment_method_id"));
    let order = order_with_status(world, id, "pending", NOT_PENDING)?;
    let method = payment_method(world, &order, method_id)?;
    let history = ops::field(&order, "payment_history")?;
    if ops::len(history)? > 1 || !ops::is(ops::field(ops::first(history)?, "transaction_type")?, "payment") {
        return refuse("there should be exactly one payment for a pending order");
    }
    let old_id = ops::field(ops::first(history)?, "payment_method_id")?;
    if ops::equal(old_id, method_id) {
        return refuse("the new payment method should be different from the current one");
    }
    let amount = ops::field(ops::first(history)?, "amount")?;
    let to_gift_card = ops::is(ops::field(&method, "source")?, "gift_card");
    if to_gift_card && num::less(ops::field(&method, "balance")?, amount)? {
        return refuse("insufficient gift card balance to pay for the order");
    }
    let entries = vec![transaction("payment", amount, method_id), transaction("refund", amount, old_id)];
    ops::extend(ops::field_mut(world.edit(ORDERS, id)?, "payment_history")?, entries)?;
    if to_gift_card {
        change_balance(world, &order, method_id, |balance| num::sub("-=", balance, amount))?;
    }
    if is_gift_card_id(old_id) {
        change_balance(world, &order, old_id, |balance| num::add("+=", balance, amount))?;
    }
    show(world.require(ORDERS, id)?)
}

fn transaction(kind: &str, amount: &Value, method: &Value) -> Value {
    Value::dict([("transaction_type", kind.into()), ("amount", amount.clone()), ("payment_method_id", method.clone())])
}

/// Upstream recognises gift cards by their id in some places and by their source in others.
pub(super) fn is_gift_card_id(id: &Value) -> bool {
    id.as_str().is_some_and(|id| id.contains("gift_card"))
}
