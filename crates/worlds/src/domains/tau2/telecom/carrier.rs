//! The carrier's side: customers, lines, plans, devices, and the tools that read and switch them.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::super::py::{Dict, Value, ops, text};
use super::super::super::tool::{Failure, arg, refuse};
use super::super::super::world::{TableId, World};
use super::bills;
use super::function::{Function, Use};

pub(super) const BILLS: TableId = TableId(0);
pub(super) const CUSTOMERS: TableId = TableId(1);
const DEVICES: TableId = TableId(2);
pub(super) const LINES: TableId = TableId(3);
const PLANS: TableId = TableId(4);

/// Current date in every conversation.
pub(super) const TODAY: &str = "2025-02-25";
const CYCLE_END: &str = "2025-02-28";

/// Functions of the toolkit, in upstream's order.
pub(super) static FUNCTIONS: [Function<World>; 19] = [
    Function::new(Use::Read, "get_customer_by_phone", &["phone_number"], |world, arguments| {
        Ok(customer_by_phone(world, arg(arguments, "phone_number"))?.1.clone())
    }),
    Function::new(Use::Read, "get_customer_by_id", &["customer_id"], |world, arguments| {
        Ok(customer(world, arg(arguments, "customer_id"))?.1.clone())
    }),
    Function::new(Use::Read, "get_customer_by_name", &["full_name", "dob"], by_name),
    Function::new(Use::Read, "get_details_by_id", &["id"], details),
    Function::new(Use::Write, "suspend_line", &["customer_id", "line_id", "reason"], suspend),
    Function::new(Use::Write, "resume_line", &["customer_id", "line_id"], resume),
    Function::new(Use::Read, "get_bills_for_customer", &["customer_id"], bills::list).or(&["limit"]),
    Function::new(Use::Write, "send_payment_request", &["customer_id", "bill_id"], bills::request_payment),
    Function::new(Use::Read, "get_data_usage", &["customer_id", "line_id"], usage),
    Function::new(Use::Write, "enable_roaming", &["customer_id", "line_id"], |world, arguments| {
        roaming(world, arguments, true)
    }),
    Function::new(Use::Write, "disable_roaming", &["customer_id", "line_id"], |world, arguments| {
        roaming(world, arguments, false)
    }),
    Function::new(Use::Read, "transfer_to_human_agents", &["summary"], |_, _| Ok("Transfer successful".into())),
    Function::new(Use::Write, "refuel_data", &["customer_id", "line_id", "gb_amount"], bills::refuel),
    Function::new(Use::Scenario, "set_data_usage", &["customer_id", "line_id", "data_used_gb"], set_usage),
    Function::new(
        Use::Scenario,
        "suspend_line_for_overdue_bill",
        &["customer_id", "line_id", "new_bill_id", "contract_ended"],
        bills::suspend_as_overdue,
    ),
    Function::new(
        Use::Scenario,
        "assert_data_refueling_amount",
        &["customer_id", "line_id", "expected_amount"],
        bills::assert_refuelled,
    ),
    Function::new(
        Use::Scenario,
        "assert_line_status",
        &["customer_id", "line_id", "expected_status"],
        |world, arguments| {
            let (_, line) = line_of(world, arguments)?;
            Ok(Value::Bool(ops::equal(ops::field(line, "status")?, arg(arguments, "expected_status"))))
        },
    ),
    Function::new(
        Use::Scenario,
        "assert_overdue_bill_exists",
        &["customer_id", "overdue_bill_id"],
        bills::assert_overdue,
    ),
    Function::new(Use::Scenario, "assert_no_overdue_bill", &["overdue_bill_id"], bills::assert_not_overdue),
];

/// A record of a list with its place there.
pub(super) type Found<'a> = (&'a Arc<str>, &'a Value);

/// The first record of a list whose field is the value.
fn first<'a>(world: &'a World, table: TableId, field: &str, value: &Value) -> Option<Found<'a>> {
    world.records(table).find(|(_, record)| ops::field(record, field).is_ok_and(|own| ops::equal(own, value)))
}

pub(super) fn customer<'a>(world: &'a World, id: &Value) -> Result<Found<'a>, Failure> {
    let found = first(world, CUSTOMERS, "customer_id", id);
    found.map_or_else(|| refuse(format!("Customer with ID {} not found", text::str(id))), Ok)
}

pub(super) fn line<'a>(world: &'a World, id: &Value) -> Result<Found<'a>, Failure> {
    first(world, LINES, "line_id", id).map_or_else(|| refuse(format!("Line with ID {} not found", text::str(id))), Ok)
}

pub(super) fn plan<'a>(world: &'a World, id: &Value) -> Result<Found<'a>, Failure> {
    first(world, PLANS, "plan_id", id).map_or_else(|| refuse(format!("Plan with ID {} not found", text::str(id))), Ok)
}

pub(super) fn bill<'a>(world: &'a World, id: &Value) -> Result<Found<'a>, Failure> {
    first(world, BILLS, "bill_id", id).map_or_else(|| refuse(format!("Bill with ID {} not found", text::str(id))), Ok)
}

pub(super) fn line_by_phone<'a>(world: &'a World, number: &Value) -> Result<Found<'a>, Failure> {
    let found = first(world, LINES, "phone_number", number);
    found.map_or_else(|| refuse(format!("Line with phone number {} not found", text::str(number))), Ok)
}

/// Customer by contact number, or by the number of one of their lines.
pub(super) fn customer_by_phone<'a>(world: &'a World, number: &Value) -> Result<Found<'a>, Failure> {
    // Looked up once: every call of an episode comes here.
    let mut numbers: HashMap<&str, &Value> = HashMap::new();
    for (_, line) in world.records(LINES) {
        if let Some(id) = ops::field(line, "line_id")?.as_str() {
            numbers.entry(id).or_insert(ops::field(line, "phone_number")?);
        }
    }
    for (place, record) in world.records(CUSTOMERS) {
        if ops::equal(ops::field(record, "phone_number")?, number) {
            return Ok((place, record));
        }
        for id in ops::field(record, "line_ids")?.as_list().unwrap_or_default() {
            let own = id.as_str().and_then(|id| numbers.get(id));
            let own = own.map_or_else(|| refuse(format!("Line with ID {} not found", text::str(id))), Ok)?;
            if ops::equal(own, number) {
                return Ok((place, record));
            }
        }
    }
    refuse(format!("Customer with phone number {} not found", text::str(number)))
}

/// True if the list in a record's field contains the value.
pub(super) fn lists(record: &Value, field: &str, value: &Value) -> Result<bool, Failure> {
    Ok(ops::iterate(ops::field(record, field)?)?.iter().any(|own| ops::equal(own, value)))
}

/// The line that a call names, which must be the customer's.
pub(super) fn line_of<'a>(world: &'a World, arguments: &Dict) -> Result<Found<'a>, Failure> {
    let (customer_id, line_id) = (arg(arguments, "customer_id"), arg(arguments, "line_id"));
    let (_, owner) = customer(world, customer_id)?;
    if !lists(owner, "line_ids", line_id)? {
        let (line_id, customer_id) = (text::str(line_id), text::str(customer_id));
        return refuse(format!("Line {line_id} not found for customer {customer_id}"));
    }
    line(world, line_id)
}

/// Sets fields of a record.
pub(super) fn set<const N: usize>(
    world: &mut World,
    table: TableId,
    place: &Arc<str>,
    fields: [(&str, Value); N],
) -> Result<(), Failure> {
    let record = world.edit(table, &Value::Str(place.clone()))?;
    for (name, value) in fields {
        ops::set(record, name, value)?;
    }
    Ok(())
}

fn by_name(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let mut found = Vec::new();
    for (_, record) in world.records(CUSTOMERS) {
        if ops::lower(ops::field(record, "full_name")?)? == ops::lower(arg(arguments, "full_name"))?
            && ops::equal(ops::field(record, "date_of_birth")?, arg(arguments, "dob"))
        {
            found.push(record.clone());
        }
    }
    Ok(Value::list(found))
}

/// The record with an id, whose first letter gives its kind.
fn details(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let id = arg(arguments, "id");
    let name = id.as_str().ok_or_else(|| ops::no_attribute(id, "startswith"))?;
    let (_, record) = match name.chars().next() {
        Some('L') => line(world, id)?,
        Some('D') => first(world, DEVICES, "device_id", id)
            .map_or_else(|| refuse(format!("Device with ID {name} not found")), Ok)?,
        Some('B') => bill(world, id)?,
        Some('C') => customer(world, id)?,
        Some('P') => plan(world, id)?,
        _ => return refuse(format!("Unknown ID format or type: {name}")),
    };
    Ok(record.clone())
}

fn status_is(line: &Value, status: &str) -> Result<bool, Failure> {
    Ok(ops::is(ops::field(line, "status")?, status))
}

pub(super) fn is_active(line: &Value) -> Result<bool, Failure> {
    status_is(line, "Active")
}

fn suspend(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (place, line) = line_of(world, arguments)?;
    if !is_active(line)? {
        return refuse("Line must be active to suspend");
    }
    let place = place.clone();
    set(world, LINES, &place, [("status", "Suspended".into()), ("suspension_start_date", TODAY.into())])?;
    switched(world, &place, "Line suspended successfully. $5/month holding fee will apply.")
}

fn resume(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (place, line) = line_of(world, arguments)?;
    if !status_is(line, "Suspended")? && !status_is(line, "Pending Activation")? {
        return refuse("Line must be suspended to resume");
    }
    let place = place.clone();
    set(world, LINES, &place, [("status", "Active".into()), ("suspension_start_date", Value::None)])?;
    switched(world, &place, "Line resumed successfully")
}

fn switched(world: &World, place: &str, message: &str) -> Result<Value, Failure> {
    let line = world.get(LINES, place).cloned().unwrap_or(Value::None);
    Ok(Value::dict([("message", message.into()), ("line", line)]))
}

/// Numbers in an answer that is not a record are shown as strings.
fn usage(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (_, line) = line_of(world, arguments)?;
    let (_, plan) = plan(world, ops::field(line, "plan_id")?)?;
    let shown = |record: &Value, name: &str| Ok::<_, Failure>(loose(ops::field(record, name)?));
    Ok(Value::dict([
        ("line_id", arg(arguments, "line_id").clone()),
        ("data_used_gb", shown(line, "data_used_gb")?),
        ("data_limit_gb", shown(plan, "data_limit_gb")?),
        ("data_refueling_gb", shown(line, "data_refueling_gb")?),
        ("cycle_end_date", CYCLE_END.into()),
    ]))
}

/// Value in an answer that is not a record: numbers and flags as strings.
pub(super) fn loose(value: &Value) -> Value {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => Value::str(text::str(value)),
        Value::List(items) => Value::list(items.iter().map(loose).collect()),
        Value::Dict(dict) => Value::dict(dict.iter().map(|(key, value)| (key.clone(), loose(value)))),
        Value::None | Value::Str(_) => value.clone(),
    }
}

fn set_usage(world: &mut World, arguments: &Dict) -> Result<Value, Failure> {
    let (place, used) = (line_of(world, arguments)?.0.clone(), arg(arguments, "data_used_gb"));
    set(world, LINES, &place, [("data_used_gb", used.clone())])?;
    let (used, line) = (text::str(used), text::str(arg(arguments, "line_id")));
    Ok(Value::str(format!("Data usage set to {used} GB for line {line}")))
}

fn roaming(world: &mut World, arguments: &Dict, on: bool) -> Result<Value, Failure> {
    let (place, line) = line_of(world, arguments)?;
    let was = super::function::truthy(ops::field(line, "roaming_enabled")?);
    let place = place.clone();
    let word = if on { "enabled" } else { "disabled" };
    if was == on {
        return Ok(Value::str(format!("Roaming was already {word}")));
    }
    set(world, LINES, &place, [("roaming_enabled", Value::Bool(on))])?;
    Ok(Value::str(format!("Roaming {word} successfully")))
}
