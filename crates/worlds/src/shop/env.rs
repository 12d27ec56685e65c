//! One episode at the desk.
//!
//! `end` leaves these facts: `db_match` (the final state is the solution's), `changes` made and wanted, `reference_calls`
//! and `writes`.

use async_trait::async_trait;
use hone_trace::{Action, EndState, Env, Fault, Message, Task, ToolCall, Turn};
use serde_json::{Value, json};

use super::desk::{Desk, Snag};
use super::tasks::solved;
use super::tools::Kit;
use super::words::Vocabulary;
use super::world::World;
use hone_arena::rewards::state_diff::diff;

#[derive(Debug)]
pub(super) struct ShopEnv {
    start: World,
    wanted: World,
    desk: Desk,
    kit: Kit,
    reference: Vec<ToolCall>,
}

impl ShopEnv {
    pub(super) fn open(task: &Task) -> Result<Self, String> {
        let kept = |key: &str| task.extra.get(key).cloned().unwrap_or_default();
        let seed = kept("world").as_u64().ok_or("it has no `world` seed")?;
        let words: Vocabulary =
            serde_json::from_value(kept("words")).map_err(|error| format!("its `words` are none: {error}"))?;
        let snag: Option<Snag> =
            serde_json::from_value(kept("snag")).map_err(|error| format!("its `snag` is none: {error}"))?;
        let reference = task.reference.clone().ok_or("it has no reference")?;
        let (start, kit) = (World::new(seed, words), Kit::new(seed, words));
        let desk = Desk::new(start.clone(), kit.clone(), snag);
        let wanted = solved(&desk, &reference).ok_or("its reference does not change its world")?;
        Ok(Self { start, wanted, desk, kit, reference })
    }

    pub(super) fn kit(&self) -> &Kit {
        &self.kit
    }

    fn call(&mut self, call: &ToolCall) -> (Message, bool) {
        match self.desk.run(call) {
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
        end.facts.insert("db_match".into(), (self.desk.world == self.wanted).into());
        end.facts.insert("changes".into(), json!({"made": changes(&self.desk.world), "wanted": changes(&self.wanted)}));
        end.facts.insert("reference_calls".into(), json!(self.reference));
        end.facts.insert("writes".into(), self.kit.writes().map(Value::from).collect());
        end
    }
}
