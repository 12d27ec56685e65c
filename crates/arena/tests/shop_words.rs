//! The shop's tasks say one thing: by search over a task's world, one customer, one order and one item fit the words.
#![expect(clippy::unwrap_used, reason = "tests")]

use hone_arena::shop::{World, tasks};
use serde_json::{Value, json};

#[test]
fn exactly_one_order_and_item_fit_the_customers_words() {
    for (seed, difficulty) in [(1, 1), (2, 2), (3, 3)] {
        for task in tasks("train", seed, 300, difficulty) {
            let world = json!(World::new(task.extra["world"].as_u64().unwrap()));
            let said = |word: &str| task.prompt.split([' ', '.', ',', '\'']).any(|own| own == word);
            let named = |customer: &Value| task.prompt.contains(customer["name"].as_str().unwrap());
            let customers: Vec<&Value> = entries(&world["customers"]).filter(|customer| named(customer)).collect();
            let [customer] = customers[..] else { panic!("{}: {} customers", task.key, customers.len()) };

            let write = task.reference.as_ref().unwrap().last().unwrap().clone();
            let status = if ["cancel_order", "change_city"].contains(&&*write.name) { "pending" } else { "delivered" };
            let orders =
                customer["orders"].as_array().unwrap().iter().map(|id| (id, &world["orders"][id.as_str().unwrap()]));
            let fitting: Vec<(&Value, &Value)> = orders
                .filter(|(_, order)| order["status"] == status)
                .flat_map(|(id, order)| entries(&order["items"]).map(move |item| (id, item)))
                .filter(|(_, item)| said(item["product"].as_str().unwrap()))
                .collect();
            let [(order, item)] = fitting[..] else {
                panic!("{}: {} items fit {}", task.key, fitting.len(), task.prompt)
            };
            assert_eq!(write.arguments["order"], *order, "{}", task.key);
            if write.name == "exchange_item" {
                let product = &world["products"][item["product"].as_str().unwrap()];
                let colours = product["colours"].as_object().unwrap();
                let wanted: Vec<&Value> = colours.iter().filter(|(colour, _)| said(colour)).map(|(_, id)| id).collect();
                assert_eq!(wanted, [&write.arguments["variant"]], "{}", task.key);
            }
        }
    }
}

fn entries(table: &Value) -> impl Iterator<Item = &Value> {
    table.as_object().unwrap().values()
}
