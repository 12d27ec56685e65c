//! Perturbed tools: the same environment with its tools in another order, or under each other's names.
//!
//! A policy that reads its tools does as well either way. One that remembers them by place breaks when the order is
//! reversed, and one that remembers them by name when the names are exchanged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::{
    Action, Arena, Boundary, EndState, Env, Episode, Fault, Held, Message, Task, ToolCall, ToolSet, ToolSpec, Turn,
};
use serde::{Deserialize, Serialize};

/// Change to the tools' presentation that does not change what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Perturbation {
    /// The tools are listed last to first.
    OrderReversed,
    /// Every tool takes the name of the next one, the last that of the first. Descriptions and parameters stay with the
    /// tool, and calls are translated. Names in the environment's own texts are unchanged.
    NamesExchanged,
}

impl Perturbation {
    pub const ALL: [Self; 2] = [Self::OrderReversed, Self::NamesExchanged];

    pub fn words(self) -> &'static str {
        match self {
            Self::OrderReversed => "tools in reverse order",
            Self::NamesExchanged => "tools' names exchanged",
        }
    }
}

/// An arena whose episodes offer perturbed tools.
pub struct Perturbed {
    arena: Arc<dyn Arena>,
    how: Perturbation,
}

impl std::fmt::Debug for Perturbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perturbed").field("how", &self.how).finish_non_exhaustive()
    }
}

impl Perturbed {
    pub fn new(arena: Arc<dyn Arena>, how: Perturbation) -> Self {
        Self { arena, how }
    }
}

#[async_trait]
impl Arena for Perturbed {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let mut episode = self.arena.open(task, seed).await?;
        let tools = episode.tools.to_vec();
        let (tools, renamed) = match self.how {
            Perturbation::OrderReversed => (tools.into_iter().rev().collect(), None),
            Perturbation::NamesExchanged => {
                let names = Names::exchanged(&tools);
                (tools.into_iter().map(|tool| names.spec(tool)).collect(), Some(names))
            }
        };
        episode.tools = ToolSet::new(tools).map_err(|twice| Fault::new(Boundary::Hone, twice.to_string()))?;
        if let Some(names) = renamed {
            for message in &mut episode.first {
                names.disguise(message);
            }
            episode.env = Box::new(Renamed { env: episode.env, names });
        }
        Ok(episode)
    }

    fn patience(&self, task: &Task) -> Option<Duration> {
        self.arena.patience(task)
    }

    fn trouble(&self) -> Option<String> {
        self.arena.trouble()
    }

    async fn holds(&self) -> Vec<Held> {
        self.arena.holds().await
    }
}

/// Names by name: the agent's for the environment's, and back.
#[derive(Debug)]
struct Names {
    shown: HashMap<String, String>,
    real: HashMap<String, String>,
}

impl Names {
    fn exchanged(tools: &[ToolSpec]) -> Self {
        let next = tools.iter().cycle().skip(1);
        let pairs = || tools.iter().zip(next.clone()).map(|(tool, next)| (tool.name.clone(), next.name.clone()));
        Self { shown: pairs().collect(), real: pairs().map(|(real, shown)| (shown, real)).collect() }
    }

    fn spec(&self, tool: ToolSpec) -> ToolSpec {
        ToolSpec { name: translated(&self.shown, tool.name), ..tool }
    }

    /// A message as the agent reads it.
    fn disguise(&self, message: &mut Message) {
        match message {
            Message::Tool { name: Some(name), .. } => *name = translated(&self.shown, std::mem::take(name)),
            Message::Assistant { tool_calls, .. } => {
                for call in tool_calls {
                    call.name = translated(&self.shown, std::mem::take(&mut call.name));
                }
            }
            _ => {}
        }
    }
}

/// The name's counterpart; a name that no tool has stays.
fn translated(names: &HashMap<String, String>, name: String) -> String {
    names.get(&name).cloned().unwrap_or(name)
}

/// An episode in which every tool has another's name.
struct Renamed {
    env: Box<dyn Env>,
    names: Names,
}

#[async_trait]
impl Env for Renamed {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        let real = |call: ToolCall| ToolCall { name: translated(&self.names.real, call.name), ..call };
        let action = match action {
            Action::Calls(calls) => Action::Calls(calls.into_iter().map(real).collect()),
            other => other,
        };
        let mut turn = self.env.step(action).await?;
        turn.messages.iter_mut().for_each(|message| self.names.disguise(message));
        Ok(turn)
    }

    async fn finish(&mut self) -> Result<(), Fault> {
        self.env.finish().await
    }

    fn end(&mut self) -> EndState {
        self.env.end()
    }

    fn user_seconds(&self) -> Option<f64> {
        self.env.user_seconds()
    }

    fn patience(&self) -> Option<Duration> {
        self.env.patience()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Answers every call with the name it got.
    struct Echo;

    #[async_trait]
    impl Arena for Echo {
        async fn open(&self, _task: &Task, _seed: u64) -> Result<Episode, Fault> {
            let tool = |name: &str| ToolSpec::new(name, format!("does {name}"), json!({"type": "object"}));
            Ok(Episode {
                tools: ToolSet::new(vec![tool("a"), tool("b"), tool("c")]).unwrap(),
                system: String::new(),
                first: Vec::new(),
                env: Box::new(Self),
            })
        }
    }

    #[async_trait]
    impl Env for Echo {
        async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
            let Action::Calls(calls) = action else { return Ok(Turn::default()) };
            let messages = calls.iter().map(|call| Message::tool(&call.name, &call.name)).collect();
            Ok(Turn { messages, ..Turn::default() })
        }
    }

    fn opened(how: Perturbation) -> Episode {
        let task = Task::new("0", "echo", "");
        futures::executor::block_on(Perturbed::new(Arc::new(Echo), how).open(&task, 0)).unwrap()
    }

    fn listed(episode: &Episode) -> Vec<(&str, &str)> {
        episode.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_deref().unwrap())).collect()
    }

    #[test]
    fn the_order_is_reversed_and_names_stay() {
        let episode = opened(Perturbation::OrderReversed);
        assert_eq!(listed(&episode), [("c", "does c"), ("b", "does b"), ("a", "does a")]);
    }

    /// A policy that reads its tools finds each under its new name; one that has memorised names calls the wrong tool.
    #[test]
    fn names_are_exchanged_and_calls_translated() {
        let mut episode = opened(Perturbation::NamesExchanged);
        assert_eq!(listed(&episode), [("b", "does a"), ("c", "does b"), ("a", "does c")]);
        for (called, runs) in [("b", "a"), ("c", "b"), ("a", "c"), ("unknown", "unknown")] {
            let action = Action::Calls(vec![ToolCall::new(called, Map::new())]);
            let turn = futures::executor::block_on(episode.env.step(action)).unwrap();
            assert_eq!(turn.messages, [Message::tool(called, runs)]);
        }
    }
}
