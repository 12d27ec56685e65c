//! tau2's airline tools: the table, booking and changes.

use std::sync::Arc;

use super::super::airline::{NOW, RESERVATIONS, USERS};
use super::super::py::{Dict, Raised, Value, num, ops, text};
use super::super::tool::{Answer, Failure, Rules, Tool, arg, refuse, show};
use super::super::world::World;
use super::flights::{self, Day, find_day};
use super::tables::{CERTIFICATE, FLIGHT_INFO, PASSENGER, PAYMENT, RESERVATION};
use super::{Models, calculate};

pub(super) const TOOLS: [Tool; 14] = [
    Tool {
        name: "book_reservation",
        parameters: &[
            "user_id",
            "origin",
            "destination",
            "flight_type",
            "cabin",
            "flights",
            "passengers",
            "payment_methods",
            "total_baggages",
            "nonfree_baggages",
            "insurance",
        ],
        run: book,
    },
    Tool { name: "calculate", parameters: &["expression"], run: calculate },
    Tool { name: "cancel_reservation", parameters: &["reservation_id"], run: cancel },
    Tool {
        name: "get_reservation_details",
        parameters: &["reservation_id"],
        run: |world, arguments, _| show(reservation(world, arg(arguments, "reservation_id"))?),
    },
    Tool {
        name: "get_user_details",
        parameters: &["user_id"],
        run: |world, arguments, _| show(user(world, arg(arguments, "user_id"))?),
    },
    Tool { name: "list_all_airports", parameters: &[], run: flights::airports },
    Tool { name: "search_direct_flight", parameters: &["origin", "destination", "date"], run: flights::direct },
    Tool { name: "search_onestop_flight", parameters: &["origin", "destination", "date"], run: flights::one_stop },
    Tool { name: "send_certificate", parameters: &["user_id", "amount"], run: send_certificate },
    Tool {
        name: "transfer_to_human_agents",
        parameters: &["summary"],
        run: |_, _, _| Ok("Transfer successful".into()),
    },
    Tool {
        name: "update_reservation_baggages",
        parameters: &["reservation_id", "total_baggages", "nonfree_baggages", "payment_id"],
        run: update_baggages,
    },
    Tool {
        name: "update_reservation_flights",
        parameters: &["reservation_id", "cabin", "flights", "payment_id"],
        run: update_flights,
    },
    Tool {
        name: "update_reservation_passengers",
        parameters: &["reservation_id", "passengers"],
        run: update_passengers,
    },
    Tool { name: "get_flight_status", parameters: &["flight_number", "date"], run: flights::status },
];

fn user<'a>(world: &'a World, id: &Value) -> Result<&'a Value, Failure> {
    world.find(USERS, id)?.map_or_else(|| refuse(format!("User {} not found", text::str(id))), Ok)
}

fn reservation<'a>(world: &'a World, id: &Value) -> Result<&'a Value, Failure> {
    world.find(RESERVATIONS, id)?.map_or_else(|| refuse(format!("Reservation {} not found", text::str(id))), Ok)
}

fn book(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let flights = Models::of(arg(arguments, "flights"), &FLIGHT_INFO)?;
    let passengers = Models::of(arg(arguments, "passengers"), &PASSENGER)?.value;
    let payments = Models::of(arg(arguments, "payment_methods"), &PAYMENT)?;
    let (user_id, cabin) = (arg(arguments, "user_id"), arg(arguments, "cabin"));
    user(world, user_id)?;
    let new_ids = ["HATHAT", "HATHAU", "HATHAV"];
    let Some(id) = new_ids.into_iter().find(|id| world.get(RESERVATIONS, id).is_none()) else {
        return refuse("Too many reservations");
    };
    let mut booked = new_reservation(id, arguments, &passengers, &payments.value)?;
    let (segments, fare) = price(world, &flights, cabin, &passengers)?;
    let mut total = fare;
    if ops::is(arg(arguments, "insurance"), "yes") {
        total = num::add("+=", &total, &Value::Int(30 * ops::len(&passengers)?))?;
    }
    total = num::add("+=", &total, &num::times(50, arg(arguments, "nonfree_baggages"))?)?;
    check_payments(world, user_id, &payments, &total)?;
    pay(world, user_id, &payments)?;
    flights::take_seats(world, &segments, cabin, ops::len(&passengers)?)?;
    ops::set(&mut booked, "flights", Value::list(segments))?;
    world.put(RESERVATIONS, id, booked.clone());
    ops::append(ops::field_mut(world.edit(USERS, user_id)?, "reservations")?, id.into())?;
    show(&booked)
}

fn new_reservation(id: &str, arguments: &Dict, passengers: &Value, payments: &Value) -> Result<Value, Raised> {
    let given =
        ["user_id", "origin", "destination", "flight_type", "cabin", "total_baggages", "nonfree_baggages", "insurance"];
    let mut fields: Dict = given.iter().map(|name| ((*name).into(), arg(arguments, name).clone())).collect();
    fields.insert("reservation_id".into(), id.into());
    fields.insert("flights".into(), Value::list(Vec::new()));
    fields.insert("passengers".into(), passengers.clone());
    fields.insert("payment_history".into(), payments.clone());
    fields.insert("created_at".into(), NOW.into());
    RESERVATION.shape(&Value::dict(fields))
}

/// The segments as stored in a reservation, and their cost for all passengers.
fn price(world: &World, infos: &Models, cabin: &Value, passengers: &Value) -> Result<(Vec<Value>, Value), Failure> {
    let (mut segments, mut fare) = (Vec::new(), Value::Int(0));
    for info in &infos.items {
        let at = (infos.attribute(info, "flight_number")?, infos.attribute(info, "date")?);
        let segment = bookable(world, at, cabin, ops::len(passengers)?)?;
        fare = num::add("+=", &fare, &num::times(ops::len(passengers)?, ops::field(&segment, "price")?)?)?;
        segments.push(segment);
    }
    Ok((segments, fare))
}

/// The segment, when its flight has seats left.
fn bookable(world: &World, (number, date): (&Value, &Value), cabin: &Value, passengers: i64) -> Result<Value, Failure> {
    let Day { flight, day } = find_day(world, number, date)?;
    if !ops::is(ops::field(day, "status")?, "available") {
        return refuse(format!("Flight {} not available on date {}", text::str(number), text::str(date)));
    }
    let seats = ops::subscript(ops::dict_field(day, "available_seats")?, cabin)?;
    if num::less(seats, &Value::Int(passengers))? {
        return refuse(format!("Not enough seats on flight {}", text::str(number)));
    }
    let price = ops::subscript(ops::dict_field(day, "prices")?, cabin)?;
    Ok(Value::dict([
        ("flight_number", number.clone()),
        ("origin", ops::field(flight, "origin")?.clone()),
        ("destination", ops::field(flight, "destination")?.clone()),
        ("date", date.clone()),
        ("price", price.clone()),
    ]))
}

fn check_payments(world: &World, user_id: &Value, payments: &Models, total: &Value) -> Result<(), Failure> {
    let methods = ops::dict_field(user(world, user_id)?, "payment_methods")?;
    for payment in &payments.items {
        let (id, amount) = (payments.attribute(payment, "payment_id")?, payments.attribute(payment, "amount")?);
        let Some(method) = ops::lookup(methods, id)? else {
            return refuse(format!("Payment method {} not found", text::str(id)));
        };
        if ops::field(method, "amount").is_ok() && num::less(ops::field(method, "amount")?, amount)? {
            return refuse(format!("Not enough balance in payment method {}", text::str(id)));
        }
    }
    let amounts = payments.items.iter().map(|payment| payments.attribute(payment, "amount"));
    let amounts = amounts.collect::<Result<Vec<_>, _>>()?;
    let paid = num::sum(amounts)?;
    if !ops::equal(&paid, total) {
        let (total, paid) = (text::str(total), text::str(&paid));
        return refuse(format!("Payment amount does not add up, total price is {total}, but paid {paid}"));
    }
    Ok(())
}

fn pay(world: &mut World, user_id: &Value, payments: &Models) -> Result<(), Failure> {
    for payment in &payments.items {
        let (id, amount) = (payments.attribute(payment, "payment_id")?, payments.attribute(payment, "amount")?);
        let method = ops::subscript(ops::dict_field(user(world, user_id)?, "payment_methods")?, id)?;
        let source = ops::field(method, "source")?.clone();
        if ops::is(&source, "gift_card") {
            charge(world, user_id, id, amount)?;
        } else if ops::is(&source, "certificate")
            && let Value::Dict(methods) = ops::field_mut(world.edit(USERS, user_id)?, "payment_methods")?
            && let Some(name) = ops::hashed(id)?
        {
            Arc::make_mut(methods).shift_remove(name);
        }
    }
    Ok(())
}

fn charge(world: &mut World, user_id: &Value, method: &Value, amount: &Value) -> Result<(), Failure> {
    let methods = ops::field_mut(world.edit(USERS, user_id)?, "payment_methods")?;
    let Some(name) = ops::hashed(method)? else { return Err(Raised::key(method).into()) };
    let card = ops::field_mut(methods, name)?;
    let left = num::sub("-=", ops::field(card, "amount")?, amount)?;
    Ok(ops::set(card, "amount", left)?)
}

fn cancel(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let id = arg(arguments, "reservation_id");
    let mut refunds = Vec::new();
    for payment in ops::iterate(ops::field(reservation(world, id)?, "payment_history")?)? {
        let amount = num::negate(ops::field(&payment, "amount")?)?;
        refunds.push(Value::dict([("payment_id", ops::field(&payment, "payment_id")?.clone()), ("amount", amount)]));
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::extend(ops::field_mut(reservation, "payment_history")?, refunds)?;
    ops::set(reservation, "status", "cancelled".into())?;
    show(reservation)
}

fn send_certificate(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (user_id, amount) = (arg(arguments, "user_id"), arg(arguments, "amount"));
    let methods = ops::dict_field(user(world, user_id)?, "payment_methods")?;
    let new = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];
    let Some(id) = new.into_iter().find(|id| !methods.contains_key(*id)) else {
        return refuse("Too many certificates");
    };
    let certificate = CERTIFICATE.shape(&Value::dict([
        ("source", "certificate".into()),
        ("id", id.into()),
        ("amount", amount.clone()),
    ]))?;
    ops::set(ops::field_mut(world.edit(USERS, user_id)?, "payment_methods")?, id, certificate)?;
    Ok(format!("Certificate {id} added to user {} with amount {}.", text::str(user_id), text::str(amount)))
}

/// Charges a change of the reservation and returns the payment to record, if any.
fn pay_for_update(
    world: &mut World,
    user_id: &Value,
    method_id: &Value,
    total: &Value,
) -> Result<Option<Value>, Failure> {
    let methods = ops::dict_field(user(world, user_id)?, "payment_methods")?;
    let Some(method) = ops::lookup(methods, method_id)? else { return refuse("Payment method not found") };
    let source = ops::field(method, "source")?;
    if ops::is(source, "certificate") {
        return refuse("Certificate cannot be used to update reservation");
    }
    if ops::is(source, "gift_card") {
        if num::less(ops::field(method, "amount")?, total)? {
            return refuse("Gift card balance is not enough");
        }
        charge(world, user_id, method_id, total)?;
    }
    if ops::equal(total, &Value::Int(0)) {
        return Ok(None);
    }
    let payment = Value::dict([("payment_id", method_id.clone()), ("amount", total.clone())]);
    Ok(Some(PAYMENT.shape(&payment)?))
}

fn update_baggages(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let (id, paid_bags) = (arg(arguments, "reservation_id"), arg(arguments, "nonfree_baggages"));
    let before = reservation(world, id)?.clone();
    let user_id = ops::field(&before, "user_id")?;
    user(world, user_id)?;
    let more = num::sub("-", paid_bags, ops::field(&before, "nonfree_baggages")?)?;
    let total = if num::greater(&more, &Value::Int(0))? { num::times(50, &more)? } else { Value::Int(0) };
    let payment = pay_for_update(world, user_id, arg(arguments, "payment_id"), &total)?;
    let reservation = world.edit(RESERVATIONS, id)?;
    if let Some(payment) = payment {
        ops::append(ops::field_mut(reservation, "payment_history")?, payment)?;
    }
    ops::set(reservation, "total_baggages", arg(arguments, "total_baggages").clone())?;
    ops::set(reservation, "nonfree_baggages", paid_bags.clone())?;
    show(reservation)
}

fn update_flights(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let infos = Models::of(arg(arguments, "flights"), &FLIGHT_INFO)?;
    let (id, cabin) = (arg(arguments, "reservation_id"), arg(arguments, "cabin"));
    let before = reservation(world, id)?.clone();
    let user_id = ops::field(&before, "user_id")?;
    user(world, user_id)?;
    let passengers = ops::len(ops::field(&before, "passengers")?)?;
    let old = ops::iterate(ops::field(&before, "flights")?)?;
    let same_cabin = ops::equal(cabin, ops::field(&before, "cabin")?);
    let (mut segments, mut total) = (Vec::new(), Value::Int(0));
    for info in &infos.items {
        let at = (infos.attribute(info, "flight_number")?, infos.attribute(info, "date")?);
        let kept = old.iter().find(|flight| {
            let is = |name, wanted| ops::field(flight, name).is_ok_and(|own| ops::equal(own, wanted));
            same_cabin && is("flight_number", at.0) && is("date", at.1)
        });
        let segment = match kept {
            Some(kept) => kept.clone(),
            None => bookable(world, at, cabin, passengers)?,
        };
        total = num::add("+=", &total, &num::times(passengers, ops::field(&segment, "price")?)?)?;
        segments.push(segment);
    }
    let prices = old.iter().map(|flight| ops::field(flight, "price")).collect::<Result<Vec<_>, _>>()?;
    total = num::sub("-=", &total, &num::times(passengers, &num::sum(prices)?)?)?;
    let payment = pay_for_update(world, user_id, arg(arguments, "payment_id"), &total)?;
    let reservation = world.edit(RESERVATIONS, id)?;
    if let Some(payment) = payment {
        ops::append(ops::field_mut(reservation, "payment_history")?, payment)?;
    }
    ops::set(reservation, "flights", Value::list(segments))?;
    ops::set(reservation, "cabin", cabin.clone())?;
    show(reservation)
}

fn update_passengers(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let passengers = Models::of(arg(arguments, "passengers"), &PASSENGER)?.value;
    let id = arg(arguments, "reservation_id");
    if ops::len(&passengers)? != ops::len(ops::field(reservation(world, id)?, "passengers")?)? {
        return refuse("Number of passengers does not match");
    }
    let reservation = world.edit(RESERVATIONS, id)?;
    ops::set(reservation, "passengers", passengers)?;
    show(reservation)
}
