//! Options of the shop, `name = "shop"`: the entry in the catalogue and how they open.

use std::sync::Arc;

use hone_arena::baseline::Baseline;
use hone_arena::catalogue::Options;
use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, HELD_OUT, RegistryError, TRAIN, set};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::solution::Demonstrator;
use hone_arena::users::NewUser;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::{BASELINES, NAME, Shop, TRAINED_PAIRS, TaskSpec, Vocabulary};
use crate::registry::{EnvEntry, Floor, Make, read};

pub(crate) const SHOP: EnvEntry = EnvEntry {
    name: NAME,
    about: "A small shop's desk: tools that must be read, three to nine calls that build on each other",
    advice: "For small models, and for a first run: an episode takes milliseconds",
    paper: None,
    options: Options::of::<ShopSpec>(),
    make: Make {
        read: read::<ShopSpec>,
        user: false,
        // Easier tasks can be solved by keywords.
        floor: Some(Floor { at_most: 0.35, options: r#"{"difficulty": 3}"# }),
    },
};

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct ShopSpec {
        /// `shop`.
        pub name: String,
        /// 1: one request that names the action. 2: errors along the way, and requests whose action depends on the
        /// order's status. 3: two requests at once.
        pub difficulty: u8 where whole(1, 3),
        /// Training tasks.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed of the tasks. Apart from the run's, so that runs of different seeds are measured on the same tasks.
        pub seed: u64 where seed(),
        /// Pairs of goals that training tasks combine, at most 6. Held-out tasks combine all seven.
        pub pairs: usize where whole(1, 6),
        /// Demonstrator that `hone sft` imitates. The novice, two times in three, stops at the first error, forgets the
        /// second request and does not look up the status.
        pub demonstrator: Demonstrator,
    }
}

impl Default for ShopSpec {
    fn default() -> Self {
        Self {
            name: NAME.into(),
            difficulty: 1,
            tasks: 2048,
            held_out: 256,
            seed: 1,
            pairs: TRAINED_PAIRS,
            demonstrator: Demonstrator::default(),
        }
    }
}

impl EnvOptions for ShopSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn rubric(&self) -> RubricSpec {
        RubricSpec::single("tau_state", Map::new())
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        if self.pairs > TRAINED_PAIRS {
            let what =
                format!("pairs is {}, and training combines at most {TRAINED_PAIRS}; lower env.pairs", self.pairs);
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        let split = |name: &str, words: Vocabulary, count: usize| {
            let novice = self.demonstrator == Demonstrator::Novice;
            let spec = TaskSpec { words, difficulty: self.difficulty, pairs: self.pairs, novice };
            set(&self.name, name, &format!("seed{}", self.seed), spec.tasks(name, self.seed, count))
        };
        let splits =
            [split(TRAIN, Vocabulary::Training, self.tasks)?, split(HELD_OUT, Vocabulary::HeldOut, self.held_out)?];
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(Shop),
            splits: splits.into(),
            rubric: self.rubric().build()?,
            baselines: BASELINES.iter().map(|script| Arc::new(*script) as Arc<dyn Baseline>).collect(),
        })
    }
}
