//! `name = "triage-reader"` and `name = "triage-searcher"`.

use std::sync::Arc;

use hone_arena::registry::{Counts, EnvOptions, Environment, RegistryError};
use hone_arena::users::NewUser;
use serde::{Deserialize, Serialize};

use crate::triage::{self, Demonstrator, Mode, Size, TaskSpec, TriageArena};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TriageSpec {
    /// It says the mode.
    pub name: String,
    /// 1 to 3; absent mixes them.
    #[serde(alias = "level", skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<u8>,
    pub tasks: usize,
    /// Tasks of each split that is never trained on.
    pub held_out: usize,
    /// Which of them is evaluated on.
    pub held_out_from: HeldOut,
    /// Another seed is another knowledge base with other answers.
    pub seed: u64,
    pub size: Size,
    /// Documents in a reader's prompt; absent: twice the difficulty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<usize>,
    pub products: usize,
    /// Knowledge bases that tasks take in turn.
    pub worlds: usize,
    pub demonstrator: Demonstrator,
    pub unknown_percent: usize,
    /// Tickets that do not say which of two articles is right.
    pub vague_percent: usize,
    pub incident_percent: usize,
}

/// What held-out tickets are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldOut {
    /// What training sees, in knowledge bases it never sees.
    Fresh,
    /// Held-out symptoms of products that training sees.
    Dev,
    /// Products and failure modes that training never sees.
    #[default]
    Test,
}

impl HeldOut {
    fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Dev => "dev",
            Self::Test => "test",
        }
    }
}

impl Default for TriageSpec {
    fn default() -> Self {
        let TaskSpec {
            mode,
            seed,
            size,
            products,
            worlds,
            demonstrator,
            train,
            dev,
            unknown_percent,
            vague_percent,
            incident_percent,
            ..
        } = TaskSpec::default();
        Self {
            name: mode.env().into(),
            difficulty: None,
            tasks: train,
            held_out: dev,
            held_out_from: HeldOut::default(),
            seed,
            size,
            documents: None,
            products,
            worlds,
            demonstrator,
            unknown_percent,
            vague_percent,
            incident_percent,
        }
    }
}

impl EnvOptions for TriageSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn held_out_split(&self) -> &'static str {
        self.held_out_from.name()
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        let mode = if self.name == Mode::Searcher.env() { Mode::Searcher } else { Mode::Reader };
        let spec = TaskSpec {
            mode,
            seed: self.seed,
            size: self.size,
            products: self.products,
            worlds: self.worlds,
            demonstrator: self.demonstrator,
            train: self.tasks,
            fresh: if self.held_out_from == HeldOut::Fresh { self.held_out } else { 0 },
            dev: self.held_out,
            test: self.held_out,
            level: self.difficulty,
            documents: self.documents,
            unknown_percent: self.unknown_percent,
            vague_percent: self.vague_percent,
            incident_percent: self.incident_percent,
        };
        let made = spec.generate().map_err(RegistryError::own)?;
        let splits = [("train", made.train), ("fresh", made.fresh), ("dev", made.dev), ("test", made.test)];
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(TriageArena::default()),
            splits: splits.into_iter().map(|(name, tasks)| (name.to_owned(), tasks)).collect(),
            rubric: triage::rubric()?,
            baselines: triage::baselines(),
        })
    }
}
