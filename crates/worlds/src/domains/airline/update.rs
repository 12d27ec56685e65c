//! Changes to reservations: cancel, bags, flights, passengers.

use super::super::py::{Dict, Raised, Value, num, ops};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;
use super::{Leg, RESERVATIONS, USERS, available_leg, charge, is_gift_card, price_segment, seats};

/// The reservation; under the strict rules only one that is not cancelled.
fn reservation(world: &World, id: &Value, rules: Rules) -> Result<Value, Failure> {
    let Some(reservation) = world.find(RESERVATIONS, id)? else { return refuse("reservation not found") };
    if rules == Rules::Strict && ops::field(reservation, "status").is_ok_and(|status| ops::is(status, "cancelled")) {
        return refuse("the reservation is already cancelled");
    }
    Ok(reservation.clone())
}

pub(super) fn cancel(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let id = arg(arguments, "reservation_id");
    let before = reservation(world, id, rules)?;
    let mut refunds = Vec::new();
    for payment in ops::iterate(ops::field(&before, "payment_history")?)? {
        let amount = num::negate(ops::field(&payment, "amount")?)?;
        refunds.push(Value::dict([("payment_id", ops::field(&payment, "payment_id")?.clone()), ("amount", amount)]));
    }
    if rules == Rules::Strict {
        seats::release(world, &before)?;
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::extend(ops::field_mut(reservation, "payment_history")?, refunds)?;
    ops::set(reservation, "status", "cancelled".into())?;
    show(reservation)
}

/// Checks that the user can pay `total` with this method, which must not be a certificate; returns whether it is a gift
/// card.
fn check_method(world: &World, user: &Value, id: &Value, total: &Value) -> Result<bool, Failure> {
    let methods = ops::dict_field(world.require(USERS, user)?, "payment_methods")?;
    let Some(method) = ops::lookup(methods, id)? else { return refuse("payment method not found") };
    if ops::is(ops::field(method, "source")?, "certificate") {
        return refuse("certificate cannot be used to update reservation");
    }
    let gift_card = is_gift_card(method)?;
    if gift_card && num::less(ops::field(method, "amount")?, total)? {
        return refuse("gift card balance is not enough");
    }
    Ok(gift_card)
}

/// Appends the payment to the history, unless nothing was paid.
fn record_payment(reservation: &mut Value, id: &Value, total: &Value) -> Result<(), Raised> {
    if ops::equal(total, &Value::Int(0)) {
        return Ok(());
    }
    let payment = Value::dict([("payment_id", id.clone()), ("amount", total.clone())]);
    ops::append(ops::field_mut(reservation, "payment_history")?, payment)
}

pub(super) fn baggages(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let (id, payment_id) = (arg(arguments, "reservation_id"), arg(arguments, "payment_id"));
    let (total_bags, paid_bags) = (arg(arguments, "total_baggages"), arg(arguments, "nonfree_baggages"));
    let before = reservation(world, id, rules)?;
    if rules == Rules::Strict && num::less(total_bags, paid_bags)? {
        return refuse("there are more paid bags than bags");
    }
    let more = num::sub("-", paid_bags, ops::field(&before, "nonfree_baggages")?)?;
    let total = if num::greater(&more, &Value::Int(0))? { num::times(50, &more)? } else { Value::Int(0) };
    let user = ops::field(&before, "user_id")?;
    let gift_card = check_method(world, user, payment_id, &total)?;
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::set(reservation, "total_baggages", total_bags.clone())?;
    ops::set(reservation, "nonfree_baggages", paid_bags.clone())?;
    if gift_card {
        charge(world, user, payment_id, &total)?;
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    record_payment(reservation, payment_id, &total)?;
    show(reservation)
}

pub(super) fn flights(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let (id, payment_id) = (arg(arguments, "reservation_id"), arg(arguments, "payment_id"));
    let (cabin, flights) = (arg(arguments, "cabin"), arg(arguments, "flights"));
    let before = reservation(world, id, rules)?;
    if rules == Rules::Strict && ops::len(flights)? == 0 {
        return refuse("a reservation needs at least one flight");
    }
    let passengers = ops::field(&before, "passengers")?;
    let mut segments = ops::iterate(flights)?;
    let mut total = Value::Int(0);
    for segment in &mut segments {
        let leg = match kept_leg(&before, segment, cabin)? {
            Some(leg) => leg,
            None => available_leg(world, segment, cabin, passengers)?,
        };
        total = num::add("+=", &total, &num::times(ops::len(passengers)?, &leg.price)?)?;
        price_segment(segment, &leg)?;
    }
    let old = ops::iterate(ops::field(&before, "flights")?)?;
    let prices = old.iter().map(|flight| ops::field(flight, "price")).collect::<Result<Vec<_>, _>>()?;
    let paid_before = num::times(ops::len(passengers)?, &num::sum(prices)?)?;
    total = num::sub("-=", &total, &paid_before)?;
    let user = ops::field(&before, "user_id")?;
    if check_method(world, user, payment_id, &total)? {
        charge(world, user, payment_id, &total)?;
    }
    let segments = if segments.is_empty() { flights.clone() } else { Value::list(segments) };
    if rules == Rules::Strict {
        seats::release(world, &before)?;
        seats::take(world, &segments, cabin, passengers)?;
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::set(reservation, "flights", segments)?;
    if rules == Rules::Strict {
        ops::set(reservation, "cabin", cabin.clone())?;
    }
    record_payment(reservation, payment_id, &total)?;
    show(reservation)
}

/// The segment as the reservation already has it: it keeps its price, whatever the flight costs today and however many
/// seats it has.
fn kept_leg(reservation: &Value, segment: &Value, cabin: &Value) -> Result<Option<Leg>, Raised> {
    let mut kept = None;
    // Every flight is evaluated, as in upstream's comprehension: a bad one later in the list still raises.
    for flight in ops::iterate(ops::field(reservation, "flights")?)? {
        if ops::equal(ops::field(&flight, "flight_number")?, ops::field(segment, "flight_number")?)
            && ops::equal(ops::field(&flight, "date")?, ops::field(segment, "date")?)
            && ops::equal(cabin, ops::field(reservation, "cabin")?)
            && kept.is_none()
        {
            kept = Some(Leg {
                price: ops::field(&flight, "price")?.clone(),
                origin: ops::field(&flight, "origin")?.clone(),
                destination: ops::field(&flight, "destination")?.clone(),
            });
        }
    }
    Ok(kept)
}

pub(super) fn passengers(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let (id, passengers) = (arg(arguments, "reservation_id"), arg(arguments, "passengers"));
    let before = reservation(world, id, rules)?;
    if ops::len(passengers)? != ops::len(ops::field(&before, "passengers")?)? {
        return refuse("number of passengers does not match");
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::set(reservation, "passengers", passengers.clone())?;
    show(reservation)
}
