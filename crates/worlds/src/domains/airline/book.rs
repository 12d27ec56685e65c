//! Booking, and certificates as compensation.

use std::sync::Arc;

use super::super::py::{Dict, Raised, Value, num, ops, text};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;
use super::{NOW, RESERVATIONS, USERS, available_leg, charge, is_gift_card, price_segment, seats};

/// Ids of reservations made in an episode. Upstream assumes at most three and overwrites the third.
const NEW_RESERVATIONS: [&str; 3] = ["HATHAT", "HATHAU", "HATHAV"];
const NEW_CERTIFICATES: [&str; 3] = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

pub(super) fn book(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let (user_id, passengers) = (arg(arguments, "user_id"), arg(arguments, "passengers"));
    if world.find(USERS, user_id)?.is_none() {
        return refuse("user not found");
    }
    let id = new_reservation_id(world, rules)?;
    if rules == Rules::Strict {
        check_booking(arguments)?;
    }
    let (flights, fare) = price_flights(world, arguments)?;
    let total = total_price(arguments, fare)?;
    check_payments(world, user_id, arg(arguments, "payment_methods"), &total)?;
    pay(world, user_id, arg(arguments, "payment_methods"))?;
    if rules == Rules::Strict {
        seats::take(world, &flights, arg(arguments, "cabin"), passengers)?;
    }
    let reservation = reservation(id, arguments, flights);
    world.put(RESERVATIONS, id, reservation.clone());
    ops::append(ops::field_mut(world.edit(USERS, user_id)?, "reservations")?, id.into())?;
    show(&reservation)
}

fn new_reservation_id(world: &World, rules: Rules) -> Result<&'static str, Failure> {
    match NEW_RESERVATIONS.into_iter().find(|id| world.get(RESERVATIONS, id).is_none()) {
        Some(id) => Ok(id),
        None if rules == Rules::Compat => Ok(NEW_RESERVATIONS[2]),
        None => refuse("too many reservations in one conversation"),
    }
}

/// Rules that upstream leaves to the policy text: a booking has flights, one to five passengers, a connected route, and
/// names each payment method once.
fn check_booking(arguments: &Dict) -> Result<(), Failure> {
    if ops::len(arg(arguments, "flights"))? == 0 {
        return refuse("a reservation needs at least one flight");
    }
    if !(1..=5).contains(&ops::len(arg(arguments, "passengers"))?) {
        return refuse("a reservation has one to five passengers");
    }
    if num::less(arg(arguments, "total_baggages"), arg(arguments, "nonfree_baggages"))? {
        return refuse("there are more paid bags than bags");
    }
    let payments = ops::iterate(arg(arguments, "payment_methods"))?;
    for (at, payment) in payments.iter().enumerate() {
        let id = ops::field(payment, "payment_id")?;
        if payments[..at]
            .iter()
            .any(|earlier| ops::field(earlier, "payment_id").is_ok_and(|other| ops::equal(other, id)))
        {
            return refuse(format!("payment method {} is given twice", text::str(id)));
        }
        if num::less(ops::field(payment, "amount")?, &Value::Int(0))? {
            return refuse("a payment cannot be negative");
        }
    }
    Ok(())
}

/// The flights with prices and routes, and their total cost for all passengers.
fn price_flights(world: &World, arguments: &Dict) -> Result<(Value, Value), Failure> {
    let (cabin, passengers) = (arg(arguments, "cabin"), arg(arguments, "passengers"));
    let flights = arg(arguments, "flights");
    let mut segments = ops::iterate(flights)?;
    let mut fare = Value::Int(0);
    for segment in &mut segments {
        let leg = available_leg(world, segment, cabin, passengers)?;
        price_segment(segment, &leg)?;
        fare = num::add("+=", &fare, &num::times(ops::len(passengers)?, &leg.price)?)?;
    }
    // An empty value that is not a list is kept unchanged.
    let flights = if segments.is_empty() { flights.clone() } else { Value::list(segments) };
    Ok((flights, fare))
}

fn total_price(arguments: &Dict, fare: Value) -> Result<Value, Raised> {
    let mut total = fare;
    if ops::is(arg(arguments, "insurance"), "yes") {
        total = num::add("+=", &total, &Value::Int(30 * ops::len(arg(arguments, "passengers"))?))?;
    }
    num::add("+=", &total, &num::times(50, arg(arguments, "nonfree_baggages"))?)
}

fn check_payments(world: &World, user_id: &Value, payments: &Value, total: &Value) -> Result<(), Failure> {
    let methods = ops::dict_field(world.require(USERS, user_id)?, "payment_methods")?;
    let payments = ops::iterate(payments)?;
    for payment in &payments {
        let (id, amount) = (ops::field(payment, "payment_id")?, ops::field(payment, "amount")?);
        let Some(method) = ops::lookup(methods, id)? else {
            return refuse(format!("payment method {} not found", text::str(id)));
        };
        let source = ops::field(method, "source")?;
        if ["gift_card", "certificate"].iter().any(|kind| ops::is(source, kind))
            && num::less(ops::field(method, "amount")?, amount)?
        {
            return refuse(format!("not enough balance in payment method {}", text::str(id)));
        }
    }
    let amounts = payments.iter().map(|payment| ops::field(payment, "amount")).collect::<Result<Vec<_>, _>>()?;
    let paid = num::sum(amounts)?;
    if !ops::equal(&paid, total) {
        let (total, paid) = (text::str(total), text::str(&paid));
        return refuse(format!("payment amount does not add up, total price is {total}, but paid {paid}"));
    }
    Ok(())
}

/// Gift cards are charged and certificates used up, one by one: a certificate named twice fails the second time, after
/// the first has been used.
fn pay(world: &mut World, user_id: &Value, payments: &Value) -> Result<(), Failure> {
    for payment in ops::iterate(payments)? {
        let id = ops::field(&payment, "payment_id")?;
        let methods = ops::dict_field(world.require(USERS, user_id)?, "payment_methods")?;
        let method = ops::subscript(methods, id)?;
        if is_gift_card(method)? {
            charge(world, user_id, id, ops::field(&payment, "amount")?)?;
        } else if ops::is(ops::field(method, "source")?, "certificate")
            && let Value::Dict(methods) = ops::field_mut(world.edit(USERS, user_id)?, "payment_methods")?
            && let Some(name) = ops::hashed(id)?
        {
            Arc::make_mut(methods).shift_remove(name);
        }
    }
    Ok(())
}

fn reservation(id: &str, arguments: &Dict, flights: Value) -> Value {
    let given = |name: &str| arg(arguments, name).clone();
    Value::dict([
        ("reservation_id", id.into()),
        ("user_id", given("user_id")),
        ("origin", given("origin")),
        ("destination", given("destination")),
        ("flight_type", given("flight_type")),
        ("cabin", given("cabin")),
        ("flights", flights),
        ("passengers", given("passengers")),
        ("payment_history", given("payment_methods")),
        ("created_at", NOW.into()),
        ("total_baggages", given("total_baggages")),
        ("nonfree_baggages", given("nonfree_baggages")),
        ("insurance", given("insurance")),
    ])
}

pub(super) fn send_certificate(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let (user_id, amount) = (arg(arguments, "user_id"), arg(arguments, "amount"));
    let Some(user) = world.find(USERS, user_id)? else { return refuse("user not found") };
    let methods = ops::dict_field(user, "payment_methods")?;
    let Some(id) = NEW_CERTIFICATES.into_iter().find(|id| !methods.contains_key(*id)) else {
        return match rules {
            Rules::Compat => Err(Failure::Lost("a fourth certificate: upstream's tool returns nothing and crashes")),
            Rules::Strict => refuse("too many certificates in one conversation"),
        };
    };
    let certificate = Value::dict([("source", "certificate".into()), ("amount", amount.clone()), ("id", id.into())]);
    ops::set(ops::field_mut(world.edit(USERS, user_id)?, "payment_methods")?, id, certificate)?;
    Ok(format!("Certificate {id} added to user {} with amount {}.", text::str(user_id), text::str(amount)))
}
