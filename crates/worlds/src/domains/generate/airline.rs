//! An airline world: flights for a month, customers with memberships, reservations to come.

use hone_trace::Rng;

use super::draw::{Ids, address, chance, date_of_birth, name, text, whole};
use super::{Names, pick};
use crate::domains::airline::AIRPORTS;
use crate::domains::py::{Dict, Value};

pub(super) const CABINS: [&str; 3] = ["basic_economy", "economy", "business"];

/// Airports that generated flights serve.
const SERVED: usize = 8;

/// The tables in alphabetical order.
pub(super) fn tables(rng: &mut Rng, users: usize, names: Names) -> Vec<(&'static str, Dict)> {
    let flights = make_flights(rng);
    let mut ids = Ids::default();
    let (mut people, mut reservations) = (Dict::new(), Dict::new());
    for _ in 0..users {
        let (first, last) = name(rng, names);
        let id = ids.digits(rng, &format!("{}_{}_", first.to_lowercase(), last.to_lowercase()), 4);
        let person = make_user(rng, &mut ids, &id, (&first, &last));
        let own: Vec<Value> = (0..=rng.below(3))
            .filter_map(|_| make_reservation(rng, &mut ids, &id, &person, &flights))
            .map(|reservation| {
                let key = text(&reservation, "reservation_id").to_owned();
                reservations.insert(key.as_str().into(), reservation);
                Value::str(key)
            })
            .collect();
        let mut person = person;
        person.insert("reservations".into(), Value::list(own));
        people.insert(id.into(), Value::dict(person));
    }
    vec![("flights", flights), ("reservations", reservations), ("users", people)]
}

/// Two flights a day on every route, at different hours.
fn make_flights(rng: &mut Rng) -> Dict {
    let mut flights = Dict::new();
    for (origin, _) in &AIRPORTS[..SERVED] {
        for (destination, _) in AIRPORTS[..SERVED].iter().filter(|(other, _)| other != origin) {
            let first = 5 + rng.below(6);
            for hour in [first, first + 5 + rng.below(5)] {
                let number = format!("HAT{:03}", flights.len() + 1);
                let arrival = hour + 2 + rng.below(5);
                let arrival = format!("{:02}:00:00{}", arrival % 24, if arrival < 24 { "" } else { "+1" });
                let dates = (1..=30).map(|day| (format!("2024-05-{day:02}"), make_day(rng, day, hour)));
                let flight = Value::dict([
                    ("flight_number", Value::str(number.as_str())),
                    ("origin", (*origin).into()),
                    ("destination", (*destination).into()),
                    ("scheduled_departure_time_est", Value::str(format!("{hour:02}:00:00"))),
                    ("scheduled_arrival_time_est", Value::str(arrival)),
                    ("dates", Value::dict(dates)),
                ]);
                flights.insert(number.into(), flight);
            }
        }
    }
    flights
}

/// One day of a flight: flown until the 14th, under way on the 15th, on sale after.
fn make_day(rng: &mut Rng, day: usize, hour: usize) -> Value {
    let at = |name: &'static str, hours: usize| {
        (name, Value::str(format!("2024-05-{day:02}T{:02}:{:02}:00", (hour + hours).min(23), 10)))
    };
    if day > 15 {
        let per_cabin = |amounts: [usize; 3]| {
            Value::dict(CABINS.iter().zip(amounts).map(|(cabin, amount)| (*cabin, Value::Int(amount as i64))))
        };
        let base = 50 + rng.below(60);
        let seats = [(); 3].map(|()| rng.below(20));
        let prices = [base, base + 50 + rng.below(80), base + 200 + rng.below(250)];
        return Value::dict([
            ("status", "available".into()),
            ("available_seats", per_cabin(seats)),
            ("prices", per_cabin(prices)),
        ]);
    }
    if chance(rng, 8) {
        return Value::dict([("status", "cancelled".into())]);
    }
    let (status, times) = match day {
        15 if hour < 13 => ("flying", [at("actual_departure_time_est", 0), at("estimated_arrival_time_est", 3)]),
        15 => (
            *pick(rng, &["on time", "delayed"]),
            [at("estimated_departure_time_est", 0), at("estimated_arrival_time_est", 3)],
        ),
        _ => ("landed", [at("actual_departure_time_est", 0), at("actual_arrival_time_est", 3)]),
    };
    let [first, second] = times;
    Value::dict([("status", status.into()), first, second])
}

fn make_user(rng: &mut Rng, ids: &mut Ids, id: &str, (first, last): (&str, &str)) -> Dict {
    let mut methods = Dict::new();
    for kind in ["credit_card", "gift_card", "certificate"] {
        if kind != "credit_card" && chance(rng, 45) {
            continue;
        }
        let method_id = ids.digits(rng, &format!("{kind}_"), 7);
        let mut method = vec![("source", kind.into())];
        if kind == "credit_card" {
            method.push(("brand", (*pick(rng, &["visa", "mastercard"])).into()));
            method.push(("last_four", Value::str(format!("{:04}", rng.below(10_000)))));
        } else {
            method.push(("amount", Value::Int(50 + 10 * rng.below(40) as i64)));
        }
        method.push(("id", Value::str(method_id.as_str())));
        methods.insert(method_id.into(), Value::dict(method));
    }
    let passenger = |rng: &mut Rng| {
        let (first, last) = name(rng, Names::Common);
        person(&first, &last, &date_of_birth(rng))
    };
    let saved = (0..rng.below(3)).map(|_| passenger(rng)).collect();
    let home = address(rng);
    let fields: [(&str, Value); 7] = [
        ("name", Value::dict([("first_name", first.into()), ("last_name", last.into())])),
        ("address", home),
        ("email", Value::str(format!("{}.{}@example.com", first.to_lowercase(), &id[id.len() - 4..]))),
        ("dob", Value::str(date_of_birth(rng))),
        ("payment_methods", Value::dict(methods)),
        ("saved_passengers", Value::list(saved)),
        ("membership", (*pick(rng, &["regular", "silver", "gold"])).into()),
    ];
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

pub(super) fn person(first: &str, last: &str, dob: &str) -> Value {
    Value::dict([("first_name", first.into()), ("last_name", last.into()), ("dob", dob.into())])
}

/// Free checked bags of one passenger.
pub(super) fn free_bags(membership: &str, cabin: &str) -> i64 {
    let row = match membership {
        "gold" => [2, 3, 3],
        "silver" => [1, 2, 3],
        _ => [0, 1, 2],
    };
    CABINS.iter().position(|known| *known == cabin).map_or(0, |at| row[at])
}

/// A direct trip, one way or there and back, paid by one method.
fn make_reservation(rng: &mut Rng, ids: &mut Ids, user_id: &str, user: &Dict, flights: &Dict) -> Option<Value> {
    let all: Vec<&Value> = flights.values().collect();
    let out = *pick(rng, &all);
    let (origin, destination) = (text(out, "origin"), text(out, "destination"));
    let back = *all.iter().find(|back| text(back, "origin") == destination && text(back, "destination") == origin)?;
    let round_trip = chance(rng, 40);
    let cabin = *pick(rng, &CABINS);
    let day = 16 + rng.below(8);
    let mut legs = vec![(out, day)];
    if round_trip {
        legs.push((back, day + 2 + rng.below(4)));
    }
    let segments: Vec<Value> = legs.iter().filter_map(|(flight, day)| segment(flight, *day, cabin)).collect();
    let user_record = Value::dict(user.clone());
    let own_name = user.get("name")?;
    let mut passengers =
        vec![person(text(own_name, "first_name"), text(own_name, "last_name"), text(&user_record, "dob"))];
    for _ in 0..rng.below(3) {
        let (first, last) = name(rng, Names::Common);
        passengers.push(person(&first, &last, &date_of_birth(rng)));
    }
    let count = passengers.len() as i64;
    let free = free_bags(text(&user_record, "membership"), cabin) * count;
    let bags = rng.below(3) as i64;
    let insured = chance(rng, 40);
    let fare: i64 = segments.iter().map(|segment| whole(segment, "price")).sum::<i64>() * count;
    let paid = fare + if insured { 30 * count } else { 0 } + 50 * (bags - free).max(0);
    let card = user.get("payment_methods")?.as_dict()?.keys().find(|id| id.starts_with("credit_card"))?.clone();
    let letters: Vec<char> = ('A'..='Z').chain('0'..='9').collect();
    let id = ids.fresh(|| (0..6).map(|_| *pick(rng, &letters)).collect());
    // A third was booked since this time yesterday.
    let created = if chance(rng, 33) { "2024-05-15T09:30:00" } else { "2024-05-04T10:15:00" };
    Some(Value::dict([
        ("reservation_id", Value::str(id)),
        ("user_id", user_id.into()),
        ("origin", origin.into()),
        ("destination", destination.into()),
        ("flight_type", if round_trip { "round_trip" } else { "one_way" }.into()),
        ("cabin", cabin.into()),
        ("flights", Value::list(segments)),
        ("passengers", Value::list(passengers)),
        (
            "payment_history",
            Value::list(vec![Value::dict([("payment_id", Value::Str(card)), ("amount", Value::Int(paid))])]),
        ),
        ("created_at", created.into()),
        ("total_baggages", Value::Int(bags)),
        ("nonfree_baggages", Value::Int((bags - free).max(0))),
        ("insurance", if insured { "yes" } else { "no" }.into()),
    ]))
}

fn segment(flight: &Value, day: usize, cabin: &str) -> Option<Value> {
    let date = format!("2024-05-{day:02}");
    let prices = flight.as_dict()?.get("dates")?.as_dict()?.get(date.as_str())?.as_dict()?.get("prices")?;
    Some(Value::dict([
        ("origin", text(flight, "origin").into()),
        ("destination", text(flight, "destination").into()),
        ("flight_number", text(flight, "flight_number").into()),
        ("date", Value::str(date)),
        ("price", Value::Int(whole(prices, cabin))),
    ]))
}
