//! One episode at the desk.
//!
//! `end` leaves these facts: `db_match` (the final state is the solution's), `changes` made and wanted, `reference_calls`
//! and `writes`.

use async_trait::async_trait;
use hone_trace::{Action, EndState, Env, Fault, Message, Task, ToolCall, Turn};
use serde_json::json;

use super::tasks::solved;
use super::tools::{WRITES, run};
use super::world::World;
use crate::rewards::state_diff::diff;

#[derive(Debug)]
pub(super) struct ShopEnv {
    start: World,
    world: World,
    wanted: World,
    reference: Vec<ToolCall>,
}

impl ShopEnv {
    pub(super) fn open(task: &Task) -> Result<Self, String> {
        let seed = task.extra.get("world").and_then(serde_json::Value::as_u64).ok_or("it has no `world` seed")?;
        let reference = task.reference.clone().ok_or("it has no reference")?;
        let start = World::new(seed);
        let wanted = solved(&start, &reference).ok_or("its reference does not change its world")?;
        Ok(Self { world: start.clone(), start, wanted, reference })
    }

    fn call(&mut self, call: &ToolCall) -> (Message, bool) {
        match run(&mut self.world, call) {
            Ok(answer) => (Message::tool(&call.name, answer.to_string()), false),
            Err(error) => (Message::tool(&call.name, format!("Error: {error}")), true),
        }
    }
}

#[async_trait]
impl Env for ShopEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        Ok(match action {
            Action::Calls(calls) => {
                let (messages, failed): (Vec<_>, Vec<_>) = calls.iter().map(|call| self.call(call)).unzip();
                Turn { messages, failed: failed.into_iter().filter(|failed| *failed).count() as u32, done: false }
            }
            Action::Reply(_) => Turn { done: true, ..Turn::default() },
            Action::Malformed(failure) => {
                Turn { messages: vec![Message::user(format!("{failure}. {}", failure.hint))], ..Turn::default() }
            }
        })
    }

    fn end(&mut self) -> EndState {
        let state = |world: &World| json!(world);
        let changes = |world: &World| diff(&state(&self.start), &state(world));
        let mut end = EndState::default();
        end.facts.insert("db_match".into(), (self.world == self.wanted).into());
        end.facts.insert("changes".into(), json!({"made": changes(&self.world), "wanted": changes(&self.wanted)}));
        end.facts.insert("reference_calls".into(), json!(self.reference));
        end.facts.insert("writes".into(), json!(WRITES));
        end
    }
}
