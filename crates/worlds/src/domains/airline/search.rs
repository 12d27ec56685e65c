//! Reading records and searching flights.

use super::super::dates;
use super::super::py::{Dict, Raised, Value, num, ops, text};
use super::super::tool::{Answer, Failure, Rules, arg, refuse, show};
use super::super::world::World;
use super::{FLIGHTS, RESERVATIONS, USERS};

/// The airports of the network and their cities.
pub(crate) const AIRPORTS: [(&str, &str); 20] = [
    ("SFO", "San Francisco"),
    ("JFK", "New York"),
    ("LAX", "Los Angeles"),
    ("ORD", "Chicago"),
    ("DFW", "Dallas"),
    ("DEN", "Denver"),
    ("SEA", "Seattle"),
    ("ATL", "Atlanta"),
    ("MIA", "Miami"),
    ("BOS", "Boston"),
    ("PHX", "Phoenix"),
    ("IAH", "Houston"),
    ("LAS", "Las Vegas"),
    ("MCO", "Orlando"),
    ("EWR", "Newark"),
    ("CLT", "Charlotte"),
    ("MSP", "Minneapolis"),
    ("DTW", "Detroit"),
    ("PHL", "Philadelphia"),
    ("LGA", "LaGuardia"),
];

pub(super) fn user(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    world.find(USERS, arg(arguments, "user_id"))?.map_or_else(|| refuse("user not found"), show)
}

pub(super) fn reservation(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    // Upstream says "user" here.
    let missing = if rules == Rules::Compat { "user not found" } else { "reservation not found" };
    world.find(RESERVATIONS, arg(arguments, "reservation_id"))?.map_or_else(|| refuse(missing), show)
}

pub(super) fn airports(_: &mut World, _: &Dict, _: Rules) -> Answer {
    show(&Value::dict(AIRPORTS.map(|(code, city)| (code, city.into()))))
}

pub(super) fn direct(world: &mut World, arguments: &Dict, _: Rules) -> Answer {
    let date = arg(arguments, "date");
    let mut found = Vec::new();
    for (_, flight) in world.records(FLIGHTS) {
        if ops::equal(ops::field(flight, "origin")?, arg(arguments, "origin"))
            && ops::equal(ops::field(flight, "destination")?, arg(arguments, "destination"))
            && let Some(day) = available(flight, date)?
        {
            found.push(offer(flight, day)?);
        }
    }
    show(&Value::list(found))
}

/// The flight's day, if seats are sold for it.
fn available<'a>(flight: &'a Value, date: &Value) -> Result<Option<&'a Value>, Raised> {
    match ops::lookup(ops::dict_field(flight, "dates")?, date)? {
        Some(day) if ops::is(ops::field(day, "status")?, "available") => Ok(Some(day)),
        _ => Ok(None),
    }
}

/// The flight without its dates, joined with one of them.
fn offer(flight: &Value, day: &Value) -> Result<Value, Raised> {
    let mut offer = Dict::new();
    for part in [flight, day] {
        let entries = part.as_dict().ok_or_else(|| Raised::new("a flight is not a dictionary"))?;
        offer.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
        offer.shift_remove("dates");
    }
    Ok(Value::dict(offer))
}

pub(super) fn one_stop(world: &mut World, arguments: &Dict, rules: Rules) -> Answer {
    let date = arg(arguments, "date");
    let mut found = Vec::new();
    for (_, first) in world.records(FLIGHTS) {
        if !ops::equal(ops::field(first, "origin")?, arg(arguments, "origin")) {
            continue;
        }
        for (_, second) in world.records(FLIGHTS) {
            if ops::equal(ops::field(second, "destination")?, arg(arguments, "destination"))
                && ops::equal(ops::field(first, "destination")?, ops::field(second, "origin")?)
            {
                found.extend(connection(first, second, date, rules)?);
            }
        }
    }
    show(&Value::list(found))
}

/// Both legs, if the second leaves after the first arrives and both have seats.
fn connection(first: &Value, second: &Value, date: &Value, rules: Rules) -> Result<Option<Value>, Failure> {
    let arrival = ops::field(first, "scheduled_arrival_time_est")?;
    let overnight = arrival.as_str().is_some_and(|time| time.contains("+1"));
    let date2 = match rules {
        _ if !overnight => date.clone(),
        Rules::Compat => next_day_in_may(date)?,
        Rules::Strict => date.as_str().and_then(dates::next_day).map_or(Value::None, Value::str),
    };
    let departure = ops::field(second, "scheduled_departure_time_est")?;
    let misses = match rules {
        // Compared as strings: "06:00:00+1" is later than "06:00:00".
        Rules::Compat => num::less(departure, arrival)?,
        Rules::Strict => departure.as_str() < arrival.as_str().map(|time| time.trim_end_matches("+1")),
    };
    if misses {
        return Ok(None);
    }
    let Some(day1) = ops::lookup(ops::dict_field(first, "dates")?, date)? else { return Ok(None) };
    let dates2 = ops::dict_field(second, "dates")?;
    let Some(day2) = ops::lookup(dates2, &date2)? else { return Ok(None) };
    if [day1, day2].iter().any(|day| !ops::field(day, "status").is_ok_and(|status| ops::is(status, "available"))) {
        return Ok(None);
    }
    // Upstream shows the seats and prices of the first day under the second day's date.
    let shown = if rules == Rules::Compat { ops::subscript(dates2, date)? } else { day2 };
    let mut legs = [offer(first, day1)?, offer(second, shown)?];
    ops::set(&mut legs[0], "date", date.clone())?;
    ops::set(&mut legs[1], "date", date2)?;
    Ok(Some(Value::list(legs.to_vec())))
}

/// Upstream's next day, in tau2 as well: `f"2024-05-{int(date[-2:])+1}"`.
pub(crate) fn next_day_in_may(date: &Value) -> Result<Value, Raised> {
    let tail = match date {
        Value::Str(text) => {
            let skip = text.chars().count().saturating_sub(2);
            text.chars().skip(skip).collect::<String>()
        }
        Value::Dict(_) => return Err(Raised::new("unhashable type: 'slice'")),
        Value::List(_) => {
            let what = "int() argument must be a string, a bytes-like object or a real number, not 'list'";
            return Err(Raised::new(what));
        }
        other => return Err(Raised(format!("'{}' object is not subscriptable", other.type_name()))),
    };
    let Some(day) = int_literal(&tail) else {
        return Err(Raised(format!("invalid literal for int() with base 10: {}", text::repr(&Value::from(&*tail)))));
    };
    Ok(Value::str(format!("2024-05-{}", day + 1)))
}

/// `int(text)` of at most two characters.
fn int_literal(text: &str) -> Option<i64> {
    let trimmed = text.trim();
    let (sign, digits) = match trimmed.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse::<i64>().ok()).flatten().map(|number| sign * number)
}
