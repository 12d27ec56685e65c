//! tau2's flights: search, status, seats.

use super::super::airline::{AIRPORTS, FLIGHTS, next_day_in_may};
use super::super::py::{Dict, Value, num, ops, text};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;

/// A flight and one of its days.
pub(super) struct Day<'a> {
    pub(super) flight: &'a Value,
    pub(super) day: &'a Value,
}

pub(super) fn find_day<'a>(world: &'a World, number: &Value, date: &Value) -> Result<Day<'a>, Failure> {
    let shown = text::str(number);
    let Some(flight) = world.find(FLIGHTS, number)? else { return refuse(format!("Flight {shown} not found")) };
    let Some(day) = ops::lookup(ops::dict_field(flight, "dates")?, date)? else {
        return refuse(format!("Flight {shown} not found on date {}", text::str(date)));
    };
    Ok(Day { flight, day })
}

pub(super) fn airports(_: &mut World, _: &Dict, _: Rules) -> Answer {
    let airports = AIRPORTS.map(|(iata, city)| Value::dict([("iata", iata.into()), ("city", city.into())]));
    show(&Value::list(airports.to_vec()))
}

pub(super) fn status(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let day = find_day(world, arg(arguments, "flight_number"), arg(arguments, "date"))?.day;
    Ok(text::str(ops::field(day, "status")?))
}

/// Criteria of a flight search.
struct Wanted<'a> {
    origin: &'a Value,
    destination: &'a Value,
    date: &'a Value,
    leaves_after: Option<&'a Value>,
    /// The date shown in the offers.
    shown_date: Value,
}

fn search(world: &World, wanted: &Wanted<'_>) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for (_, flight) in world.records(FLIGHTS) {
        if !is_any_or(wanted.origin, ops::field(flight, "origin")?)
            || !is_any_or(wanted.destination, ops::field(flight, "destination")?)
        {
            continue;
        }
        let Some(day) = ops::lookup(ops::dict_field(flight, "dates")?, wanted.date)? else { continue };
        if !ops::is(ops::field(day, "status")?, "available") {
            continue;
        }
        if let Some(time) = wanted.leaves_after
            && num::less(ops::field(flight, "scheduled_departure_time_est")?, time)?
        {
            continue;
        }
        found.push(offer(flight, day, &wanted.shown_date)?);
    }
    Ok(found)
}

/// `None` matches any airport.
fn is_any_or(wanted: &Value, own: &Value) -> bool {
    matches!(wanted, Value::None) || ops::equal(own, wanted)
}

fn offer(flight: &Value, day: &Value, date: &Value) -> Result<Value, Failure> {
    let of = |record: &Value, name: &str| ops::field(record, name).cloned();
    Ok(Value::dict([
        ("flight_number", of(flight, "flight_number")?),
        ("origin", of(flight, "origin")?),
        ("destination", of(flight, "destination")?),
        ("status", "available".into()),
        ("scheduled_departure_time_est", of(flight, "scheduled_departure_time_est")?),
        ("scheduled_arrival_time_est", of(flight, "scheduled_arrival_time_est")?),
        ("date", date.clone()),
        ("available_seats", of(day, "available_seats")?),
        ("prices", of(day, "prices")?),
    ]))
}

pub(super) fn direct(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let wanted = Wanted {
        origin: arg(arguments, "origin"),
        destination: arg(arguments, "destination"),
        date: arg(arguments, "date"),
        leaves_after: None,
        shown_date: Value::None,
    };
    show(&Value::list(search(world, &wanted)?))
}

pub(super) fn one_stop(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let date = arg(arguments, "date");
    let first = Wanted {
        origin: arg(arguments, "origin"),
        destination: &Value::None,
        date,
        leaves_after: None,
        shown_date: date.clone(),
    };
    let mut found = Vec::new();
    for leg1 in search(world, &first)? {
        let arrival = ops::field(&leg1, "scheduled_arrival_time_est")?;
        let overnight = arrival.as_str().is_some_and(|time| time.contains("+1"));
        let date2 = if overnight { next_day_in_may(date)? } else { date.clone() };
        let second = Wanted {
            origin: ops::field(&leg1, "destination")?,
            destination: arg(arguments, "destination"),
            date: &date2,
            leaves_after: Some(arrival),
            shown_date: date2.clone(),
        };
        for leg2 in search(world, &second)? {
            found.push(Value::list(vec![leg1.clone(), leg2]));
        }
    }
    show(&Value::list(found))
}

/// Takes seats for everyone on every segment, twice if a segment is named twice.
pub(super) fn take_seats(world: &mut World, segments: &[Value], cabin: &Value, passengers: i64) -> Result<(), Failure> {
    for segment in segments {
        let days = ops::field_mut(world.edit(FLIGHTS, ops::field(segment, "flight_number")?)?, "dates")?;
        let day = ops::field_mut(days, ops::field(segment, "date")?.as_str().unwrap_or_default())?;
        let seats = ops::field_mut(day, "available_seats")?;
        let Some(cabin) = cabin.as_str() else { continue };
        let left = num::sub("-=", ops::field(seats, cabin)?, &Value::Int(passengers))?;
        ops::set(seats, cabin, left)?;
    }
    Ok(())
}
