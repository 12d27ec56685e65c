//! Tasks of the shop: a goal in a customer's words, and the calls that reach it.

use hone_trace::{Rng, Seed, Task, ToolCall};
use serde_json::{Map, Value};

use super::NAME;
use super::tools::run;
use super::world::{Status, World, other_city};

/// What a customer can want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Cancel,
    ChangeCity,
    Return,
    Exchange,
}

impl Goal {
    pub const ALL: [Self; 4] = [Self::Cancel, Self::ChangeCity, Self::Return, Self::Exchange];

    fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::ChangeCity => "city",
            Self::Return => "return",
            Self::Exchange => "exchange",
        }
    }

    /// Goals with at most this many calls in their solution: 3 for difficulty 1, 4 for 2, 5 for 3.
    fn of_difficulty(difficulty: u8) -> &'static [Self] {
        match difficulty {
            1 => &[Self::Cancel, Self::ChangeCity],
            2 => &[Self::Cancel, Self::ChangeCity, Self::Return],
            _ => &Self::ALL,
        }
    }

    fn needs(self) -> Status {
        match self {
            Self::Cancel | Self::ChangeCity => Status::Pending,
            Self::Return | Self::Exchange => Status::Delivered,
        }
    }
}

/// `count` tasks of a difficulty (1 to 3), each in a world of its own. Keys carry split and seed, so that splits made
/// from different seeds or names share no task. Every solution is replayed before the task is given out.
pub fn tasks(split: &str, seed: u64, count: usize, difficulty: u8) -> Vec<Task> {
    let root = Seed::root(seed).with("shop tasks").with(split);
    let goals = Goal::of_difficulty(difficulty);
    let made = (0u64..).filter_map(|number| {
        let mut rng = root.at(number).rng();
        let goal = goals[rng.below(goals.len())];
        let world_seed = rng.next_u64() >> 1;
        let key = format!("{split}-{seed}-{number}-{}", goal.name());
        task(key, goal, world_seed, &mut rng).map(|task| Task { difficulty: Some(difficulty), ..task })
    });
    made.take(count).collect()
}

/// `None` where the world has no order the goal fits.
fn task(key: String, goal: Goal, world_seed: u64, rng: &mut Rng) -> Option<Task> {
    let world = World::new(world_seed);
    let fitting: Vec<(&String, &str, &String)> = world
        .customers
        .iter()
        .flat_map(|(id, customer)| customer.orders.iter().map(move |order| (id, customer.name.as_str(), order)))
        .filter(|(_, _, order)| world.orders[*order].status == goal.needs())
        .collect();
    let &(customer, name, order) = rng.pick(&fitting)?;
    let items: Vec<_> = world.orders[order].items.iter().collect();
    let &(item, what) = rng.pick(&items)?;
    let mut calls = vec![call("find_customer", &[("name", name)]), call("list_orders", &[("customer", customer)])];
    let wish = match goal {
        Goal::Cancel => {
            calls.push(call("cancel_order", &[("order", order)]));
            format!("cancel the order with the {}", what.product)
        }
        Goal::ChangeCity => {
            let city = other_city(rng, &world.orders[order].city);
            calls.push(call("change_city", &[("order", order), ("city", &city)]));
            format!("send the order with the {} to {city}", what.product)
        }
        Goal::Return => {
            calls.push(call("get_order", &[("order", order)]));
            calls.push(call("return_item", &[("order", order), ("item", item)]));
            format!("return the {}", what.product)
        }
        Goal::Exchange => {
            let colours: Vec<_> =
                world.products[&what.product].colours.iter().filter(|(colour, _)| **colour != what.colour).collect();
            let &(colour, variant) = rng.pick(&colours)?;
            calls.push(call("get_order", &[("order", order)]));
            calls.push(call("find_product", &[("name", &what.product)]));
            calls.push(call("exchange_item", &[("order", order), ("item", item), ("variant", variant)]));
            format!("exchange the {} for a {colour} one", what.product)
        }
    };
    let mut task = Task::new(key, NAME, format!("I am {name}. Please {wish}."));
    solved(&world, &calls)?;
    task.reference = Some(calls);
    task.provenance = Some("generated".into());
    task.extra.insert("world".into(), world_seed.into());
    Some(task)
}

/// The world after the calls, all of which must succeed, and which must differ from the one before.
pub(super) fn solved(world: &World, calls: &[ToolCall]) -> Option<World> {
    let mut after = world.clone();
    for call in calls {
        run(&mut after, call).ok()?;
    }
    (after != *world).then_some(after)
}

fn call(name: &str, arguments: &[(&str, &str)]) -> ToolCall {
    let arguments: Map<String, Value> =
        arguments.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    ToolCall::new(name, arguments)
}
