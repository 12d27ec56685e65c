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
    /// To be rid of an item: whether that is a cancellation or a return is for the desk to find out.
    GiveUp,
    Exchange,
}

impl Goal {
    pub const ALL: [Self; 5] = [Self::Cancel, Self::ChangeCity, Self::Return, Self::GiveUp, Self::Exchange];

    fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::ChangeCity => "city",
            Self::Return => "return",
            Self::GiveUp => "give-up",
            Self::Exchange => "exchange",
        }
    }

    /// Difficulty 1 says what to do and takes three calls; 2 leaves a choice to the desk; 3 takes up to four calls.
    fn of_difficulty(difficulty: u8) -> &'static [Self] {
        match difficulty {
            1 => &[Self::Cancel, Self::ChangeCity, Self::Return],
            2 => &[Self::Cancel, Self::ChangeCity, Self::Return, Self::GiveUp],
            _ => &Self::ALL,
        }
    }

    /// The status an order must have; `None` where any will do.
    fn needs(self) -> Option<Status> {
        match self {
            Self::Cancel | Self::ChangeCity => Some(Status::Pending),
            Self::Return | Self::Exchange => Some(Status::Delivered),
            Self::GiveUp => None,
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
        .filter(|(_, _, order)| goal.needs().is_none_or(|status| world.orders[*order].status == status))
        .collect();
    let &(customer, name, order) = rng.pick(&fitting)?;
    let items: Vec<_> = world.orders[order].items.iter().collect();
    let &(item, what) = rng.pick(&items)?;
    let cancel = || call("cancel_order", &[("order", order)]);
    let give_back = || call("return_item", &[("order", order), ("item", item)]);
    let mut calls =
        vec![call("find_customer", &[("name", name)]), call("find_order", &[("customer", customer), ("item", item)])];
    let wish = match goal {
        Goal::Cancel => {
            calls.push(cancel());
            format!("Please cancel the order with \"{item}\"")
        }
        Goal::ChangeCity => {
            let city = other_city(rng, &world.orders[order].city);
            calls.push(call("change_city", &[("order", order), ("city", &city)]));
            format!("Please send the order with \"{item}\" to \"{city}\"")
        }
        Goal::Return => {
            calls.push(give_back());
            format!("Please return \"{item}\"")
        }
        Goal::GiveUp => {
            calls.push(if world.orders[order].status == Status::Pending { cancel() } else { give_back() });
            format!("I do not want \"{item}\" any more")
        }
        Goal::Exchange => {
            let colours: Vec<_> =
                world.products[item].colours.iter().filter(|(colour, _)| **colour != what.colour).collect();
            let &(colour, variant) = rng.pick(&colours)?;
            calls.push(call("find_colours", &[("item", item)]));
            calls.push(call("exchange_item", &[("order", order), ("item", item), ("variant", variant)]));
            format!("Please exchange \"{item}\" for \"{colour}\"")
        }
    };
    let mut task = Task::new(key, NAME, format!("I am \"{name}\". {wish}."));
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
