//! The carrier's bills: listing, payment requests, charges, and the overdue bill that suspends a line.

use std::cmp::Reverse;

use num_traits::ToPrimitive as _;
use sha2::{Digest as _, Sha256};

use super::super::super::py::num::{self, Number};
use super::super::super::py::{Dict, Value, ops, text};
use super::super::super::tool::{Failure, arg, refuse};
use super::super::super::world::World;
use super::carrier::{
    BILLS, CUSTOMERS, Found, LINES, TODAY, bill, customer, is_active, line, line_of, lists, plan, set,
};
use super::function::{given, incomparable};
use super::model::{BILL, LINE_ITEM};

/// Dates of a bill.
struct Period {
    start: &'static str,
    end: &'static str,
    due: &'static str,
}

/// The month after today's.
const NEXT: Period = Period { start: "2025-03-01", end: "2025-03-31", due: "2025-03-15" };
/// The month before today's.
const LAST: Period = Period { start: "2025-01-01", end: "2025-01-31", due: "2025-01-15" };

/// Bills of a customer in the customer's own order.
fn bills_of<'a>(world: &'a World, owner: &Value) -> Result<Vec<Found<'a>>, Failure> {
    ops::iterate(ops::field(owner, "bill_ids")?)?.iter().map(|id| bill(world, id)).collect()
}

fn has_status(bill: &Value, status: &str) -> bool {
    ops::field(bill, "status").is_ok_and(|own| ops::is(own, status))
}

/// Bills, newest first, up to a limit.
pub(super) fn list(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (_, owner) = customer(world, arg(arguments, "customer_id"))?;
    let mut bills: Vec<Value> = bills_of(world, owner)?.into_iter().map(|(_, bill)| bill.clone()).collect();
    let issued = |bill: &Value| ops::field(bill, "issue_date").ok().and_then(Value::as_str).map(str::to_owned);
    bills.sort_by_key(|bill| Reverse(issued(bill)));
    bills.truncate(limit(given(arguments, "limit"), bills.len())?);
    Ok(Value::list(bills))
}

/// The length of `items[:limit]`.
fn limit(limit: Option<&Value>, length: usize) -> Result<usize, Failure> {
    let wanted = match limit {
        None => return Ok(length.min(12)),
        Some(Value::None) => return Ok(length),
        Some(value @ (Value::Bool(_) | Value::Int(_) | Value::Big(_))) => match Number::of(value) {
            Some(Number::Int(number)) => {
                let far = if number.sign() == num_bigint::Sign::Minus { i64::MIN } else { i64::MAX };
                number.to_i64().unwrap_or(far)
            }
            _ => 0,
        },
        Some(_) => return refuse("slice indices must be integers or None or have an __index__ method"),
    };
    let from_end = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(if wanted < 0 { length.saturating_sub(from_end) } else { from_end.min(length) })
}

/// Bills of a customer that await payment.
pub(super) fn awaiting<'a>(world: &'a World, owner: &Value) -> Result<Vec<Found<'a>>, Failure> {
    Ok(bills_of(world, owner)?.into_iter().filter(|(_, bill)| has_status(bill, "Awaiting Payment")).collect())
}

pub(super) fn request_payment(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (customer_id, bill_id) = (arg(arguments, "customer_id"), arg(arguments, "bill_id"));
    let (_, owner) = customer(world, customer_id)?;
    if !awaiting(world, owner)?.is_empty() {
        return refuse("A bill is already awaiting payment for this customer");
    }
    if !lists(owner, "bill_ids", bill_id)? {
        let (bill_id, customer_id) = (text::str(bill_id), text::str(customer_id));
        return refuse(format!("Bill {bill_id} not found for customer {customer_id}"));
    }
    set_status(world, bill_id, "Awaiting Payment")?;
    Ok(Value::str(format!("Payment request sent to the customer for bill {}", text::str(bill_id))))
}

pub(super) fn set_status(world: &mut World, id: &Value, status: &str) -> Result<(), Failure> {
    let place = bill(world, id)?.0.clone();
    set(world, BILLS, &place, [("status", status.into())])
}

/// More data for a line, charged to the customer's next bill.
pub(super) fn refuel(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (place, line) = line_of(world, arguments)?;
    let amount = arg(arguments, "gb_amount");
    let Some(number) = Number::of(amount) else { return Err(incomparable("<=", amount, &Value::Int(0)).into()) };
    if num::compare(&number, &Number::Int(0.into())).is_some_and(std::cmp::Ordering::is_le) {
        return refuse("Refuel amount must be positive");
    }
    let (_, plan) = plan(world, ops::field(line, "plan_id")?)?;
    let price = ops::field(plan, "data_refueling_price_per_gb")?.clone();
    let charge = number.to_float()? * Number::of(&price).map_or(Ok(0.0), |price| price.to_float())?;
    let total = num::add("+=", ops::field(line, "data_refueling_gb")?, amount)?;
    let place = place.clone();
    set(world, LINES, &place, [("data_refueling_gb", total.clone())])?;
    let (gb, price) = (text::str(amount), text::str(&price));
    charge_next_bill(world, arg(arguments, "customer_id"), charge, &format!("Data refueling: {gb} GB at ${price}/GB"))?;
    let line = text::str(arg(arguments, "line_id"));
    let cost = if charge.is_nan() { "nan".to_owned() } else { format!("{charge:.2}") };
    Ok(Value::dict([
        ("message", Value::str(format!("Successfully added {gb} GB of data for line {line} for ${cost}"))),
        ("new_data_refueling_gb", Value::str(text::str(&total))),
        ("charge", Value::str(text::float_repr(charge))),
    ]))
}

/// Adds a charge to the customer's draft bill, which is created if there is none.
fn charge_next_bill(world: &mut World, customer_id: &Value, amount: f64, description: &str) -> Result<(), Failure> {
    let (_, owner) = customer(world, customer_id)?;
    let draft = bills_of(world, owner)?.into_iter().find(|(_, bill)| has_status(bill, "Draft"));
    let place = if let Some((place, _)) = draft {
        place.clone()
    } else {
        let id = Value::str(new_id(world, customer_id));
        add(world, customer_id, &id, &NEXT, "Draft")?
    };
    add_item(world, &place, amount, description)
}

/// An id for a bill. Upstream draws one at random; here the same charges make the same bills.
fn new_id(world: &World, customer_id: &Value) -> String {
    let count = world.records(BILLS).count();
    let digest = Sha256::digest(format!("{}/{count}", text::str(customer_id)));
    format!("B{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

/// Adds an empty bill to the list and to its customer; returns its place.
fn add(
    world: &mut World,
    customer_id: &Value,
    id: &Value,
    period: &Period,
    status: &str,
) -> Result<std::sync::Arc<str>, Failure> {
    let bill = BILL.shape_closed(&Value::dict([
        ("bill_id", id.clone()),
        ("customer_id", customer_id.clone()),
        ("period_start", period.start.into()),
        ("period_end", period.end.into()),
        ("issue_date", period.start.into()),
        ("total_due", Value::Int(0)),
        ("due_date", period.due.into()),
        ("status", status.into()),
    ]))?;
    let place: std::sync::Arc<str> = super::place(world.records(BILLS).count()).into();
    world.put(BILLS, &place, bill);
    let owner = customer(world, customer_id)?.0.clone();
    let record = world.edit(CUSTOMERS, &Value::Str(owner))?;
    ops::append(ops::field_mut(record, "bill_ids")?, id.clone())?;
    Ok(place)
}

fn add_item(world: &mut World, place: &std::sync::Arc<str>, amount: f64, description: &str) -> Result<(), Failure> {
    let item = LINE_ITEM.shape_closed(&Value::dict([
        ("description", description.into()),
        ("amount", Value::Float(amount)),
        ("date", TODAY.into()),
        ("item_type", if amount < 0.0 { "Credit" } else { "Charge" }.into()),
    ]))?;
    let record = world.edit(BILLS, &Value::Str(place.clone()))?;
    ops::append(ops::field_mut(record, "line_items")?, item)?;
    let total = num::add("+=", ops::field(record, "total_due")?, &Value::Float(amount))?;
    Ok(ops::set(record, "total_due", total)?)
}

/// Last month's price of the plan becomes an overdue bill, for which the line is suspended.
pub(super) fn suspend_as_overdue(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (line_id, new_id) = (arg(arguments, "line_id"), arg(arguments, "new_bill_id"));
    let (place, own) = line(world, line_id)?;
    if !is_active(own)? {
        return refuse("Line must be active to suspend for unpaid bill");
    }
    let (_, plan) = plan(world, ops::field(own, "plan_id")?)?;
    let amount = Number::of(ops::field(plan, "price_per_month")?).map_or(Ok(0.0), |price| price.to_float())?;
    if amount <= 0.0 {
        return refuse("Amount must be positive for overdue bill");
    }
    let customer_id = arg(arguments, "customer_id");
    let (_, owner) = customer(world, customer_id)?;
    if bills_of(world, owner)?.iter().any(|(_, bill)| has_status(bill, "Overdue")) {
        return refuse("Customer already has an overdue bill");
    }
    let (place, description) = (place.clone(), format!("Charge for line {}", text::str(ops::field(own, "line_id")?)));
    let added = add(world, customer_id, new_id, &LAST, "Overdue")?;
    add_item(world, &added, amount, &description)?;
    set(world, LINES, &place, [("status", "Suspended".into()), ("suspension_start_date", TODAY.into())])?;
    let ended = arg(arguments, "contract_ended");
    if super::function::truthy(ended) {
        set(world, LINES, &place, [("contract_end_date", LAST.end.into())])?;
    }
    let (line, bill, ended) = (text::str(line_id), text::str(new_id), text::str(ended));
    Ok(Value::str(format!("Line {line} suspended for unpaid bill {bill}. Contract ended: {ended}")))
}

pub(super) fn assert_refuelled(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (_, line) = line_of(world, arguments)?;
    let apart = num::sub("-", ops::field(line, "data_refueling_gb")?, arg(arguments, "expected_amount"))?;
    Ok(Value::Bool(num::less(&num::absolute(&apart)?, &Value::Float(1e-6))?))
}

pub(super) fn assert_overdue(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let id = arg(arguments, "overdue_bill_id");
    let (_, owner) = customer(world, arg(arguments, "customer_id"))?;
    if !lists(owner, "bill_ids", id)? {
        return refuse(format!("Overdue bill {} not found", text::str(id)));
    }
    if !has_status(bill(world, id)?.1, "Overdue") {
        return refuse(format!("Overdue bill {} is not overdue", text::str(id)));
    }
    Ok(Value::Bool(true))
}

/// Holds for a paid bill, and for one that does not exist.
pub(super) fn assert_not_overdue(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let found = bill(world, arg(arguments, "overdue_bill_id"));
    Ok(Value::Bool(found.map_or(true, |(_, bill)| has_status(bill, "Paid"))))
}
