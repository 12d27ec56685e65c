//! tau2's telecom: a carrier with customers, lines and bills, and a user with their own phone.
//!
//! Agent and user each have tools over their own database. The two databases are synchronised after every call: a
//! suspended line leaves the phone without service, sending a bill requests a payment from the user, and a payment
//! settles it.

#![expect(clippy::unnecessary_wraps, reason = "functions of one table have one type, whether they can fail or not")]

mod bills;
mod carrier;
mod checks;
mod function;
mod model;
mod phone;
mod scenario;
pub(in crate::domains) mod spec;
mod switches;
mod user;

use super::super::Requestor;
use super::super::py::{Dict, Value, num, ops};
use super::super::tool::{Answer, Failure, refuse};
use super::super::world::{TableId, World};
use super::model::Model;
use function::{Function, Use, incomparable, shown, truthy};

pub(in crate::domains) use phone::Phone;

/// The carrier's lists.
pub(in crate::domains) const TABLES: [&str; 5] = ["bills", "customers", "devices", "lines", "plans"];

/// The parts of the user's database.
pub(in crate::domains) const PHONE_TABLES: [&str; 2] = ["device", "surroundings"];

/// The place of a record in its list, as a key that sorts.
pub(in crate::domains) fn place(at: usize) -> String {
    format!("{at:06}")
}

/// A list of the carrier, its records by place.
pub(in crate::domains) fn shape_list(table: &str, records: &Value) -> Result<Dict, String> {
    let model: &'static Model = match table {
        "bills" => &model::BILL,
        "customers" => &model::CUSTOMER,
        "devices" => &model::DEVICE,
        "lines" => &model::LINE,
        _ => &model::PLAN,
    };
    let records =
        records.as_list().ok_or_else(|| format!("{table}: expected a list, found {}", records.type_name()))?;
    let shaped = |(at, record): (usize, &Value)| match model.shape_closed(record) {
        Ok(record) => Ok((place(at).into(), record)),
        Err(raised) => Err(format!("{table}, entry {at}: {}", raised.0)),
    };
    records.iter().enumerate().map(shaped).collect()
}

/// A part of the user's database, its fields as records.
pub(in crate::domains) fn shape_phone(table: &str, fields: &Value) -> Result<Dict, String> {
    let model = if table == "device" { &model::PHONE } else { &model::SURROUNDINGS };
    match model.shape_closed(fields) {
        Ok(Value::Dict(fields)) => Ok(std::sync::Arc::unwrap_or_clone(fields)),
        Ok(_) => Err(format!("{table}: expected a table of fields")),
        Err(raised) => Err(format!("{table}: {}", raised.0)),
    }
}

/// Runs a tool and synchronises the two databases.
pub(in crate::domains) fn run(
    world: &mut World,
    phone: &mut Phone,
    by: Requestor,
    name: &str,
    arguments: &Dict,
) -> Answer {
    let answer = call(world, phone, by, name, arguments)?;
    sync(world, phone)?;
    Ok(shown(&answer))
}

/// Runs a tool without synchronising the databases, as upstream does with a reference's calls.
pub(in crate::domains) fn call(
    world: &mut World,
    phone: &mut Phone,
    by: Requestor,
    name: &str,
    arguments: &Dict,
) -> Result<Value, Failure> {
    super::check_own_names(arguments)?;
    let missing = || refuse(format!("Tool '{name}' not found."));
    match by {
        Requestor::Assistant => match find(&carrier::FUNCTIONS, name).filter(|function| is_tool(function)) {
            Some(function) => function.call("TelecomTools", world, arguments),
            None => missing(),
        },
        Requestor::User => match find(&user::FUNCTIONS, name).filter(|function| is_tool(function)) {
            Some(function) => function.call("TelecomUserTools", phone, arguments),
            None => missing(),
        },
    }
}

/// Runs any function of a toolkit, tool or not, and synchronises the databases.
pub(in crate::domains) fn function(
    world: &mut World,
    phone: &mut Phone,
    of: Requestor,
    name: &str,
    arguments: &Dict,
) -> Result<Value, Failure> {
    let unknown = |toolkit: &str| refuse(format!("'{toolkit}' object has no attribute '{name}'"));
    let value = match of {
        Requestor::Assistant => match find(&carrier::FUNCTIONS, name) {
            Some(function) => function.call("TelecomTools", world, arguments),
            None => unknown("TelecomTools"),
        },
        Requestor::User => match find(&user::FUNCTIONS, name) {
            Some(function) => function.call("TelecomUserTools", phone, arguments),
            None => unknown("TelecomUserTools"),
        },
    }?;
    sync(world, phone)?;
    Ok(value)
}

fn find<S>(functions: &'static [Function<S>], name: &str) -> Option<&'static Function<S>> {
    functions.iter().find(|function| function.name == name)
}

fn is_tool<S>(function: &Function<S>) -> bool {
    function.of != Use::Scenario
}

/// True when the toolkit has the function, tool or not.
pub(in crate::domains) fn has_function(of: Requestor, name: &str) -> bool {
    match of {
        Requestor::Assistant => find(&carrier::FUNCTIONS, name).is_some(),
        Requestor::User => find(&user::FUNCTIONS, name).is_some(),
    }
}

/// True when the toolkit has the tool.
pub(in crate::domains) fn has_tool(of: Requestor, name: &str) -> bool {
    match of {
        Requestor::Assistant => find(&carrier::FUNCTIONS, name).is_some_and(is_tool),
        Requestor::User => find(&user::FUNCTIONS, name).is_some_and(is_tool),
    }
}

/// The tools of both that change the state.
pub(in crate::domains) fn writes() -> impl Iterator<Item = &'static str> {
    let carrier = carrier::FUNCTIONS.iter().filter(|function| function.of == Use::Write).map(|function| function.name);
    carrier.chain(user::FUNCTIONS.iter().filter(|function| function.of == Use::Write).map(|function| function.name))
}

/// Synchronises phone and carrier, for a user whose number is known.
pub(in crate::domains) fn sync(world: &mut World, phone: &mut Phone) -> Result<(), Failure> {
    let number = phone.around("phone_number").clone();
    if matches!(number, Value::None) {
        return Ok(());
    }
    let (_, line) = carrier::line_by_phone(world, &number)?;
    phone.set_around("line_active", Value::Bool(carrier::is_active(line)?));
    phone.set_around("roaming_allowed", Value::Bool(truthy(ops::field(line, "roaming_enabled")?)));
    let (_, plan) = carrier::plan(world, ops::field(line, "plan_id")?)?;
    let limit = num::add("+", ops::field(plan, "data_limit_gb")?, ops::field(line, "data_refueling_gb")?)?;
    let exceeded = at_least(ops::field(line, "data_used_gb")?, &limit)?;
    phone.set_around("mobile_data_usage_exceeded", Value::Bool(exceeded));

    let request = phone.around("payment_request").clone();
    if let Some(fields) = request.as_dict() {
        if !fields.get("paid").is_some_and(truthy) {
            return Ok(());
        }
        bills::set_status(world, fields.get("bill_id").unwrap_or(&Value::None), "Paid")?;
        phone.set_around("payment_request", Value::None);
    }
    let (_, owner) = carrier::customer_by_phone(world, &number)?;
    if let Some((_, bill)) = bills::awaiting(world, owner)?.first() {
        let request = [("bill_id", ops::field(bill, "bill_id")?), ("amount_due", ops::field(bill, "total_due")?)];
        let request = Value::dict(request.map(|(name, value)| (name, value.clone())));
        phone.set_around("payment_request", model::PAYMENT_REQUEST.shape_closed(&request)?);
    }
    Ok(())
}

/// `left >= right`.
fn at_least(left: &Value, right: &Value) -> Result<bool, Failure> {
    match (num::Number::of(left), num::Number::of(right)) {
        (Some(a), Some(b)) => Ok(num::compare(&a, &b).is_some_and(std::cmp::Ordering::is_ge)),
        _ => Err(incomparable(">=", left, right).into()),
    }
}

/// A line with its place.
pub(in crate::domains) fn line_of_id<'a>(world: &'a World, id: &str) -> Option<(&'a std::sync::Arc<str>, &'a Value)> {
    carrier::line(world, &id.into()).ok()
}

/// The table of the customers.
pub(in crate::domains) const CUSTOMERS: TableId = carrier::CUSTOMERS;
