//! Worlds and tasks out of a seed: retail and airline with nothing downloaded.
//!
//! A task is one or more goals. A goal says what the user wants in a user's terms ("the lamp in my delivered order",
//! "the flight at 13:00") and lists every call that would satisfy it. A task is kept only if
//! - each goal is satisfied by exactly one end state, searched over all records the user owns,
//! - the reference's writes succeed, in any order of the goals with the same end,
//! - replaying the reference earns 1 and doing nothing earns 0.
//!
//! Difficulty 1 is one change that the user names by id; 2 describes the item to change, or asks for a choice among
//! variants or flights; 3 has two changes and a question.

mod airline;
mod airline_goals;
mod draw;
mod retail;
mod retail_goals;
mod telecom;
mod words;

use std::collections::HashSet;
use std::sync::Arc;

use hone_trace::{Rng, Seed, Task, ToolCall};
use serde_json::json;

use super::verdict::{changes, judge};
use super::world::World;
use super::{Desk, Domain, Kind, LoadError, Profile};
use hone_arena::solution::{SAYS, Say};
use hone_arena::users::{Script, Topic};

/// Drafts in a row that may fail before the world is called too small.
const PATIENCE: usize = 200;

/// Settings of the generator.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    pub kind: Kind,
    pub profile: Profile,
    pub seed: u64,
    /// Customers in the world, at least one. Every fifth is held out.
    pub users: usize,
    pub tasks: usize,
    /// Tasks of the customers that are held out.
    pub held_out: usize,
    /// Difficulty from 1 to 3; absent: all, alternating.
    pub difficulty: Option<u8>,
    pub names: Names,
}

/// Names of customers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Names from a list of 32: a policy learns them as words.
    #[default]
    Common,
    /// Names made of syllables: a policy has to copy them.
    Invented,
}

/// A world and tasks in it.
#[derive(Debug)]
pub struct Generated {
    pub domain: Arc<Domain>,
    pub tasks: Vec<Task>,
    /// Held-out tasks in the same world, about customers that none of `tasks` is about.
    pub held_out: Vec<Task>,
    /// Drafts that a check refused, or duplicates.
    pub refused: usize,
}

/// Reason why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("the generated world does not fit its own models, which is a fault of Hone; try another env.seed")]
    World(#[from] LoadError),
    #[error(
        "only {made} of {wanted} tasks after {tried} drafts with {users} customers; raise env.customers, or lower env.tasks"
    )]
    TooSmall { made: usize, wanted: usize, tried: usize, users: usize },
}

/// Makes a world and its tasks. The same recipe makes the same world and tasks; asking for more tasks moves none.
pub fn generate(recipe: &Recipe) -> Result<Generated, GenerateError> {
    let seed = Seed::root(recipe.seed).with(recipe.kind.name());
    let (mut rng, users) = (seed.with("world").rng(), recipe.users.max(1));
    let domain = Arc::new(match recipe.kind {
        Kind::Retail => {
            Domain::from_tables(recipe.kind, recipe.profile, retail::tables(&mut rng, users, recipe.names))?
        }
        Kind::Airline => {
            Domain::from_tables(recipe.kind, recipe.profile, airline::tables(&mut rng, users, recipe.names))?
        }
        Kind::Telecom if recipe.profile != Profile::Tau2 => return Err(LoadError::Tau2Alone.into()),
        Kind::Telecom => telecom::domain(&mut rng, users, recipe.names)?,
    });
    let (tasks, refused) = tasks(recipe, &domain, seed.with("task"), Customers::Seen, recipe.tasks)?;
    let (held_out, also) = tasks_held_out(recipe, &domain, seed)?;
    Ok(Generated { refused: refused + also, domain, tasks, held_out })
}

fn tasks_held_out(recipe: &Recipe, domain: &Arc<Domain>, seed: Seed) -> Result<(Vec<Task>, usize), GenerateError> {
    if recipe.held_out == 0 {
        return Ok((Vec::new(), 0));
    }
    tasks(recipe, domain, seed.with("held-out task"), Customers::HeldOut, recipe.held_out)
}

/// Domain whose tasks are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Customers {
    Seen,
    HeldOut,
}

/// The first customer held out, and the distance to the next.
const EVERY: usize = 5;

impl Customers {
    fn has(self, number: usize) -> bool {
        (self == Self::HeldOut) == (number % EVERY == EVERY - 1)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Seen => "generated",
            Self::HeldOut => "held-out",
        }
    }
}

/// `wanted` tasks of some of the customers, and how many drafts were refused.
fn tasks(
    recipe: &Recipe,
    domain: &Arc<Domain>,
    seed: Seed,
    customers: Customers,
    wanted: usize,
) -> Result<(Vec<Task>, usize), GenerateError> {
    let desk = domain.open();
    let people = desk.world().records(domain.kind.users()).enumerate();
    let people: Vec<&str> = people.filter(|(number, _)| customers.has(*number)).map(|(_, (id, _))| &**id).collect();
    let mut tasks: Vec<Task> = Vec::with_capacity(wanted);
    let mut known = HashSet::new();
    let (mut tried, mut fruitless) = (0, 0);
    while tasks.len() < wanted {
        if fruitless == PATIENCE || people.is_empty() {
            return Err(GenerateError::TooSmall { made: tasks.len(), wanted, tried, users: recipe.users });
        }
        let difficulty = recipe.difficulty.unwrap_or((tasks.len() % 3) as u8 + 1).clamp(1, 3);
        let mut rng = seed.at(tried as u64).rng();
        (tried, fruitless) = (tried + 1, fruitless + 1);
        let person = *pick(&mut rng, &people);
        let key = format!("{}/{}/{}/{}", recipe.kind.name(), customers.name(), recipe.seed, tasks.len());
        let draft = match recipe.kind {
            Kind::Retail => retail_goals::draft(desk.world(), person, &mut rng, difficulty),
            Kind::Airline => airline_goals::draft(desk.world(), person, &mut rng, difficulty),
            Kind::Telecom => None,
        };
        let task = match recipe.kind {
            Kind::Telecom => telecom::task(domain, person, &mut rng, difficulty),
            Kind::Retail | Kind::Airline => draft.and_then(|draft| finish(domain, draft)),
        };
        // The fault of a phone is not part of its user's words.
        let same = |task: &Task| format!("{}{:?}", task.prompt, task.extra.get("initial_state"));
        if let Some(mut task) = task.filter(|task| known.insert(same(task))) {
            task.key = key;
            task.difficulty = Some(difficulty);
            task.provenance = Some(format!("hone generator, seed {}", recipe.seed));
            tasks.push(task);
            fruitless = 0;
        }
    }
    let refused = tried - tasks.len();
    Ok((tasks, refused))
}

/// Something the user wants done.
struct Goal {
    /// Request in the user's words, as a complete sentence: "I want to …".
    says: String,
    /// Calls that look up what the write needs.
    reads: Vec<ToolCall>,
    /// Every possible call that does what the user asked for.
    satisfying: Vec<ToolCall>,
}

/// A task before it is checked.
struct Draft {
    user_id: String,
    /// The user's identity, phrased as an instruction: "You are …".
    identity: String,
    /// The agent's question for the facts that find the user.
    asks: &'static str,
    /// Calls that find the user.
    finds: Vec<ToolCall>,
    goals: Vec<Goal>,
    /// A question and its answer.
    question: Option<(String, String)>,
    knows: Vec<Topic>,
}

/// Checks a draft and turns it into a task, or drops it.
fn finish(domain: &Arc<Domain>, draft: Draft) -> Option<Task> {
    let writes = draft.goals.iter().map(|goal| only_end(domain, &goal.satisfying)).collect::<Option<Vec<_>>>()?;
    if !commute(domain, &writes) {
        return None;
    }
    let mut reference = draft.finds;
    let mut says = vec![Say { before: 0, text: draft.asks.into() }];
    for (goal, write) in draft.goals.iter().zip(&writes) {
        reference.extend(goal.reads.iter().filter(|read| !reference.contains(read)).cloned().collect::<Vec<_>>());
        let text = format!("You said: \"{}\" Do you want me to do exactly this (yes/no)?", goal.says);
        says.push(Say { before: reference.len(), text });
        reference.push(write.clone());
        says.push(Say { before: reference.len(), text: "This is done. Is there anything else?".into() });
    }
    if let Some((_, answer)) = &draft.question {
        says.push(Say { before: reference.len(), text: format!("It is {answer}. Is there anything else?") });
    }
    let mut wishes: Vec<String> = draft.goals.iter().map(|goal| goal.says.clone()).collect();
    let outputs = draft.question.as_ref().map(|(_, answer)| answer.clone()).into_iter().collect();
    wishes.extend(draft.question.map(|(question, _)| question));
    let script = Script { goals: wishes.clone(), knows: draft.knows, declines: Vec::new() };

    let mut task = Task::new("", domain.kind.name(), instruction(&draft.identity, &wishes));
    task.reference = Some(reference);
    task.outputs = outputs;
    task.verifier = Some(json!({ "kind": "tau", "basis": ["DB", "COMMUNICATE"] }));
    task.extra.insert("user_id".into(), draft.user_id.into());
    task.extra.insert("user".into(), json!(script));
    task.extra.insert(SAYS.into(), json!(says));
    holds(domain, &task).then_some(task)
}

/// Instruction for an actor who plays the user. The requests are in the user's own voice.
fn instruction(identity: &str, wishes: &[String]) -> String {
    let wishes: Vec<_> = wishes.iter().map(|wish| format!("- {wish}")).collect();
    format!(
        "{identity} You want these things and nothing else, one after the other, in words of your own:\n{}\nSay yes when \
         you are asked to confirm exactly what you want.",
        wishes.join("\n")
    )
}

/// The one call to make, when all calls that satisfy the goal and succeed lead to one end, and that end is a change.
fn only_end(domain: &Arc<Domain>, satisfying: &[ToolCall]) -> Option<ToolCall> {
    let mut found: Option<(ToolCall, World)> = None;
    for call in satisfying {
        let mut desk = domain.open();
        if !succeeds(&mut desk, call) || !desk.world().is_changed() {
            continue;
        }
        match &found {
            None => found = Some((call.clone(), desk.world().clone())),
            Some((_, end)) if end.same_state(desk.world()) => {}
            Some(_) => return None,
        }
    }
    found.map(|(call, _)| call)
}

fn succeeds(desk: &mut Desk, call: &ToolCall) -> bool {
    desk.call(call).is_ok_and(|reply| !reply.failed)
}

/// True when the writes succeed and end the same in both orders.
fn commute(domain: &Arc<Domain>, writes: &[ToolCall]) -> bool {
    let (mut forwards, mut backwards) = (domain.open(), domain.open());
    writes.iter().all(|call| succeeds(&mut forwards, call))
        && writes.iter().rev().all(|call| succeeds(&mut backwards, call))
        && forwards.world().same_state(backwards.world())
}

/// The reference earns 1, doing nothing 0, and no call of the reference fails.
fn holds(domain: &Arc<Domain>, task: &Task) -> bool {
    let mut desk = domain.open();
    let reference = task.reference.as_deref().unwrap_or_default();
    let runs = reference.iter().all(|call| succeeds(&mut desk, call));
    runs && judge(&desk, task, &task.outputs).reward() == Some(1.0)
        && judge(&domain.open(), task, NOTHING).reward() == Some(0.0)
        && !changes(desk.world()).is_empty()
}

/// Replies of a silent agent.
const NOTHING: &[&str] = &[];

/// One of the items, which are never none.
fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> &'a T {
    &items[rng.below(items.len())]
}
