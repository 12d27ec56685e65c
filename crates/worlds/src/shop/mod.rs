//! The shop: a small retail desk for small models.
//!
//! Eight tools, worlds of a few customers, ids of two and three digits, and tasks of three to nine calls, each of which
//! needs the answer of an earlier one. Names and products are quoted as the shop spells them: a small policy must copy
//! them, wherever they occur. It has the shape of the retail domain at a tenth of its length: a policy of a million
//! parameters can learn it in minutes on a CPU.
//!
//! The skills to learn: reading the schemas (tools have different code names, descriptions and order in every task),
//! carrying on after an error as instructed, looking before acting if the right action depends on what is found, and
//! fulfilling both requests of a customer who has two.
//!
//! Held-out tasks share no name, good, city, code name or phrasing with training tasks, and combine goals that training
//! never combines. Each task's world comes from its own seed.

mod baselines;
mod desk;
mod env;
mod goals;
mod novice;
mod options;
mod tasks;
mod tools;
mod words;
mod world;

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Episode, Fault, Message, Task};

use baselines::BASELINES;
pub use goals::{Goal, TRAINED_PAIRS};
pub(crate) use options::SHOP;
pub use options::ShopSpec;
pub use tasks::TaskSpec;
pub use tools::{Kit, Tool};
pub use words::Vocabulary;
pub use world::World;

use env::ShopEnv;

/// The environment's name in tasks and recipes.
pub const NAME: &str = "shop";

const SYSTEM: &str = "You work at the desk of a shop. Do all that the customer asks with the tools, then say \"Done.\" \
After an error, carry on as it says. What a customer wants to be rid of is cancelled before delivery and returned after it.";

/// Opens episodes of the tasks made by [`TaskSpec`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Shop;

#[async_trait]
impl Arena for Shop {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let broken = |what: String| Fault::new(Boundary::Environment, what);
        let env = ShopEnv::open(task).map_err(|what| broken(format!("task {}: {what}", task.key)))?;
        Ok(Episode {
            tools: env.kit().specs().map_err(|duplicate| broken(duplicate.to_string()))?,
            system: SYSTEM.into(),
            first: vec![Message::user(&task.prompt)],
            env: Box::new(env),
        })
    }
}
