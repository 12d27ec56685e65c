//! The shop's tasks say one thing: by search over a task's world, one customer, one order, one item and one variant fit
//! the words in quotes.
#![expect(clippy::unwrap_used, reason = "tests")]

use hone_arena::shop::{World, tasks};
use serde_json::{Value, json};

fn table(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

#[test]
fn exactly_one_end_fits_the_customers_words() {
    for (seed, difficulty) in [(1, 1), (2, 2), (3, 3)] {
        for task in tasks("train", seed, 300, difficulty) {
            let world = json!(World::new(task.extra["world"].as_u64().unwrap()));
            let quoted: Vec<&str> = task.prompt.split('"').skip(1).step_by(2).collect();
            let said = |word: &str| quoted.contains(&word);
            let customers: Vec<&Value> = table(&world["customers"])
                .filter(|(_, customer)| said(customer["name"].as_str().unwrap()))
                .map(|(_, customer)| customer)
                .collect();
            let [customer] = customers[..] else { panic!("{}: {} customers", task.key, customers.len()) };

            let orders = customer["orders"].as_array().unwrap().iter();
            let orders = orders.map(|id| (id, &world["orders"][id.as_str().unwrap()]));
            let fitting: Vec<(&Value, &Value, &String)> = orders
                .flat_map(|(id, order)| table(&order["items"]).map(move |(item, _)| (id, order, item)))
                .filter(|(_, _, item)| said(item))
                .collect();
            let [(id, order, item)] = fitting[..] else { panic!("{}: {} items fit", task.key, fitting.len()) };

            let write = task.reference.as_ref().unwrap().last().unwrap();
            assert_eq!(write.arguments["order"], *id, "{}", task.key);
            let pending = ["cancel_order", "change_city"].contains(&&*write.name);
            assert_eq!(order["status"], if pending { "pending" } else { "delivered" }, "{}", task.key);
            if write.name == "exchange_item" {
                let colours = table(&world["products"][item]["colours"]);
                let wanted: Vec<&Value> = colours.filter(|(colour, _)| said(colour)).map(|(_, id)| id).collect();
                assert_eq!(wanted, [&write.arguments["variant"]], "{}", task.key);
            }
        }
    }
}
