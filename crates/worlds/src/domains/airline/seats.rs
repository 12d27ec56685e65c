//! Seat counts, which only the strict rules keep: a booking takes seats, a cancellation or change gives them back.

use super::super::py::{Raised, Value, num, ops};
use super::super::world::World;
use super::FLIGHTS;

/// Takes a seat in `cabin` for every passenger on every flight.
pub(super) fn take(world: &mut World, flights: &Value, cabin: &Value, passengers: &Value) -> Result<(), Raised> {
    change(world, flights, cabin, -ops::len(passengers)?)
}

/// Gives back the seats of a reservation, on flights whose seats are still sold.
pub(super) fn release(world: &mut World, reservation: &Value) -> Result<(), Raised> {
    let passengers = ops::len(ops::field(reservation, "passengers")?)?;
    change(world, ops::field(reservation, "flights")?, ops::field(reservation, "cabin")?, passengers)
}

fn change(world: &mut World, flights: &Value, cabin: &Value, by: i64) -> Result<(), Raised> {
    let Some(cabin) = cabin.as_str() else { return Ok(()) };
    for segment in ops::iterate(flights)? {
        let (number, date) = (ops::field(&segment, "flight_number")?, ops::field(&segment, "date")?);
        let Some(date) = date.as_str() else { continue };
        let on_sale = world.find(FLIGHTS, number)?.and_then(Value::as_dict).and_then(|flight| {
            let day = flight.get("dates")?.as_dict()?.get(date)?.as_dict()?;
            day.get("available_seats")?.as_dict()?.get(cabin).cloned()
        });
        let Some(seats) = on_sale else { continue };
        let seats = num::add("+", &seats, &Value::Int(by))?;
        let days = ops::field_mut(world.edit(FLIGHTS, number)?, "dates")?;
        ops::set(ops::field_mut(ops::field_mut(days, date)?, "available_seats")?, cabin, seats)?;
    }
    Ok(())
}
