//! Options of triage, `name = "triage-reader"` and `name = "triage-searcher"`: the entries in the catalogue and how they
//! open.

use std::sync::Arc;

use hone_arena::catalogue::Options;
use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, RegistryError};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::users::NewUser;
use serde::{Deserialize, Serialize};

use super::{Demonstrator, Mode, Size, TaskSpec, TriageArena, baselines, rubric};
use crate::registry::{EnvEntry, Floor, Make, read};

pub(crate) const READER: EnvEntry = EnvEntry {
    name: "triage-reader",
    about: "IT tickets with the documents in the prompt: one turn, one submission",
    advice: "For grounded answers with citations and a confidence, without tools in between",
    paper: None,
    options: Options::of::<TriageSpec>(),
    make: Make { read: read::<TriageSpec>, user: false, floor: Some(Floor { at_most: 0.42, options: "{}" }) },
};

pub(crate) const SEARCHER: EnvEntry = EnvEntry {
    name: "triage-searcher",
    about: "IT tickets with a knowledge base to search: many turns",
    advice: "For search and reading over several turns; size = \"tiny\" suits policies of a million parameters",
    paper: None,
    options: Options::of::<TriageSpec>(),
    // Searching for the ticket's own words and taking the first hit is right more often than not: the skill to learn is
    // when not to.
    make: Make { read: read::<TriageSpec>, user: false, floor: Some(Floor { at_most: 0.7, options: "{}" }) },
};

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct TriageSpec {
        /// Name of the environment, which also selects the mode.
        pub name: String,
        /// 1: the error code is in the ticket, easy distractors; 2: no code; 3: the user's words, near misses, two-step
        /// fixes. Absent mixes them.
        #[serde(alias = "level", skip_serializing_if = "Option::is_none")]
        pub difficulty: Option<u8> where whole(1, 3),
        /// Training tasks. A larger number appends tasks and moves none.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks of each split that is never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Subject of held-out tickets. `test`: products and failure modes that training never sees; `dev`: held-out
        /// symptoms of those it sees; `fresh`: symptoms it sees, in knowledge bases it never sees.
        pub held_out_from: HeldOut,
        /// Another seed is another knowledge base with other answers.
        pub seed: u64 where seed(),
        /// `tiny`: one sentence that the answer repeats, for policies of a million parameters; `brief`: two or three
        /// sentences per document; `full`: as service desks write.
        pub size: Size,
        /// Documents in a reader's prompt; absent: twice the difficulty.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub documents: Option<usize> where whole(1, 1_000),
        /// Seen products of each domain, 1 to 8.
        pub products: usize where whole(1, 8),
        /// Knowledge bases with different codes, values and ids, which tasks cycle through: a small model cannot
        /// memorise 64.
        pub worlds: usize where whole(1, 65_536),
        /// Every knowledge base of training, and of `fresh`, names products and fixes in invented words: questions of
        /// `dev` and `test`, in real words, can then only be answered by reading.
        pub invented: bool,
        /// Demonstrator that `hone sft` imitates. The novice is careful two times in five; otherwise a reader answers
        /// from the first article and a searcher escalates without a search.
        pub demonstrator: Demonstrator,
        /// Percentage of tickets without an answer: escalating is right.
        pub unknown_percent: usize where whole(0, 100),
        /// Percentage of tickets that fit two articles and name neither's code: half of the guesses are wrong, and only
        /// the confidence can reflect that.
        pub vague_percent: usize where whole(0, 100),
        /// Percentage of the tickets over difficulty 1 that are about an open incident.
        pub incident_percent: usize where whole(0, 100),
    }
}

/// Source of held-out tickets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldOut {
    /// The products and failure modes of training, in knowledge bases it never sees.
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
            invented,
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
            invented,
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

    fn rubric(&self) -> RubricSpec {
        rubric()
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
            invented: self.invented,
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
            rubric: self.rubric().build()?,
            baselines: baselines(),
        })
    }
}
