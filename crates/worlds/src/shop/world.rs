//! The shop's data: customers, their orders, the items in them, and the products on the shelf.

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::{Rng, Seed};
use serde::Serialize;

use super::words::{COLOURS, Vocabulary, Words, one_of};

/// One state of the shop. Two states are equal when everything in them is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct World {
    pub customers: BTreeMap<String, Customer>,
    pub orders: BTreeMap<String, Order>,
    pub products: BTreeMap<String, Product>,
    /// Cities that orders can be sent to.
    pub cities: BTreeSet<String>,
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
    /// Items by product name.
    pub items: BTreeMap<String, Item>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    pub colour: String,
    pub returned: bool,
}

/// Product, with the id of each colour it comes in.
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
    /// The world of a seed: three customers with two orders each, one pending and one delivered, two items per order. A
    /// product is ordered once, so that its name identifies the order.
    pub fn new(seed: u64, vocabulary: Vocabulary) -> Self {
        let mut rng = Seed::root(seed).with("shop").rng();
        let mut ids = Ids::new(&mut rng);
        let mut drawn = Seed::root(seed).with("shop words").rng();
        let mut words = Words::new(vocabulary, &mut drawn);
        let cities: Vec<String> = (0..6).map(|_| words.name()).collect();
        let mut world = Self {
            customers: BTreeMap::new(),
            orders: BTreeMap::new(),
            products: BTreeMap::new(),
            cities: cities.iter().cloned().collect(),
        };
        for _ in 0..3 {
            let mut statuses = [Status::Pending, Status::Delivered];
            rng.shuffle(&mut statuses);
            let mut orders = Vec::new();
            for status in statuses {
                let mut item = || (words.word(), Item { colour: one_of(&mut rng, &COLOURS).into(), returned: false });
                let items = [item(), item()].into();
                let (order, city) = (ids.two(), rng.pick(&cities).cloned().unwrap_or_default());
                world.orders.insert(order.clone(), Order { status, city, items });
                orders.push(order);
            }
            let name = format!("{} {}", words.name(), words.name());
            world.customers.insert(ids.two(), Customer { name, orders });
        }
        world.stock(&mut ids, &mut rng);
        world
    }

    /// Fills the shelf: each ordered product in the colour it was ordered in and two others.
    fn stock(&mut self, ids: &mut Ids, rng: &mut Rng) {
        let items = self.orders.values().flat_map(|order| &order.items);
        for (product, item) in items {
            let mut colours = COLOURS.map(str::to_owned).to_vec();
            rng.shuffle(&mut colours);
            let others = colours.into_iter().filter(|colour| *colour != item.colour).take(2);
            let colours = others.chain([item.colour.clone()]).map(|colour| (colour, ids.three())).collect();
            self.products.insert(product.clone(), Product { colours });
        }
    }
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
