//! A retail world: products with variants, customers who pay, orders in all states.

use hone_trace::Rng;

use super::draw::{Ids, address, chance, name, text};
use super::words::{PRODUCTS, Product};
use super::{Names, pick};
use crate::domains::py::num::round2_float;
use crate::domains::py::{Dict, Value};

/// The tables in alphabetical order.
pub(super) fn tables(rng: &mut Rng, users: usize, names: Names) -> Vec<(&'static str, Dict)> {
    let mut ids = Ids::default();
    let products: Dict = PRODUCTS.iter().map(|product| make_product(rng, &mut ids, product)).collect();
    let (mut people, mut orders) = (Dict::new(), Dict::new());
    for _ in 0..users {
        let (first, last) = name(rng, names);
        let id = ids.digits(rng, &format!("{}_{}_", first.to_lowercase(), last.to_lowercase()), 4);
        let methods = payment_methods(rng, &mut ids);
        let home = address(rng);
        let own: Vec<Value> = (0..=rng.below(4))
            .map(|_| {
                let order = make_order(rng, &mut ids, &id, &home, &methods, &products);
                let key = text(&order, "order_id").to_owned();
                orders.insert(key.as_str().into(), order);
                Value::str(key)
            })
            .collect();
        let person = Value::dict([
            ("name", Value::dict([("first_name", Value::str(first.as_str())), ("last_name", Value::str(last))])),
            ("address", home),
            ("email", Value::str(format!("{}.{}@example.com", first.to_lowercase(), &id[id.len() - 4..]))),
            ("payment_methods", Value::dict(methods)),
            ("orders", Value::list(own)),
        ]);
        people.insert(id.into(), person);
    }
    vec![("orders", orders), ("products", products), ("users", people)]
}

/// Every combination of options is a variant; about two in three are in stock.
fn make_product(rng: &mut Rng, ids: &mut Ids, product: &Product) -> (std::sync::Arc<str>, Value) {
    let id = ids.digits(rng, "", 10);
    let mut combinations: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (option, values) in product.options {
        combinations = (combinations.iter())
            .flat_map(|begun| values.iter().map(move |value| [&begun[..], &[(*option, *value)]].concat()))
            .collect();
    }
    rng.shuffle(&mut combinations);
    let variants: Vec<(String, Value)> = combinations
        .into_iter()
        .map(|options| {
            let item = ids.digits(rng, "", 10);
            let cents = product.price * 100 * (80 + rng.below(41)) / 100 + rng.below(100);
            let variant = Value::dict([
                ("item_id", Value::str(item.as_str())),
                ("options", Value::dict(options.into_iter().map(|(option, value)| (option, value.into())))),
                ("available", Value::Bool(chance(rng, 65))),
                ("price", Value::Float(cents as f64 / 100.0)),
            ]);
            (item, variant)
        })
        .collect();
    let record = Value::dict([
        ("name", product.name.into()),
        ("product_id", Value::str(id.as_str())),
        ("variants", Value::dict(variants)),
    ]);
    (id.into(), record)
}

/// One to three methods of different kinds.
fn payment_methods(rng: &mut Rng, ids: &mut Ids) -> Dict {
    let mut kinds = ["credit_card", "paypal", "gift_card"];
    rng.shuffle(&mut kinds);
    let mut methods = Dict::new();
    for kind in kinds.iter().take(1 + rng.below(3)) {
        let id = ids.digits(rng, &format!("{kind}_"), 7);
        let mut method = vec![("source", (*kind).into())];
        match *kind {
            "credit_card" => {
                method.push(("brand", (*pick(rng, &["visa", "mastercard"])).into()));
                method.push(("last_four", Value::str(format!("{:04}", rng.below(10_000)))));
            }
            "gift_card" => method.push(("balance", Value::Int(20 + rng.below(400) as i64))),
            _ => {}
        }
        method.push(("id", Value::str(id.as_str())));
        methods.insert(id.into(), Value::dict(method));
    }
    methods
}

/// One to four items of different products, paid in full by one method.
fn make_order(rng: &mut Rng, ids: &mut Ids, user: &str, home: &Value, methods: &Dict, products: &Dict) -> Value {
    let mut kinds: Vec<&Value> = products.values().collect();
    rng.shuffle(&mut kinds);
    let items: Vec<Value> = kinds.iter().take(1 + rng.below(4)).map(|product| make_item(rng, product)).collect();
    let prices = items.iter().map(|item| match item.as_dict().and_then(|item| item.get("price")) {
        Some(Value::Float(price)) => *price,
        _ => 0.0,
    });
    let total = Value::Float(round2_float(prices.sum()));
    let methods: Vec<_> = methods.keys().collect();
    let method = *pick(rng, &methods);
    let transaction = |kind: &str| {
        Value::dict([
            ("transaction_type", kind.into()),
            ("amount", total.clone()),
            ("payment_method_id", Value::Str(method.clone())),
        ])
    };
    let status =
        *pick(rng, &["pending", "pending", "pending", "delivered", "delivered", "delivered", "processed", "cancelled"]);
    let mut history = vec![transaction("payment")];
    if status == "cancelled" {
        history.push(transaction("refund"));
    }
    let shipped = matches!(status, "processed" | "delivered");
    let fulfillments = if shipped { vec![fulfillment(rng, ids, &items)] } else { Vec::new() };
    let mut order = vec![
        ("order_id", Value::str(ids.digits(rng, "#W", 7))),
        ("user_id", user.into()),
        ("address", home.clone()),
        ("items", Value::list(items)),
        ("fulfillments", Value::list(fulfillments)),
        ("status", status.into()),
        ("payment_history", Value::list(history)),
    ];
    if status == "cancelled" {
        order.push(("cancel_reason", (*pick(rng, &["no longer needed", "ordered by mistake"])).into()));
    }
    Value::dict(order)
}

fn make_item(rng: &mut Rng, product: &Value) -> Value {
    let variants = product.as_dict().and_then(|product| product.get("variants")).and_then(Value::as_dict);
    let variants: Vec<&Value> = variants.map(|variants| variants.values().collect()).unwrap_or_default();
    let variant = pick(rng, &variants);
    let of = |name: &str| variant.as_dict().and_then(|variant| variant.get(name)).cloned().unwrap_or(Value::None);
    Value::dict([
        ("name", text(product, "name").into()),
        ("product_id", text(product, "product_id").into()),
        ("item_id", of("item_id")),
        ("price", of("price")),
        ("options", of("options")),
    ])
}

fn fulfillment(rng: &mut Rng, ids: &mut Ids, items: &[Value]) -> Value {
    let parcel = ids.digits(rng, "", 12);
    let contents = items.iter().map(|item| text(item, "item_id").into()).collect();
    Value::dict([("tracking_id", Value::list(vec![Value::str(parcel)])), ("item_ids", Value::list(contents))])
}
