//! The shop: a small retail desk for small models.
//!
//! Eight tools, worlds of a few customers, ids of two and three digits, and tasks that take three or four calls of
//! which each needs the answer of the one before; the last is a write. Customers quote names and things as the shop
//! spells them: what a small policy must copy is the same tokens wherever it stands. It has the shape of the retail domain at a tenth
//! of its length: what a policy of a few million parameters can learn in minutes on a CPU.
//!
//! A task's world comes from its own seed, so a held-out task is also a world that was never seen.

mod env;
mod tasks;
mod tools;
mod world;

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Episode, Fault, Message, Task};

pub use tasks::{Goal, tasks};
pub use tools::tools;
pub use world::World;

use env::ShopEnv;

/// The environment's name in tasks and recipes.
pub const NAME: &str = "shop";

const SYSTEM: &str =
    "You work at the desk of a shop. Use the tools to do what the customer asks. Say \"Done.\" when it is done.";

/// Opens episodes of the tasks made by [`tasks`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Shop;

#[async_trait]
impl Arena for Shop {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let broken = |what: String| Fault::new(Boundary::Environment, what);
        let env = ShopEnv::open(task).map_err(|what| broken(format!("task {}: {what}", task.key)))?;
        Ok(Episode {
            tools: tools().map_err(|duplicate| broken(duplicate.to_string()))?,
            system: SYSTEM.into(),
            first: vec![Message::user(&task.prompt)],
            env: Box::new(env),
        })
    }
}
