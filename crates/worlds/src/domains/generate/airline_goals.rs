//! Goals of airline customers, and the calls that fulfil them.
//!
//! As in retail, a goal is in the user's terms and its calls are searched among all reservations, flights and payment
//! methods that fit them. Users only ask for what the policy allows.

use hone_trace::{Rng, ToolCall};
use serde_json::{Value as Json, json};

use super::airline::{CABINS, free_bags, person};
use super::draw::{call, chance, items, name, text, whole};
use super::{Draft, Goal, Names, pick};
use crate::domains::airline::{FLIGHTS, RESERVATIONS, USERS};
use crate::domains::py::Value;
use crate::domains::world::World;
use hone_arena::users::Topic;

/// A customer and their reservations.
struct Customer<'a> {
    world: &'a World,
    id: &'a str,
    record: &'a Value,
    reservations: Vec<&'a Value>,
}

/// A reservation as its owner speaks of it.
struct TripBy {
    id: Option<String>,
    origin: String,
    destination: String,
}

impl TripBy {
    fn matches(&self, trip: &Value) -> bool {
        match &self.id {
            Some(id) => text(trip, "reservation_id") == id,
            None => text(trip, "origin") == self.origin && text(trip, "destination") == self.destination,
        }
    }

    fn says(&self) -> String {
        match &self.id {
            Some(id) => format!("reservation {id}"),
            None => format!("my trip from {} to {}", self.origin, self.destination),
        }
    }
}

pub(super) fn draft(world: &World, id: &str, rng: &mut Rng, difficulty: u8) -> Option<Draft> {
    let record = world.get(USERS, id)?;
    let reservations =
        items(record, "reservations").iter().filter_map(|id| world.get(RESERVATIONS, id.as_str()?)).collect();
    let customer = Customer { world, id, record, reservations };
    let mut trips = customer.reservations.clone();
    rng.shuffle(&mut trips);
    let wanted = if difficulty == 3 { 2 } else { 1 };
    let mut goals = Vec::new();
    if difficulty > 1 && chance(rng, 40) {
        goals.extend(book(&customer, rng));
    }
    for trip in trips {
        if goals.len() < wanted {
            goals.extend(goal(&customer, rng, trip, difficulty));
        }
    }
    if goals.len() < wanted {
        return None;
    }
    let question = if difficulty == 3 { Some(question(&customer, rng)?) } else { None };
    let (first, last) = customer.name();
    Some(Draft {
        user_id: customer.id.to_owned(),
        identity: format!("You are {first} {last}. Your user id is {}.", customer.id),
        asks: "May I have your user id?",
        finds: vec![call("get_user_details", &[("user_id", customer.id.into())])],
        goals,
        question,
        knows: vec![
            Topic { asked: vec!["user id".into(), "id".into()], answer: format!("My user id is {}.", customer.id) },
            Topic { asked: vec!["name".into()], answer: format!("My name is {first} {last}.") },
        ],
    })
}

fn goal(customer: &Customer<'_>, rng: &mut Rng, trip: &Value, difficulty: u8) -> Option<Goal> {
    let by_id = difficulty == 1;
    match rng.below(if by_id { 3 } else { 6 }) {
        0 => cancel(customer, trip, by_id),
        1 => Some(add_bags(customer, rng, trip, by_id)),
        2 if by_id => rename(customer, rng, trip),
        2 | 3 => upgrade(customer, rng, trip),
        _ => postpone(customer, rng, trip),
    }
}

impl<'a> Customer<'a> {
    fn name(&self) -> (&'a str, &'a str) {
        let name = self.record.as_dict().and_then(|record| record.get("name")).unwrap_or(self.record);
        (text(name, "first_name"), text(name, "last_name"))
    }

    fn methods(&self) -> Vec<&'a Value> {
        let methods = self.record.as_dict().and_then(|record| record.get("payment_methods")).and_then(Value::as_dict);
        methods.map(|methods| methods.values().collect()).unwrap_or_default()
    }

    /// Cards and gift cards: the payment methods for changes.
    fn payers(&self) -> Vec<&'a Value> {
        self.methods().into_iter().filter(|method| text(method, "source") != "certificate").collect()
    }

    fn methods_said(&self, method: &Value) -> Vec<&'a str> {
        let said = method_says(method);
        self.methods().into_iter().filter(|other| method_says(other) == said).map(|method| text(method, "id")).collect()
    }

    fn by(trip: &Value, by_id: bool) -> TripBy {
        TripBy {
            id: by_id.then(|| text(trip, "reservation_id").to_owned()),
            origin: text(trip, "origin").to_owned(),
            destination: text(trip, "destination").to_owned(),
        }
    }

    fn trips_by<'b>(&'b self, by: &'b TripBy) -> impl Iterator<Item = &'a Value> + 'b {
        self.reservations.iter().copied().filter(|trip| by.matches(trip))
    }

    fn reads(&self, by: &TripBy) -> Vec<ToolCall> {
        let look =
            |trip: &&Value| call("get_reservation_details", &[("reservation_id", text(trip, "reservation_id").into())]);
        match self.reservations.iter().position(|trip| by.matches(trip)) {
            Some(at) if by.id.is_none() => self.reservations[..=at].iter().map(look).collect(),
            Some(at) => vec![look(&self.reservations[at])],
            None => Vec::new(),
        }
    }
}

fn method_says(method: &Value) -> String {
    match text(method, "source") {
        "credit_card" => format!("my credit card ending in {}", text(method, "last_four")),
        "gift_card" => "my gift card".into(),
        _ => "my certificate".into(),
    }
}

fn id_of(trip: &Value) -> (&'static str, Json) {
    ("reservation_id", text(trip, "reservation_id").into())
}

/// Business trips and those booked within a day may be cancelled for any reason.
fn cancel(customer: &Customer<'_>, trip: &Value, by_id: bool) -> Option<Goal> {
    if text(trip, "cabin") != "business" && !text(trip, "created_at").starts_with("2024-05-15") {
        return None;
    }
    let by = Customer::by(trip, by_id);
    Some(Goal {
        says: format!("I want to cancel {}: my plans have changed.", by.says()),
        reads: customer.reads(&by),
        satisfying: customer.trips_by(&by).map(|trip| call("cancel_reservation", &[id_of(trip)])).collect(),
    })
}

fn add_bags(customer: &Customer<'_>, rng: &mut Rng, trip: &Value, by_id: bool) -> Goal {
    let by = Customer::by(trip, by_id);
    let payers = customer.payers();
    let (method, more) = (pick(rng, &payers), 1 + rng.below(3) as i64);
    let mut satisfying = Vec::new();
    for trip in customer.trips_by(&by) {
        let total = whole(trip, "total_baggages") + more;
        let free = free_bags(text(customer.record, "membership"), text(trip, "cabin"))
            * items(trip, "passengers").len() as i64;
        let paid = (total - free).max(whole(trip, "nonfree_baggages"));
        satisfying.extend(customer.methods_said(method).into_iter().map(|method| {
            let counts = [("total_baggages", json!(total)), ("nonfree_baggages", json!(paid))];
            let [total, paid] = counts;
            call("update_reservation_baggages", &[id_of(trip), total, paid, ("payment_id", method.into())])
        }));
    }
    let plural = if more == 1 { "bag" } else { "bags" };
    Goal {
        says: format!("I want to add {more} checked {plural} to {}, paid with {}.", by.says(), method_says(method)),
        reads: customer.reads(&by),
        satisfying,
    }
}

/// A passenger's last name is corrected.
fn rename(customer: &Customer<'_>, rng: &mut Rng, trip: &Value) -> Option<Goal> {
    let by = Customer::by(trip, true);
    let passengers = items(trip, "passengers");
    let wrong = pick(rng, passengers);
    let (_, right) = name(rng, Names::Common);
    let (first, last) = (text(wrong, "first_name"), text(wrong, "last_name"));
    if right == last || passengers.iter().filter(|other| text(other, "first_name") == first).count() > 1 {
        return None;
    }
    let renamed = |passenger: &Value| {
        let own = (text(passenger, "first_name"), text(passenger, "last_name"), text(passenger, "dob"));
        json_of(&person(own.0, if (own.0, own.1) == (first, last) { &right } else { own.1 }, own.2))
    };
    let change = |trip: &Value| {
        let passengers: Vec<Json> = items(trip, "passengers").iter().map(renamed).collect();
        call("update_reservation_passengers", &[id_of(trip), ("passengers", passengers.into())])
    };
    Some(Goal {
        says: format!("The last name of {first} {last} on {} is wrong: it should be {right}.", by.says()),
        reads: customer.reads(&by),
        satisfying: customer.trips_by(&by).map(change).collect(),
    })
}

fn json_of(value: &Value) -> Json {
    serde_json::from_str(&crate::domains::py::json::dumps(value)).unwrap_or_default()
}

fn segments(trip: &Value) -> Vec<(String, String)> {
    let of = |segment: &Value| (text(segment, "flight_number").to_owned(), text(segment, "date").to_owned());
    items(trip, "flights").iter().map(of).collect()
}

fn update_flights(trip: &Value, cabin: &str, segments: &[(String, String)], method: &str) -> ToolCall {
    let flights: Vec<Json> =
        segments.iter().map(|(number, date)| json!({ "flight_number": number, "date": date })).collect();
    call(
        "update_reservation_flights",
        &[id_of(trip), ("cabin", cabin.into()), ("flights", flights.into()), ("payment_id", method.into())],
    )
}

/// A better cabin on the same flights.
fn upgrade(customer: &Customer<'_>, rng: &mut Rng, trip: &Value) -> Option<Goal> {
    let by = Customer::by(trip, false);
    let at = CABINS.iter().position(|cabin| *cabin == text(trip, "cabin"))?;
    let cabin = *rng.pick(&CABINS[at + 1..])?;
    let payers = customer.payers();
    let method = pick(rng, &payers);
    let mut satisfying = Vec::new();
    for trip in customer.trips_by(&by) {
        let methods = customer.methods_said(method).into_iter();
        satisfying.extend(methods.map(|method| update_flights(trip, cabin, &segments(trip), method)));
    }
    let (trip, paid) = (by.says(), method_says(method));
    Some(Goal {
        says: format!("I want {trip} upgraded to {} on the same flights, paid with {paid}.", cabin.replace('_', " ")),
        reads: customer.reads(&by),
        satisfying,
    })
}

/// The last flight of a trip on a later day, at a given hour.
fn postpone(customer: &Customer<'_>, rng: &mut Rng, trip: &Value) -> Option<Goal> {
    if text(trip, "cabin") == "basic_economy" {
        return None;
    }
    let by = Customer::by(trip, false);
    let own = segments(trip);
    let (number, date) = own.last()?;
    let day: u32 = date[8..].parse().ok()?;
    let later = format!("2024-05-{:02}", (day + 1 + rng.below(3) as u32).min(30));
    let flight = customer.world.get(FLIGHTS, number)?;
    let hours: Vec<&str> = (customer.world.records(FLIGHTS))
        .filter(|(_, other)| {
            text(other, "origin") == text(flight, "origin") && text(other, "destination") == text(flight, "destination")
        })
        .map(|(_, other)| text(other, "scheduled_departure_time_est"))
        .collect();
    let hour = *pick(rng, &hours);
    let payers = customer.payers();
    let method = pick(rng, &payers);
    let mut satisfying = Vec::new();
    for trip in customer.trips_by(&by) {
        let mut moved = segments(trip);
        let Some(last) = moved.pop().and_then(|(number, _)| customer.world.get(FLIGHTS, &number)) else { continue };
        for (number, other) in customer.world.records(FLIGHTS) {
            let same_route = text(other, "origin") == text(last, "origin")
                && text(other, "destination") == text(last, "destination");
            if !same_route || text(other, "scheduled_departure_time_est") != hour {
                continue;
            }
            let segments = [&moved[..], &[(number.to_string(), later.clone())]].concat();
            let methods = customer.methods_said(method).into_iter();
            satisfying.extend(methods.map(|method| update_flights(trip, text(trip, "cabin"), &segments, method)));
        }
    }
    let mut reads = customer.reads(&by);
    reads.push(search(text(flight, "origin"), text(flight, "destination"), &later));
    let which = if own.len() == 1 { "the flight" } else { "the return flight" };
    let says = format!(
        "I want to move {which} of {} to {later}, leaving at {}, with {} for the difference.",
        by.says(),
        &hour[..5],
        method_says(method)
    );
    Some(Goal { says, reads, satisfying })
}

fn search(origin: &str, destination: &str, date: &str) -> ToolCall {
    let route = [("origin", origin.into()), ("destination", destination.into()), ("date", date.into())];
    call("search_direct_flight", &route)
}

/// New one-way trip for the user only, on the cheapest direct flight of a day.
fn book(customer: &Customer<'_>, rng: &mut Rng) -> Option<Goal> {
    let flights: Vec<&Value> = customer.world.records(FLIGHTS).map(|(_, flight)| flight).collect();
    let example = *pick(rng, &flights);
    let (origin, destination) = (text(example, "origin"), text(example, "destination"));
    let (date, cabin) = (format!("2024-05-{:02}", 16 + rng.below(14)), *pick(rng, &CABINS));
    let card = customer.methods().into_iter().find(|method| text(method, "source") == "credit_card")?;
    let (first, last) = customer.name();
    let passenger = json_of(&person(first, last, text(customer.record, "dob")));
    let offers: Vec<(i64, &Value)> = (flights.iter())
        .filter(|flight| text(flight, "origin") == origin && text(flight, "destination") == destination)
        .filter_map(|flight| Some((price_with_seat(flight, &date, cabin)?, *flight)))
        .collect();
    let cheapest = offers.iter().map(|(price, _)| *price).min()?;
    let insured = chance(rng, 30);
    let total = cheapest + if insured { 30 } else { 0 };
    let book = |(_, flight): &(i64, &Value), card: &str| {
        let segment = json!([{ "flight_number": text(flight, "flight_number"), "date": date }]);
        call(
            "book_reservation",
            &[
                ("user_id", customer.id.into()),
                ("origin", origin.into()),
                ("destination", destination.into()),
                ("flight_type", "one_way".into()),
                ("cabin", cabin.into()),
                ("flights", segment),
                ("passengers", json!([passenger])),
                ("payment_methods", json!([{ "payment_id": card, "amount": total }])),
                ("total_baggages", json!(0)),
                ("nonfree_baggages", json!(0)),
                ("insurance", if insured { "yes" } else { "no" }.into()),
            ],
        )
    };
    let mut satisfying = Vec::new();
    for offer in offers.iter().filter(|(price, _)| *price == cheapest) {
        satisfying.extend(customer.methods_said(card).into_iter().map(|card| book(offer, card)));
    }
    let with = if insured { "with" } else { "without" };
    let says = format!(
        "I want to book the cheapest direct flight from {origin} to {destination} on {date} in {} for myself, one way, {with} insurance, without bags, paid with {}.",
        cabin.replace('_', " "),
        method_says(card)
    );
    Some(Goal { says, reads: vec![search(origin, destination, &date)], satisfying })
}

/// The price of a cabin that has a seat left.
fn price_with_seat(flight: &Value, date: &str, cabin: &str) -> Option<i64> {
    let day = flight.as_dict()?.get("dates")?.as_dict()?.get(date)?.as_dict()?;
    let of = |name: &str| day.get(name).map(|by_cabin| whole(by_cabin, cabin));
    (of("available_seats")? > 0).then(|| of("prices"))?
}

/// A question: the price of a reservation's flights for each passenger.
fn question(customer: &Customer<'_>, rng: &mut Rng) -> Option<(String, String)> {
    let trip = *rng.pick(&customer.reservations)?;
    let paid: i64 = items(trip, "payment_history").iter().map(|payment| whole(payment, "amount")).sum();
    let id = text(trip, "reservation_id");
    Some((
        format!("I also want to know how many dollars I paid for reservation {id} when I booked it."),
        paid.to_string(),
    ))
}
