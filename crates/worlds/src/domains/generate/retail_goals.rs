//! Goals of retail customers, and the calls that fulfil them.
//!
//! A goal is stated in the user's terms (a status and a product, options, a card's last digits). The calls that satisfy
//! it are searched among all orders, items, variants and payment methods of the user; whoever checks the draft sees
//! whether they all come to one end.

use hone_trace::{Rng, ToolCall};
use serde_json::{Value as Json, json};

use super::draw::{address, call, chance, items, text};
use super::{Draft, Goal, pick};
use crate::domains::py::num::round2_float;
use crate::domains::py::text::float_repr;
use crate::domains::py::{Dict, Value};
use crate::domains::retail::{ORDERS, PRODUCTS, USERS};
use crate::domains::world::World;
use hone_arena::users::Topic;

/// A customer with their orders and payment methods.
struct Customer<'a> {
    world: &'a World,
    id: &'a str,
    record: &'a Value,
    orders: Vec<&'a Value>,
}

/// An order as its owner speaks of it.
struct OrderBy {
    id: Option<String>,
    status: &'static str,
    holding: String,
}

impl OrderBy {
    fn matches(&self, order: &Value) -> bool {
        match &self.id {
            Some(id) => text(order, "order_id") == id,
            None => text(order, "status") == self.status && item_of(order, &self.holding).is_some(),
        }
    }

    fn says(&self) -> String {
        match &self.id {
            Some(id) => format!("order {id}"),
            None => format!("the {} order with the {}", self.status, self.holding),
        }
    }
}

pub(super) fn draft(world: &World, id: &str, rng: &mut Rng, difficulty: u8) -> Option<Draft> {
    let record = world.get(USERS, id)?;
    let orders = items(record, "orders").iter().filter_map(|id| world.get(ORDERS, id.as_str()?)).collect();
    let customer = Customer { world, id, record, orders };
    let by_email = chance(rng, 50);
    let wanted = if difficulty == 3 { 2 } else { 1 };
    let mut left = customer.orders.clone();
    rng.shuffle(&mut left);
    let mut goals = Vec::new();
    for order in left {
        if goals.len() < wanted {
            goals.extend(goal(&customer, rng, order, difficulty));
        }
    }
    if goals.len() < wanted {
        return None;
    }
    let question = (difficulty == 3).then(|| question(&customer, rng));
    Some(Draft {
        user_id: customer.id.to_owned(),
        identity: customer.identity(by_email),
        asks: "May I have your email, or your name and zip code?",
        finds: customer.finds(by_email),
        goals,
        question,
        knows: customer.knows(by_email),
    })
}

fn goal(customer: &Customer<'_>, rng: &mut Rng, order: &Value, difficulty: u8) -> Option<Goal> {
    let by_id = difficulty == 1;
    match (text(order, "status"), rng.below(if by_id { 3 } else { 5 })) {
        ("pending", 0) => Some(cancel(customer, rng, order, by_id)),
        ("pending", 1) => Some(change_address(customer, rng, order, by_id)),
        ("pending", 2) => Some(change_payment(customer, rng, order, by_id)),
        ("pending", _) => swap(customer, rng, order, "modify_pending_order_items", "change"),
        ("delivered", 0..=2) => Some(give_back(customer, rng, order, by_id)),
        ("delivered", _) => swap(customer, rng, order, "exchange_delivered_order_items", "exchange"),
        _ => None,
    }
}

impl<'a> Customer<'a> {
    fn name(&self) -> (&'a str, &'a str) {
        let name = self.record.as_dict().and_then(|record| record.get("name")).unwrap_or(self.record);
        (text(name, "first_name"), text(name, "last_name"))
    }

    fn zip(&self) -> &'a str {
        text(self.record.as_dict().and_then(|record| record.get("address")).unwrap_or(self.record), "zip")
    }

    fn identity(&self, by_email: bool) -> String {
        let (first, last) = self.name();
        if by_email {
            return format!("You are {first} {last}. Your email is {}.", text(self.record, "email"));
        }
        format!("You are {first} {last}, zip code {}. You do not remember your email.", self.zip())
    }

    fn finds(&self, by_email: bool) -> Vec<ToolCall> {
        let (first, last) = self.name();
        let find = if by_email {
            call("find_user_id_by_email", &[("email", text(self.record, "email").into())])
        } else {
            let named = [("first_name", first.into()), ("last_name", last.into()), ("zip", self.zip().into())];
            call("find_user_id_by_name_zip", &named)
        };
        vec![find, call("get_user_details", &[("user_id", self.id.into())])]
    }

    fn knows(&self, by_email: bool) -> Vec<Topic> {
        let (first, last) = self.name();
        let topic = |asked: &[&str], answer: String| Topic {
            asked: asked.iter().map(|word| (*word).to_owned()).collect(),
            answer,
        };
        let mut knows = vec![topic(&["name"], format!("My name is {first} {last}."))];
        if by_email {
            knows.push(topic(&["email"], format!("My email is {}.", text(self.record, "email"))));
        } else {
            knows.push(topic(&["zip", "postal"], format!("My zip code is {}.", self.zip())));
            knows.push(topic(&["email"], "I do not remember my email.".into()));
        }
        knows
    }

    fn methods(&self) -> Vec<&'a Value> {
        let methods = self.record.as_dict().and_then(|record| record.get("payment_methods")).and_then(Value::as_dict);
        methods.map(|methods| methods.values().collect()).unwrap_or_default()
    }

    /// Methods that the words for `method` fit.
    fn methods_said(&self, method: &Value) -> Vec<&'a str> {
        let said = method_says(method);
        let fitting = self.methods().into_iter().filter(|other| method_says(other) == said);
        fitting.map(|method| text(method, "id")).collect()
    }

    fn orders_by<'b>(&'b self, by: &'b OrderBy) -> impl Iterator<Item = &'a Value> + 'b {
        self.orders.iter().copied().filter(|order| by.matches(order))
    }

    /// Looks at the orders one by one until the right one, as an agent must who was not told its id.
    fn reads(&self, by: &OrderBy) -> Vec<ToolCall> {
        let look = |order: &&Value| call("get_order_details", &[("order_id", text(order, "order_id").into())]);
        match self.orders.iter().position(|order| by.matches(order)) {
            Some(at) if by.id.is_none() => self.orders[..=at].iter().map(look).collect(),
            Some(at) => vec![look(&self.orders[at])],
            None => Vec::new(),
        }
    }
}

fn order_by(rng: &mut Rng, order: &Value, by_id: bool) -> OrderBy {
    let holding = text(pick(rng, items(order, "items")), "name").to_owned();
    let status = if text(order, "status") == "pending" { "pending" } else { "delivered" };
    OrderBy { id: by_id.then(|| text(order, "order_id").to_owned()), status, holding }
}

fn method_says(method: &Value) -> String {
    match text(method, "source") {
        "credit_card" => format!("the credit card ending in {}", text(method, "last_four")),
        "gift_card" => "the gift card".into(),
        _ => "PayPal".into(),
    }
}

/// The order's item of this product; orders hold at most one of each.
fn item_of<'a>(order: &'a Value, product: &str) -> Option<&'a Value> {
    items(order, "items").iter().find(|item| text(item, "name") == product)
}

fn cancel(customer: &Customer<'_>, rng: &mut Rng, order: &Value, by_id: bool) -> Goal {
    let by = order_by(rng, order, by_id);
    let (reason, because) =
        *pick(rng, &[("no longer needed", "I no longer need it"), ("ordered by mistake", "I ordered it by mistake")]);
    let cancel = |order: &Value| {
        call("cancel_pending_order", &[("order_id", text(order, "order_id").into()), ("reason", reason.into())])
    };
    Goal {
        says: format!("I want to cancel {}: {because}.", by.says()),
        reads: customer.reads(&by),
        satisfying: customer.orders_by(&by).map(cancel).collect(),
    }
}

fn change_address(customer: &Customer<'_>, rng: &mut Rng, order: &Value, by_id: bool) -> Goal {
    let by = order_by(rng, order, by_id);
    let home = address(rng);
    let part = |name: &str| text(&home, name).to_owned();
    let change = |order: &Value| {
        let mut arguments = vec![("order_id", Json::from(text(order, "order_id")))];
        let fields = ["address1", "address2", "city", "state", "country", "zip"];
        arguments.extend(fields.map(|field| (field, Json::from(part(field)))));
        call("modify_pending_order_address", &arguments)
    };
    let (line1, line2, city, state, zip) =
        (part("address1"), part("address2"), part("city"), part("state"), part("zip"));
    Goal {
        says: format!("I want {} shipped to {line1}, {line2}, {city}, {state} {zip}, USA.", by.says()),
        reads: customer.reads(&by),
        satisfying: customer.orders_by(&by).map(change).collect(),
    }
}

fn change_payment(customer: &Customer<'_>, rng: &mut Rng, order: &Value, by_id: bool) -> Goal {
    let by = order_by(rng, order, by_id);
    let methods = customer.methods();
    let method = pick(rng, &methods);
    let mut satisfying = Vec::new();
    for order in customer.orders_by(&by) {
        satisfying.extend(customer.methods_said(method).into_iter().map(|method| {
            let order_id = Json::from(text(order, "order_id"));
            call("modify_pending_order_payment", &[("order_id", order_id), ("payment_method_id", method.into())])
        }));
    }
    Goal {
        says: format!("I want to pay {} with {} instead.", by.says(), method_says(method)),
        reads: customer.reads(&by),
        satisfying,
    }
}

fn give_back(customer: &Customer<'_>, rng: &mut Rng, order: &Value, by_id: bool) -> Goal {
    let by = order_by(rng, order, by_id);
    let methods = customer.methods();
    let method = pick(rng, &methods);
    let mut products: Vec<&str> = items(order, "items").iter().map(|item| text(item, "name")).collect();
    rng.shuffle(&mut products);
    products.truncate(if by_id { 1 } else { 1 + rng.below(2) });
    let mut satisfying = Vec::new();
    for order in customer.orders_by(&by) {
        let Some(ids) =
            products.iter().map(|product| Some(text(item_of(order, product)?, "item_id"))).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        satisfying.extend(customer.methods_said(method).into_iter().map(|method| {
            let order_id = Json::from(text(order, "order_id"));
            call(
                "return_delivered_order_items",
                &[("order_id", order_id), ("item_ids", json!(ids)), ("payment_method_id", method.into())],
            )
        }));
    }
    let (things, refund) = (products.join(" and the "), method_says(method));
    Goal {
        says: format!("I want to return the {things} from {}, refunded to {refund}.", by.says()),
        reads: customer.reads(&by),
        satisfying,
    }
}

/// One item for another variant of it, told by the options that are to change; the others stay.
fn swap(customer: &Customer<'_>, rng: &mut Rng, order: &Value, tool: &str, verb: &str) -> Option<Goal> {
    let by = order_by(rng, order, false);
    let methods = customer.methods();
    let method = pick(rng, &methods);
    let item = pick(rng, items(order, "items"));
    let product = text(item, "name");
    let stock: Vec<_> = variants(customer.world, item).filter(|variant| is_available(variant)).collect();
    let target = rng.pick(&stock)?;
    let wanted = difference(options(item)?, options(target)?);
    if wanted.is_empty() {
        return None;
    }
    let mut satisfying = Vec::new();
    for order in customer.orders_by(&by) {
        let Some(item) = item_of(order, product) else { continue };
        let Some(own) = options(item) else { continue };
        for variant in variants(customer.world, item).filter(|variant| is_available(variant)) {
            if options(variant).is_none_or(|options| difference(own, options) != wanted) {
                continue;
            }
            satisfying.extend(customer.methods_said(method).into_iter().map(|method| {
                let order_id = Json::from(text(order, "order_id"));
                let (old, new) = (json!([text(item, "item_id")]), json!([text(variant, "item_id")]));
                let method = ("payment_method_id", Json::from(method));
                call(tool, &[("order_id", order_id), ("item_ids", old), ("new_item_ids", new), method])
            }));
        }
    }
    let mut reads = customer.reads(&by);
    reads.push(call("get_product_details", &[("product_id", text(item, "product_id").into())]));
    let changes: Vec<_> = wanted.iter().map(|(option, value)| format!("{option} {value}")).collect();
    let (changes, method) = (changes.join(" and "), method_says(method));
    let says = format!(
        "I want to {verb} the {product} in {} for one with {changes}, otherwise the same, with {method} for the difference.",
        by.says()
    );
    Some(Goal { says, reads, satisfying })
}

fn variants<'a>(world: &'a World, item: &Value) -> impl Iterator<Item = &'a Value> {
    let product = world.get(PRODUCTS, text(item, "product_id")).and_then(Value::as_dict);
    let variants = product.and_then(|product| product.get("variants")).and_then(Value::as_dict);
    variants.into_iter().flat_map(Dict::values)
}

fn is_available(variant: &Value) -> bool {
    matches!(variant.as_dict().and_then(|variant| variant.get("available")), Some(Value::Bool(true)))
}

fn options(record: &Value) -> Option<&Dict> {
    record.as_dict()?.get("options")?.as_dict()
}

/// The options in which `to` differs from `from`, with their new values.
fn difference<'a>(from: &Dict, to: &'a Dict) -> Vec<(&'a str, &'a str)> {
    let changed = to.iter().filter(|(option, value)| from.get(*option).and_then(Value::as_str) != value.as_str());
    changed.map(|(option, value)| (&**option, value.as_str().unwrap_or_default())).collect()
}

/// A question: the price of an order, or how many variants of a product are in stock.
fn question(customer: &Customer<'_>, rng: &mut Rng) -> (String, String) {
    let order = *pick(rng, &customer.orders);
    if chance(rng, 50) {
        let amounts = items(order, "items").iter().filter_map(|item| match item.as_dict()?.get("price")? {
            Value::Float(price) => Some(*price),
            _ => None,
        });
        let total = float_repr(round2_float(amounts.sum()));
        let id = text(order, "order_id");
        return (format!("I also want to know what the items of order {id} cost together when I ordered them."), total);
    }
    let item = pick(rng, items(order, "items"));
    let count = variants(customer.world, item).filter(|variant| is_available(variant)).count();
    let product = text(item, "name");
    (format!("I also want to know how many variants of the {product} are in stock."), count.to_string())
}
