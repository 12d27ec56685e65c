//! Tasks of the shop: a customer's requests, the errors along the way, and the calls that fulfil them.

use hone_trace::{Rng, Seed, Task, ToolCall};

use super::NAME;
use super::desk::{Desk, Snag};
use super::goals::{Goal, PAIRS, TRAINED_PAIRS, request};
use super::novice::Manners;
use super::tools::{Kit, Tool};
use super::words::Vocabulary;
use super::world::{Status, World};
use hone_arena::solution::DEMONSTRATION;

/// Percentage of eligible tasks with an error along the way, and with two requests.
const SNAG_PERCENT: usize = 60;
const PAIR_PERCENT: usize = 12;

/// The kind of tasks to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSpec {
    pub words: Vocabulary,
    /// 1: one request that names the action. 2: errors along the way, and requests whose action depends on the order's
    /// status. 3: two requests at once.
    pub difficulty: u8,
    /// Pairs of goals that training combines. Held-out tasks combine all.
    pub pairs: usize,
    /// Imitation uses a novice instead of the solution.
    pub novice: bool,
}

impl TaskSpec {
    /// `count` tasks, each in its own world. Keys carry split and seed, so that splits of different seeds or names
    /// share no task. Every solution is replayed before the task is returned.
    pub fn tasks(&self, split: &str, seed: u64, count: usize) -> Vec<Task> {
        let root = Seed::root(seed).with("shop tasks").with(split);
        let made = (0u64..).filter_map(|number| {
            let mut rng = root.at(number).rng();
            let goals = self.goals(&mut rng);
            let scene = Scene::new(rng.next_u64() >> 1, self.words, &goals, self.difficulty > 1, &mut rng)?;
            let names: Vec<&str> = goals.iter().map(|goal| goal.name()).collect();
            scene.task(format!("{split}-{seed}-{number}-{}{}", names.join("+"), scene.snag_name()), self, &mut rng)
        });
        made.take(count).collect()
    }

    fn goals(&self, rng: &mut Rng) -> Vec<Goal> {
        let pairs = match self.words {
            Vocabulary::Training => &PAIRS[..self.pairs.min(TRAINED_PAIRS)],
            Vocabulary::HeldOut => &PAIRS[..],
        };
        let pair = self.difficulty > 2 && rng.below(100) < PAIR_PERCENT;
        match rng.pick(pairs).filter(|_| pair) {
            Some(pair) => {
                let mut pair = pair.to_vec();
                rng.shuffle(&mut pair);
                pair
            }
            None if self.difficulty > 1 => rng.pick(&Goal::ALL).copied().into_iter().collect(),
            None => rng.pick(&Goal::ALL[..4]).copied().into_iter().collect(),
        }
    }
}

/// One customer at the desk.
pub(super) struct Scene {
    seed: u64,
    words: Vocabulary,
    world: World,
    kit: Kit,
    snag: Option<Snag>,
    customer: String,
    wishes: Vec<Wish>,
}

/// A goal with its object.
struct Wish {
    goal: Goal,
    item: String,
    order: String,
    /// The requested city or colour, and the tool's argument for it.
    detail: (String, String),
}

impl Scene {
    /// `None` if nothing in the world fits the goals.
    fn new(seed: u64, words: Vocabulary, goals: &[Goal], may_snag: bool, rng: &mut Rng) -> Option<Self> {
        let (world, kit) = (World::new(seed, words), Kit::new(seed, words));
        let customers: Vec<&String> = world.customers.keys().collect();
        let customer = (*rng.pick(&customers)?).clone();
        let mut wishes: Vec<Wish> = Vec::new();
        for &goal in goals {
            let taken: Vec<&String> = wishes.iter().map(|wish| &wish.item).collect();
            wishes.push(wish(&world, &customer, goal, &taken, rng)?);
        }
        let snag = if may_snag { snag(&world, &wishes, rng) } else { None };
        Some(Self { seed, words, world, kit, snag, customer, wishes })
    }

    fn snag_name(&self) -> &'static str {
        match self.snag {
            None => "",
            Some(Snag::Busy { .. }) => "-busy",
            Some(Snag::Moved { .. }) => "-moved",
        }
    }

    fn task(&self, key: String, spec: &TaskSpec, rng: &mut Rng) -> Option<Task> {
        let name = &self.world.customers.get(&self.customer)?.name;
        let wishes: Vec<String> =
            self.wishes.iter().map(|wish| wish.goal.wish(self.words, &wish.item, &wish.detail.0, rng)).collect();
        let mut task = Task::new(key, NAME, request(self.words, name, &wishes, rng));
        let calls = self.calls(Manners::CAREFUL)?;
        solved(&self.desk(), &calls)?;
        if spec.novice {
            let demonstration = serde_json::to_value(self.calls(Manners::novice(rng))?).ok()?;
            task.extra.insert(DEMONSTRATION.into(), demonstration);
        }
        task.reference = Some(calls);
        task.difficulty = Some(spec.difficulty);
        task.provenance = Some("generated".into());
        task.extra.insert("world".into(), self.seed.into());
        task.extra.insert("words".into(), serde_json::to_value(self.words).ok()?);
        task.extra.insert("snag".into(), serde_json::to_value(&self.snag).ok()?);
        Some(task)
    }

    fn desk(&self) -> Desk {
        Desk::new(self.world.clone(), self.kit.clone(), self.snag.clone())
    }

    /// Calls of a player with these habits, including errors it runs into. A player that does not handle an error stops
    /// there.
    fn calls(&self, manners: Manners) -> Option<Vec<ToolCall>> {
        let name = &self.world.customers.get(&self.customer)?.name;
        let mut desk = self.desk();
        let mut made = vec![self.kit.call(Tool::FindCustomer, &[name])];
        let wishes = if manners.hears_all { &self.wishes[..] } else { self.wishes.get(..1)? };
        for wish in wishes {
            made.push(self.kit.call(Tool::FindOrder, &[&self.customer, &wish.item]));
            let mut order = desk.listed(&wish.order).to_owned();
            for tool in wish.means(&self.world, manners)? {
                // At most one error precedes a call.
                for _ in 0..2 {
                    let call = self.kit.call(tool, &wish.arguments(tool, &order));
                    let answer = desk.run(&call);
                    made.push(call);
                    match answer {
                        Ok(_) => break,
                        Err(_) if !manners.carries_on => return Some(made),
                        Err(_) => order.clone_from(&wish.order),
                    }
                }
            }
        }
        Some(made)
    }
}

impl Wish {
    /// The tools that fulfil it once the order is found.
    fn means(&self, world: &World, manners: Manners) -> Option<Vec<Tool>> {
        Some(match self.goal {
            Goal::Cancel => vec![Tool::CancelOrder],
            Goal::ChangeCity => vec![Tool::ChangeCity],
            Goal::Return => vec![Tool::ReturnItem],
            Goal::Exchange => vec![Tool::FindVariant, Tool::ExchangeItem],
            Goal::GiveUp if !manners.looks_first => vec![Tool::CancelOrder],
            Goal::GiveUp if world.orders.get(&self.order)?.status == Status::Pending => {
                vec![Tool::GetOrder, Tool::CancelOrder]
            }
            Goal::GiveUp => vec![Tool::GetOrder, Tool::ReturnItem],
        })
    }

    fn arguments<'a>(&'a self, tool: Tool, order: &'a str) -> Vec<&'a str> {
        match tool {
            Tool::FindVariant => vec![&self.item, &self.detail.0],
            Tool::ReturnItem => vec![order, &self.item],
            Tool::ExchangeItem => vec![order, &self.item, &self.detail.1],
            Tool::ChangeCity => vec![order, &self.detail.1],
            _ => vec![order],
        }
    }
}

/// A request of this customer about an item that no other request is about.
fn wish(world: &World, customer: &str, goal: Goal, taken: &[&String], rng: &mut Rng) -> Option<Wish> {
    let orders = world.customers.get(customer)?.orders.iter().filter_map(|id| Some((id, world.orders.get(id)?)));
    let fitting: Vec<(&String, &String)> = orders
        .filter(|(_, order)| goal.needs().is_none_or(|status| order.status == status))
        .flat_map(|(id, order)| order.items.keys().map(move |item| (id, item)))
        .filter(|(_, item)| !taken.contains(item))
        .collect();
    let &(order, item) = rng.pick(&fitting)?;
    let of = world.orders.get(order)?;
    let detail = match goal {
        Goal::ChangeCity => {
            let cities: Vec<&String> = world.cities.iter().filter(|city| **city != of.city).collect();
            let city = (*rng.pick(&cities)?).clone();
            (city.clone(), city)
        }
        Goal::Exchange => {
            let owned = &of.items.get(item)?.colour;
            let colours: Vec<_> = world.products.get(item)?.colours.iter().filter(|(c, _)| *c != owned).collect();
            let &(colour, variant) = rng.pick(&colours)?;
            (colour.clone(), variant.clone())
        }
        _ => Default::default(),
    };
    Some(Wish { goal, item: item.clone(), order: order.clone(), detail })
}

/// An error on the way to one of the requests.
fn snag(world: &World, wishes: &[Wish], rng: &mut Rng) -> Option<Snag> {
    if rng.below(100) >= SNAG_PERCENT {
        return None;
    }
    let order = rng.pick(wishes)?.order.clone();
    if rng.below(2) == 0 {
        return Some(Snag::Busy { order });
    }
    let unused = |id: &String| !world.orders.contains_key(id) && !world.customers.contains_key(id);
    let formerly: Vec<String> = (10..100).map(|id| id.to_string()).filter(unused).collect();
    Some(Snag::Moved { order, formerly: rng.pick(&formerly)?.clone() })
}

/// The shop after the calls, which must have changed.
pub(super) fn solved(desk: &Desk, calls: &[ToolCall]) -> Option<World> {
    let mut after = desk.clone();
    for call in calls {
        // Errors along the way are part of some solutions.
        let _ = after.run(call);
    }
    (after.world != desk.world).then_some(after.world)
}
