//! The shop's data: customers, their orders, the items in them, and the products on the shelf.

use std::collections::BTreeMap;

use hone_trace::{Rng, Seed};
use serde::Serialize;

const FIRST: [&str; 16] = [
    "Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana", "Ivo", "Jon", "Kim", "Lea", "Max", "Nia", "Omar", "Pia",
];
const LAST: [&str; 16] = [
    "Adler", "Brook", "Chen", "Diaz", "Evans", "Frank", "Gomez", "Hill", "Ito", "Jung", "Klein", "Lopez", "Moore",
    "Novak", "Okoye", "Park",
];
const GOODS: [&str; 24] = [
    "lamp", "chair", "desk", "mug", "tent", "rug", "clock", "radio", "kettle", "scarf", "boots", "guitar", "camera",
    "bike", "drill", "vase", "pillow", "mirror", "kite", "drum", "piano", "ladder", "fan", "jacket",
];
const COLOURS: [&str; 8] = ["red", "blue", "green", "black", "white", "gold", "grey", "pink"];
const CITIES: [&str; 12] =
    ["Oslo", "Rome", "Lima", "Cairo", "Delhi", "Paris", "Quito", "Tokyo", "Perth", "Milan", "Basel", "Accra"];

/// One state of the shop. Two states are equal when everything in them is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct World {
    pub customers: BTreeMap<String, Customer>,
    pub orders: BTreeMap<String, Order>,
    pub products: BTreeMap<String, Product>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Customer {
    pub name: String,
    pub orders: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Order {
    pub status: Status,
    pub city: String,
    /// By the product's name.
    pub items: BTreeMap<String, Item>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    pub colour: String,
    pub returned: bool,
}

/// A kind of thing, with the id of each colour it comes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Product {
    pub colours: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pending,
    Delivered,
    Cancelled,
}

impl World {
    /// The world of a seed: four customers with two orders each, two items an order. A product is ordered once, so that
    /// its name tells the order.
    pub fn new(seed: u64) -> Self {
        let mut rng = Seed::root(seed).with("shop").rng();
        let mut ids = Ids::new(&mut rng);
        let mut goods = GOODS.to_vec();
        rng.shuffle(&mut goods);
        let mut names: Vec<String> =
            FIRST.iter().flat_map(|first| LAST.map(|last| format!("{first} {last}"))).collect();
        rng.shuffle(&mut names);
        let mut world = Self { customers: BTreeMap::new(), orders: BTreeMap::new(), products: BTreeMap::new() };
        for name in names.into_iter().take(4) {
            let mut orders = Vec::new();
            for _ in 0..2 {
                let items = (0..2)
                    .filter_map(|_| goods.pop())
                    .map(|product| (product.to_owned(), Item { colour: one_of(&mut rng, &COLOURS), returned: false }));
                let items = items.collect();
                let status = if rng.below(2) == 0 { Status::Pending } else { Status::Delivered };
                let order = ids.two();
                world.orders.insert(order.clone(), Order { status, city: one_of(&mut rng, &CITIES), items });
                orders.push(order);
            }
            world.customers.insert(ids.two(), Customer { name, orders });
        }
        let ordered: Vec<(String, String)> = world
            .orders
            .values()
            .flat_map(|order| order.items.iter().map(|(product, item)| (product.clone(), item.colour.clone())))
            .collect();
        for (product, owned) in ordered {
            let mut colours = COLOURS.map(str::to_owned).to_vec();
            rng.shuffle(&mut colours);
            let others = colours.into_iter().filter(|colour| *colour != owned).take(2);
            let colours = others.chain([owned.clone()]).map(|colour| (colour, ids.three())).collect();
            world.products.insert(product, Product { colours });
        }
        world
    }
}

fn one_of(rng: &mut Rng, items: &[&str]) -> String {
    rng.pick(items).copied().unwrap_or_default().to_owned()
}

/// Ids that occur once in a world: two digits for customers and orders, three for variants.
struct Ids {
    two: Vec<u32>,
    three: Vec<u32>,
}

impl Ids {
    fn new(rng: &mut Rng) -> Self {
        let mut ids = Self { two: (10..100).collect(), three: (100..1000).collect() };
        rng.shuffle(&mut ids.two);
        rng.shuffle(&mut ids.three);
        ids
    }

    fn two(&mut self) -> String {
        self.two.pop().unwrap_or_default().to_string()
    }

    fn three(&mut self) -> String {
        self.three.pop().unwrap_or_default().to_string()
    }
}

/// A city other than this one.
pub(super) fn other_city(rng: &mut Rng, city: &str) -> String {
    let others: Vec<&str> = CITIES.iter().copied().filter(|other| *other != city).collect();
    one_of(rng, &others)
}
