//! Opens triage episodes. A task names its world, and episodes that play in the same world share it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Digest, Episode, Fault, Message, Task, ToolSet};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use super::env::TriageEnv;
use super::facts::Gold;
use super::tasks::Mode;
use super::tools::{reader_tools, searcher_tools};
use super::world::{Size, World, WorldSpec};

/// Opens `triage-reader` and `triage-searcher` tasks.
#[derive(Debug)]
pub struct TriageArena {
    reader: ToolSet,
    searcher: ToolSet,
    // A std mutex: held while a world is created (tens of milliseconds), so that replicas that open together create it
    // once; never across an await.
    worlds: Mutex<HashMap<WorldSpec, Arc<World>>>,
}

/// Worlds that are kept; all are dropped when there is one more. Tasks of one recipe may name tens of thousands.
const WORLDS: usize = 256;

impl Default for TriageArena {
    #[expect(clippy::expect_used, reason = "the tools' names are constants and differ; a test builds both sets")]
    fn default() -> Self {
        Self {
            reader: reader_tools().expect("the names of the tools are constants and differ"),
            searcher: searcher_tools().expect("the names of the tools are constants and differ"),
            worlds: Mutex::default(),
        }
    }
}

impl TriageArena {
    /// The world of a spec, created unless it is kept from an earlier use.
    pub fn world(&self, spec: WorldSpec) -> Arc<World> {
        let mut worlds = self.worlds.lock().unwrap_or_else(PoisonError::into_inner);
        if worlds.len() >= WORLDS && !worlds.contains_key(&spec) {
            worlds.clear();
        }
        worlds.entry(spec).or_insert_with(|| Arc::new(World::new(spec))).clone()
    }

    pub fn tools(&self, mode: Mode) -> &ToolSet {
        match mode {
            Mode::Reader => &self.reader,
            Mode::Searcher => &self.searcher,
        }
    }

    fn prepare(&self, task: &Task) -> Result<(TriageEnv, Vec<String>), String> {
        let mode = [Mode::Reader, Mode::Searcher]
            .into_iter()
            .find(|mode| mode.env() == task.env)
            .ok_or_else(|| format!("{:?} is not a triage environment", task.env))?;
        let world = self.world(field(task, "world")?);
        let digest: Digest = field(task, "world_digest")?;
        if world.digest() != digest {
            return Err("it was made by another version of the generator; generate the tasks again".into());
        }
        let gold: Gold = serde_json::from_value(task.verifier.clone().unwrap_or_default())
            .map_err(|error| format!("its verifier is not a triage answer: {error}"))?;
        let shown: Vec<String> = if mode == Mode::Reader { field(task, "documents")? } else { Vec::new() };
        let mut context = IndexMap::new();
        for id in &shown {
            let (_, document) = world.get(id).ok_or_else(|| format!("its world has no document {id}"))?;
            context.insert(id.clone(), document.text());
        }
        let env = TriageEnv {
            mode,
            world,
            task: task.clone(),
            gold,
            context,
            retrieved: Vec::new(),
            submitted: None,
            error: None,
            done: false,
        };
        Ok((env, shown))
    }
}

fn field<T: DeserializeOwned>(task: &Task, key: &str) -> Result<T, String> {
    let value =
        task.extra.get(key).ok_or_else(|| format!("it has no {key:?}; triage tasks come from the generator"))?;
    serde_json::from_value(value.clone()).map_err(|error| format!("its {key:?} cannot be read: {error}"))
}

#[async_trait]
impl Arena for TriageArena {
    /// The seed is not used: nothing in an episode is random, and the replicas of a task see the same prompt.
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let (env, shown) = self
            .prepare(task)
            .map_err(|why| Fault::new(Boundary::Environment, format!("task {} cannot be opened: {why}", task.key)))?;
        let mut first = format!("Ticket:\n{}\n", task.prompt);
        if env.mode == Mode::Reader {
            first.push_str("\nDocuments:\n");
            for id in &shown {
                // Writing to a String cannot fail. A tiny article has its id in its sentence.
                let _ = match env.world.spec.size {
                    Size::Tiny => writeln!(first, "{}", env.context[id]),
                    Size::Brief | Size::Full => writeln!(first, "[{id}] {}\n", env.context[id]),
                };
            }
        }
        let system = match env.mode {
            Mode::Reader => READER,
            Mode::Searcher => SEARCHER,
        };
        let rules = match env.world.spec.size {
            Size::Tiny => TINY_RULES,
            Size::Brief | Size::Full => RULES,
        };
        Ok(Episode {
            tools: self.tools(env.mode).clone(),
            system: format!("{system} {rules}"),
            first: vec![Message::user(first.trim_end())],
            env: Box::new(env),
        })
    }
}

const READER: &str = "You triage IT tickets. Read the ticket and the documents, then call submit_resolution once.";

const SEARCHER: &str =
    "You triage IT tickets. Search articles, past tickets and incidents, read what fits, then call submit_resolution.";

const TINY_RULES: &str = "The right article has the ticket's product and code: give its fix and cite its id. If none \
has, set escalate to true, cite nothing and name the area's team. The confidence is your probability of being right.";

const RULES: &str = "The right article has the ticket's product, symptom and log message: give its fix and cite its \
id. If it asks for the change procedure of the product, give that step first and cite both. An open incident with the \
ticket's product, symptom and site comes before any article: give its workaround and cite it. Past tickets are hints, \
never cited. If nothing fits, set escalate to true, cite nothing and write: No document covers this. Escalate to the \
<area> team. The confidence is your probability of being right.";

#[cfg(test)]
mod tests {
    use super::super::world::Scope;
    use super::*;

    #[test]
    fn worlds_are_shared_and_the_number_kept_is_bounded() {
        let arena = TriageArena::default();
        let spec = |seed| WorldSpec { seed, size: Size::Tiny, scope: Scope::Seen, products: 1, invented: false };
        let first = arena.world(spec(0));
        assert!(Arc::ptr_eq(&first, &arena.world(spec(0))));
        for seed in 0..=WORLDS as u64 {
            arena.world(spec(seed));
            assert!(arena.worlds.lock().unwrap().len() <= WORLDS);
        }
        assert_eq!(arena.world(spec(0)).digest(), first.digest(), "created again, the same");
    }
}
