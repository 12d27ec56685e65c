//! Requests on orders that arrived: exchange and return. No money moves until the goods are back.

use super::super::py::{Dict, num, ops};
use super::super::tool::{Answer, Rules, arg, refuse, show};
use super::super::world::World;
use super::pending::is_gift_card_id;
use super::{ORDERS, check_items, order_with_status, payment_method, price_difference};

pub(super) fn exchange(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "order_id");
    let (item_ids, new_item_ids) = (arg(arguments, "item_ids"), arg(arguments, "new_item_ids"));
    let method_id = arg(arguments, "payment_method_id");
    let order = order_with_status(world, id, "delivered", "non-delivered order cannot be exchanged")?;
    check_items(&order, item_ids, |id| format!("{} not found", super::super::py::text::str(id)))?;
    let difference = num::round2(&price_difference(world, &order, item_ids, new_item_ids)?);
    let method = payment_method(world, &order, method_id)?;
    if ops::is(ops::field(&method, "source")?, "gift_card") && num::less(ops::field(&method, "balance")?, &difference)?
    {
        return refuse("insufficient gift card balance to pay for the price difference");
    }
    let order = world.edit(ORDERS, id)?;
    ops::set(order, "status", "exchange requested".into())?;
    ops::set(order, "exchange_items", ops::sorted_ids(item_ids)?)?;
    ops::set(order, "exchange_new_items", ops::sorted_ids(new_item_ids)?)?;
    ops::set(order, "exchange_payment_method_id", method_id.clone())?;
    ops::set(order, "exchange_price_difference", difference)?;
    show(order)
}

pub(super) fn give_back(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, item_ids) = (arg(arguments, "order_id"), arg(arguments, "item_ids"));
    let method_id = arg(arguments, "payment_method_id");
    let order = order_with_status(world, id, "delivered", "non-delivered order cannot be returned")?;
    payment_method(world, &order, method_id)?;
    let paid_with = ops::field(ops::first(ops::field(&order, "payment_history")?)?, "payment_method_id");
    if !is_gift_card_id(method_id) && !ops::equal(method_id, paid_with?) {
        return refuse("payment method should be either the original payment method or a gift card");
    }
    check_items(&order, item_ids, |_| "some item not found".into())?;
    let order = world.edit(ORDERS, id)?;
    ops::set(order, "status", "return requested".into())?;
    ops::set(order, "return_items", ops::sorted_ids(item_ids)?)?;
    ops::set(order, "return_payment_method_id", method_id.clone())?;
    show(order)
}
