//! Triage tasks in four splits, from one seed.
//!
//! Train and dev are played in a world that does not mention the held-out products and failure modes at all; test asks
//! about exactly those. Dev has its own symptoms (product × failure mode) among the seen ones. Fresh has the symptoms
//! of train in its own knowledge bases, so that none of its facts was ever seen. Task `i` of a split depends only on
//! the seed and on earlier tasks: asking for more tasks appends and moves none.

mod gold;
mod pool;

use std::collections::HashSet;

use hone_trace::{Rng, Seed, Task, TaskSet, TaskSetError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::distractors;
use super::facts::{Gold, Submitted};
use super::novice::{self, Work};
use super::problems::Problem;
use super::text::{self, Scene};
use super::world::{Scope, Shelf, Size, World, WorldSpec};
use hone_arena::solution::{DEMONSTRATION, Demonstrator};

use gold::{find, submission};
pub(super) use gold::{known_gold, unknown_gold};
use pool::{Draft, Kind, Pool, site};

/// The agent's access to the documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Documents in the prompt; one turn.
    #[default]
    Reader,
    /// Documents found by search; many turns.
    Searcher,
}

impl Mode {
    /// The name of the environment.
    pub fn env(self) -> &'static str {
        match self {
            Self::Reader => "triage-reader",
            Self::Searcher => "triage-searcher",
        }
    }
}

/// Specification of the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskSpec {
    pub mode: Mode,
    pub seed: u64,
    pub size: Size,
    /// Seen products per domain, 1 to 8.
    pub products: usize,
    /// Knowledge bases with different codes, values and ids, which tasks cycle through: more of them cannot be
    /// memorised.
    pub worlds: usize,
    /// Every knowledge base of train and fresh has its own words for products and fixes.
    pub invented: bool,
    /// Demonstrator that imitation learns from.
    pub demonstrator: Demonstrator,
    pub train: usize,
    pub fresh: usize,
    pub dev: usize,
    pub test: usize,
    /// Level from 1 to 3; absent: all, mixed.
    pub level: Option<u8>,
    /// Documents in a reader's prompt; absent: twice the level.
    pub documents: Option<usize>,
    /// Percentage of tickets without an answer.
    pub unknown_percent: usize,
    /// Percentage of tickets that do not say which of two articles is right: only the confidence can reflect that.
    pub vague_percent: usize,
    /// Percentage of tickets over level 1 that are about an open incident.
    pub incident_percent: usize,
}

impl Default for TaskSpec {
    fn default() -> Self {
        Self {
            mode: Mode::Reader,
            seed: 0,
            size: Size::Brief,
            products: 8,
            worlds: 1,
            invented: false,
            demonstrator: Demonstrator::default(),
            train: 2000,
            fresh: 0,
            dev: 200,
            test: 400,
            level: None,
            documents: None,
            unknown_percent: 20,
            vague_percent: 0,
            incident_percent: 15,
        }
    }
}

/// Split of the tasks, with its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    Train,
    /// Train's symptoms in other knowledge bases: tests looking things up instead of memorising.
    Fresh,
    /// Held-out symptoms of seen products: tests whether the tasks were learned.
    Dev,
    /// Held-out products and failure modes: tests generalisation.
    Test,
}

impl Split {
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Fresh => "fresh",
            Self::Dev => "dev",
            Self::Test => "test",
        }
    }

    fn holds(self, problem: Problem) -> bool {
        match self {
            Self::Test => problem.held_out(),
            Self::Dev => !problem.held_out() && reserved(problem),
            Self::Train | Self::Fresh => !problem.held_out() && !reserved(problem),
        }
    }
}

/// True for the symptoms of dev: every sixth, on a diagonal, so that no product and no failure mode belongs only to
/// dev.
fn reserved(problem: Problem) -> bool {
    (problem.domain + problem.product + problem.failure) % 6 == 5
}

/// The tasks of a spec.
#[derive(Debug, Clone)]
pub struct Splits {
    pub train: TaskSet,
    pub fresh: TaskSet,
    pub dev: TaskSet,
    pub test: TaskSet,
}

/// Reason why tasks cannot be generated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    #[error(
        "only {made} of {asked} different {split} tickets can be made from this world; lower env.tasks (or env.held_out), or raise env.products"
    )]
    Exhausted { split: &'static str, made: usize, asked: usize },
    #[error("a difficulty is 1, 2 or 3, found {0}; leave it out for all three")]
    Level(u8),
    #[error(
        "unknown_percent = {unknown} and vague_percent = {vague} are more than a hundred of a hundred tickets; lower one"
    )]
    Shares { unknown: usize, vague: usize },
    #[error("{what} is in both {first} and {second}; this is a bug in the generator")]
    Overlap { what: String, first: &'static str, second: &'static str },
    #[error(transparent)]
    Set(#[from] TaskSetError),
}

impl TaskSpec {
    /// The first world a split is played in.
    pub fn world(&self, split: Split) -> WorldSpec {
        self.world_at(split, 0)
    }

    fn world_at(&self, split: Split, number: usize) -> WorldSpec {
        let scope = if split == Split::Test { Scope::All } else { Scope::Seen };
        let other = |label| Seed::root(self.seed).with(label).at(number as u64).value();
        let seed = match (split, number) {
            (Split::Fresh, _) => other("triage fresh worlds"),
            (_, 0) => self.seed,
            _ => other("triage more worlds"),
        };
        // Test uses the catalogue's own words.
        let invented = self.invented && matches!(split, Split::Train | Split::Fresh);
        WorldSpec { seed, size: self.size, scope, products: self.products, invented }
    }

    pub fn generate(&self) -> Result<Splits, GenerateError> {
        if let Some(level) = self.level.filter(|level| !(1..=3).contains(level)) {
            return Err(GenerateError::Level(level));
        }
        if self.unknown_percent.saturating_add(self.vague_percent) > 100 {
            return Err(GenerateError::Shares { unknown: self.unknown_percent, vague: self.vague_percent });
        }
        let mut tickets = HashSet::new();
        let train = self.split(Split::Train, self.train, &mut tickets)?;
        let fresh = self.split(Split::Fresh, self.fresh, &mut tickets)?;
        let dev = self.split(Split::Dev, self.dev, &mut tickets)?;
        let test = self.split(Split::Test, self.test, &mut tickets)?;
        check_disjoint([("train", &train), ("dev", &dev), ("test", &test)])?;
        let set = |split: Split, tasks| {
            let name = format!("{}-{}", self.mode.env(), split.name());
            TaskSet::new(name, format!("1+seed{}", self.seed), tasks).map(|(set, _)| set)
        };
        Ok(Splits {
            train: set(Split::Train, train)?,
            fresh: set(Split::Fresh, fresh)?,
            dev: set(Split::Dev, dev)?,
            test: set(Split::Test, test)?,
        })
    }

    /// `tickets` are the existing ones: none is generated twice.
    fn split(&self, split: Split, count: usize, tickets: &mut HashSet<String>) -> Result<Vec<Task>, GenerateError> {
        let used = self.worlds.max(1).min(count);
        let worlds: Vec<World> = (0..used).map(|number| World::new(self.world_at(split, number))).collect();
        let pools: Vec<Pool<'_>> = worlds.iter().map(|world| Pool::new(world, split)).collect();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let pool = &pools[index % used];
            let seed = Seed::root(self.seed).with("triage task").with(split.name()).at(index as u64);
            // A retry draws a ticket of the same kind: some kinds are harder to generate, and would be rarer than
            // asked. If a world has no such ticket, any kind will do.
            let drawn = self.kind(Some(self.roll(split, index)), &mut seed.at(0).rng());
            let attempts = (0..ATTEMPTS).map(|attempt| (attempt, Some(drawn)));
            let attempts = attempts.chain((ATTEMPTS..2 * ATTEMPTS).map(|attempt| (attempt, None)));
            let mut attempts =
                attempts.filter_map(|(attempt, drawn)| self.draft(pool, drawn, &mut seed.at(attempt).rng()));
            let Some(draft) = attempts.find(|draft| tickets.insert(draft.identity())) else {
                return Err(GenerateError::Exhausted { split: split.name(), made: index, asked: count });
            };
            tasks.push(self.task(draft, pool, index));
        }
        Ok(tasks)
    }

    /// Number of a task within its hundred, shuffled: in every hundred tasks each kind has exactly its share.
    fn roll(&self, split: Split, index: usize) -> usize {
        let mut rolls: [usize; 100] = std::array::from_fn(|roll| roll);
        let seed = Seed::root(self.seed).with("triage kinds").with(split.name()).at(index as u64 / 100);
        seed.rng().shuffle(&mut rolls);
        rolls[index % 100]
    }

    /// The level and the kind of a ticket, by its number among a hundred or by chance.
    fn kind(&self, roll: Option<usize>, rng: &mut Rng) -> (u8, Kind) {
        let level = self.level.unwrap_or_else(|| 1 + rng.below(3) as u8);
        let chance = rng.below(100);
        let roll = roll.unwrap_or(chance);
        let kind = if roll < self.unknown_percent {
            Kind::Unknown
        } else if roll < self.unknown_percent + self.vague_percent {
            Kind::Vague
        } else if level > 1 && roll < self.unknown_percent + self.vague_percent + self.incident_percent {
            Kind::Incident
        } else if level == 3 && rng.below(2) == 0 {
            Kind::Procedure
        } else {
            Kind::Article
        };
        (level, kind)
    }

    /// One ticket with its answer, of a kind drawn before or of any, or `None` if the draw has no such problem or
    /// search would not find its document.
    fn draft(&self, pool: &Pool<'_>, drawn: Option<(u8, Kind)>, rng: &mut Rng) -> Option<Draft> {
        let world = pool.world;
        let own = self.kind(None, rng);
        let (level, kind) = drawn.unwrap_or(own);
        let (problem, site, gold, searches) = match kind {
            Kind::Incident => {
                let &index = rng.pick(&pool.incidents)?;
                let incident = &world.known_incidents[index];
                let gold = Gold {
                    gold_ids: vec![world.incident_document(index).id.clone()],
                    should_escalate: false,
                    reference: text::workaround(incident),
                    key_facts: vec![incident.value.to_string()],
                };
                (incident.symptom, incident.site, gold, vec![Shelf::Incidents])
            }
            Kind::Unknown => {
                let &problem = rng.pick(&pool.unknown)?;
                let searches = vec![Shelf::Articles, Shelf::Incidents];
                (problem, self::site(world, problem, rng)?, unknown_gold(world, problem), searches)
            }
            Kind::Article | Kind::Procedure | Kind::Vague => {
                let &problem = rng.pick(if kind == Kind::Procedure { &pool.procedural } else { &pool.plain })?;
                (problem, self::site(world, problem, rng)?, known_gold(world, problem)?, vec![Shelf::Articles])
            }
        };
        let scene = Scene { problem, site, level, log: !matches!(kind, Kind::Incident | Kind::Vague) };
        let ticket = text::ticket(self.size, &scene, world.particulars(problem), rng);
        let calls = match self.mode {
            Mode::Reader => Vec::new(),
            Mode::Searcher => find(world, &scene, &ticket, &gold, &searches)?,
        };
        let documents = match self.mode {
            Mode::Reader => {
                let count = self.documents.unwrap_or(2 * usize::from(level));
                let mut shown = gold.gold_ids.clone();
                if kind == Kind::Vague {
                    shown.push(pool.as_likely(problem, rng)?);
                }
                distractors::documents(world, &scene, &shown, count, rng)
            }
            Mode::Searcher => Vec::new(),
        };
        Some(Draft { kind, scene, ticket, gold, calls, documents })
    }

    fn task(&self, draft: Draft, pool: &Pool<'_>, index: usize) -> Task {
        let Draft { kind, scene, ticket, gold, mut calls, documents } = draft;
        let Self { mode, seed, size, .. } = self;
        let split = pool.split.name();
        let size = match size {
            Size::Tiny => "tiny",
            Size::Brief => "brief",
            Size::Full => "full",
        };
        // Ticket and articles do not determine which of the two it is.
        let confidence = if kind == Kind::Vague { 0.5 } else { 1.0 };
        let solution = Submitted { confidence, ..Submitted::right(&gold) };
        let novice = (self.demonstrator == Demonstrator::Novice).then(|| {
            let rng = &mut Seed::root(*seed).with("triage novice").at(index as u64).rng();
            let careful = Work { calls: calls.clone(), submitted: solution.clone() };
            let Work { mut calls, submitted } = novice::work(careful, pool.world, &scene, &documents, rng);
            calls.push(submission(&submitted));
            calls
        });
        calls.push(submission(&solution));
        let mut task = Task::new(format!("{}-{size}-{seed}-{split}-{index:05}", mode.env()), mode.env(), ticket);
        task.difficulty = Some(scene.level);
        task.reference = Some(calls);
        task.verifier = Some(json!(gold));
        task.provenance = Some(format!("hone triage generator 1, seed {seed}"));
        task.extra.insert("split".into(), split.into());
        task.extra.insert("kind".into(), kind.name().into());
        task.extra.insert("product".into(), scene.problem.product().into());
        task.extra.insert("failure".into(), scene.problem.failure().name.into());
        task.extra.insert("world".into(), json!(pool.world.spec));
        task.extra.insert("world_digest".into(), json!(pool.world.digest()));
        task.extra.extend(novice.map(|calls| (DEMONSTRATION.to_owned(), json!(calls))));
        if *mode == Mode::Reader {
            task.extra.insert("documents".into(), json!(documents));
        }
        task
    }
}

/// Draws for one task before the world counts as exhausted.
const ATTEMPTS: u64 = 200;

/// No symptom, key or ticket is in two splits.
fn check_disjoint(splits: [(&'static str, &Vec<Task>); 3]) -> Result<(), GenerateError> {
    let marks = |tasks: &[Task]| -> HashSet<String> {
        tasks
            .iter()
            .flat_map(|task| {
                let symptom = format!("{} / {}", task.extra["product"], task.extra["failure"]);
                [symptom, task.prompt.clone(), task.key.clone()]
            })
            .collect()
    };
    for (at, (first, tasks)) in splits.iter().enumerate() {
        let ours = marks(tasks);
        for (second, others) in &splits[at + 1..] {
            if let Some(what) = marks(others).into_iter().find(|mark| ours.contains(mark)) {
                return Err(GenerateError::Overlap { what, first, second });
            }
        }
    }
    Ok(())
}
