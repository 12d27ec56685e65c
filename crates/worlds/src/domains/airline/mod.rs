//! The airline domain: flights by date, reservations, users with cards, gift cards and certificates.
//!
//! As in retail, checks and writes happen in tau-bench's order. Under the strict rules seats are counted, a cabin change
//! is recorded, a connection on the next day uses that day's seats and prices, and a booking without flights is refused.

mod book;
mod search;
mod seats;
mod spec;
mod update;

pub(super) use search::AIRPORTS;
pub(crate) use search::next_day_in_may;
pub(super) use spec::SPECS;

use super::calculate;
use super::py::{Raised, Value, ops};
use super::tool::{Failure, Tool, refuse};
use super::world::{TableId, World};

pub(super) const TABLES: [&str; 3] = ["flights", "reservations", "users"];
pub(crate) const FLIGHTS: TableId = TableId(0);
pub(crate) const RESERVATIONS: TableId = TableId(1);
pub(crate) const USERS: TableId = TableId(2);

/// Current time in every episode.
pub(crate) const NOW: &str = "2024-05-15T15:00:00";

/// Tools, in the order in which the model sees them.
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
        run: book::book,
    },
    Tool { name: "calculate", parameters: &["expression"], run: calculate::run },
    Tool { name: "cancel_reservation", parameters: &["reservation_id"], run: update::cancel },
    Tool { name: "get_reservation_details", parameters: &["reservation_id"], run: search::reservation },
    Tool { name: "get_user_details", parameters: &["user_id"], run: search::user },
    Tool { name: "list_all_airports", parameters: &[], run: search::airports },
    Tool { name: "search_direct_flight", parameters: &["origin", "destination", "date"], run: search::direct },
    Tool { name: "search_onestop_flight", parameters: &["origin", "destination", "date"], run: search::one_stop },
    Tool { name: "send_certificate", parameters: &["user_id", "amount"], run: book::send_certificate },
    Tool { name: "think", parameters: &["thought"], run: |_, _, _| Ok(String::new()) },
    Tool {
        name: "transfer_to_human_agents",
        parameters: &["summary"],
        run: |_, _, _| Ok("Transfer successful".into()),
    },
    Tool {
        name: "update_reservation_baggages",
        parameters: &["reservation_id", "total_baggages", "nonfree_baggages", "payment_id"],
        run: update::baggages,
    },
    Tool {
        name: "update_reservation_flights",
        parameters: &["reservation_id", "cabin", "flights", "payment_id"],
        run: update::flights,
    },
    Tool {
        name: "update_reservation_passengers",
        parameters: &["reservation_id", "passengers"],
        run: update::passengers,
    },
];

/// A flight as it flies on one date.
struct Leg {
    origin: Value,
    destination: Value,
    price: Value,
}

/// The flight and date a segment names, when `passengers` more people fit into its cabin.
fn available_leg(world: &World, segment: &Value, cabin: &Value, passengers: &Value) -> Result<Leg, Failure> {
    let number = ops::field(segment, "flight_number")?;
    let shown = super::py::text::str(number);
    let Some(flight) = world.find(FLIGHTS, number)? else { return refuse(format!("flight {shown} not found")) };
    let date = ops::field(segment, "date")?;
    let on = super::py::text::str(date);
    let Some(day) = ops::lookup(ops::dict_field(flight, "dates")?, date)? else {
        return refuse(format!("flight {shown} not found on date {on}"));
    };
    if !ops::is(ops::field(day, "status")?, "available") {
        return refuse(format!("flight {shown} not available on date {on}"));
    }
    let seats = ops::subscript(ops::dict_field(day, "available_seats")?, cabin)?;
    if super::py::num::less(seats, &Value::Int(ops::len(passengers)?))? {
        return refuse(format!("not enough seats on flight {shown}"));
    }
    Ok(Leg {
        price: ops::subscript(ops::dict_field(day, "prices")?, cabin)?.clone(),
        origin: ops::field(flight, "origin")?.clone(),
        destination: ops::field(flight, "destination")?.clone(),
    })
}

/// Writes price and route into a segment; the keys come after the agent's own.
fn price_segment(segment: &mut Value, leg: &Leg) -> Result<(), Raised> {
    ops::set(segment, "price", leg.price.clone())?;
    ops::set(segment, "origin", leg.origin.clone())?;
    ops::set(segment, "destination", leg.destination.clone())
}

fn is_gift_card(method: &Value) -> Result<bool, Raised> {
    Ok(ops::is(ops::field(method, "source")?, "gift_card"))
}

/// Takes `amount` off a gift card.
fn charge(world: &mut World, user: &Value, method: &Value, amount: &Value) -> Result<(), Raised> {
    let methods = ops::field_mut(world.edit(USERS, user)?, "payment_methods")?;
    let Some(name) = ops::hashed(method)? else { return Err(Raised::key(method)) };
    let card = ops::field_mut(methods, name)?;
    let left = super::py::num::sub("-=", ops::field(card, "amount")?, amount)?;
    ops::set(card, "amount", left)
}
