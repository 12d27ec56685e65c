//! Options of the customer-service domains, `name = "retail"`, `"airline"` and `"telecom"`: a generated world, or the data of tau-bench or
//! tau2-bench with `data`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_arena::catalogue::{Documented as _, Options, split};
use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, HELD_OUT, RegistryError, TRAIN, set};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::users::{LlmUser, NewUser, Prompts, Strategy, User};
use hone_trace::{Fault, Seed, Task, TaskSet};
use indexmap::IndexMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::baselines::baselines;
use super::generate::{self, Names, generate};
use super::service::{Service, scripted_users};
use super::{Domain, Kind, Profile, tasks};
use crate::registry::{EnvEntry, Floor, Make, read};

const TAU_BENCH: &str =
    "Yao et al. 2024, tau-bench, arXiv:2406.12045; Barres et al. 2025, tau2-bench, arXiv:2506.07982";

pub(crate) const RETAIL: EnvEntry = EnvEntry {
    name: "retail",
    about: "Customer service of a shop, as tau-bench defines it: a generated world, or tau-bench's with data = DIR",
    advice: "For agents that look things up, ask for consent and change records while a user talks",
    paper: Some(TAU_BENCH),
    options: Options::of::<ServiceSpec>(),
    make: Make {
        read: read::<ServiceSpec>,
        user: true,
        floor: Some(Floor { at_most: 0.1, options: r#"{"customers": 100}"# }),
    },
};

pub(crate) const AIRLINE: EnvEntry = EnvEntry {
    name: "airline",
    about: "Customer service of an airline, as tau-bench defines it: a generated world, or tau-bench's with data = DIR",
    advice: "Harder than retail: longer policies, searches and sums of money",
    paper: Some(TAU_BENCH),
    options: Options::of::<ServiceSpec>(),
    make: Make {
        read: read::<ServiceSpec>,
        user: true,
        floor: Some(Floor { at_most: 0.15, options: r#"{"customers": 100}"# }),
    },
};

pub(crate) const TELECOM: EnvEntry = EnvEntry {
    name: "telecom",
    about: "Technical support of a mobile carrier, as tau2-bench defines it: agent and user have tools each; generated, or data = DIR",
    advice: "For agents that must guide a user through steps of their own; with solo = true the agent takes them itself",
    paper: Some(TAU_BENCH),
    options: Options::of::<ServiceSpec>(),
    make: Make {
        read: read::<ServiceSpec>,
        user: true,
        floor: Some(Floor { at_most: 0.35, options: r#"{"customers": 100}"# }),
    },
};

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct ServiceSpec {
        /// `retail`, `airline` or `telecom`.
        pub name: String,
        /// 1: one change, named by id; 2: described, or a choice among variants or flights; 3: two changes and a question.
        /// In telecom, the number of things that are wrong. Absent mixes them. For generated worlds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub difficulty: Option<u8> where whole(1, 3),
        /// Number of training tasks; of a data directory, the first ones.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are never trained on, of customers that training never meets.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed of the generated world and its tasks.
        pub seed: u64 where seed(),
        /// Customers in the generated world. Every fifth is held out, and no training task is about them.
        pub customers: usize where whole(1, 1_000_000),
        /// Names of customers made of syllables, so that a policy trained from scratch learns to copy them; otherwise from
        /// a list of 32. For generated worlds.
        pub invented: bool,
        /// A tau-bench or tau2-bench directory of the domain instead of a generated world: trains on `train`,
        /// evaluates on `test`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub data: Option<PathBuf> where path(),
        /// `compat`: tau-bench v1 to the byte; `strict`: arguments checked, known faults fixed; `tau2`: tau2-bench.
        /// Absent: `tau2` for a tau2-bench directory, else `strict`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub profile: Option<Profile>,
        /// tau2's solo mode, for telecom: the agent also has the user's tools, works from a ticket, without a user.
        pub solo: bool,
        /// User simulator: `"scripted"`, or a model's table as under [user](#user).
        pub user: UserSpec where table_of(&[StrategySpec::KEYS, ChatSpec::KEYS]),
    }
}

impl Default for ServiceSpec {
    fn default() -> Self {
        Self {
            name: Kind::Retail.name().into(),
            difficulty: None,
            tasks: 1000,
            held_out: 200,
            seed: 1,
            customers: 500,
            invented: false,
            data: None,
            profile: None,
            solo: false,
            user: UserSpec::Scripted,
        }
    }
}

impl ServiceSpec {
    fn kind(&self) -> Kind {
        let kinds = [Kind::Airline, Kind::Telecom];
        kinds.into_iter().find(|kind| kind.name() == self.name).unwrap_or(Kind::Retail)
    }

    /// Prompts of a model that plays the user: tau-bench's own in its own world, so that results compare with published ones.
    fn prompts(&self) -> Result<Prompts, RegistryError> {
        let (Some(directory), Some(Profile::Compat), UserSpec::Model { .. }) = (&self.data, self.profile, &self.user)
        else {
            return Ok(self.tau2_prompts());
        };
        let wrong = |what: String| RegistryError::Options { name: self.name.clone(), what };
        let places = [Some(directory.as_path()), directory.parent()].map(|place| Some(place?.join(USER_PROMPTS)));
        let Some(path) = places.into_iter().flatten().find(|path| path.is_file()) else {
            return Err(wrong(format!(
                "profile = \"compat\" plays tau-bench's own user, and {USER_PROMPTS} is neither in {} nor beside it; write the texts of \
                 tau_bench/envs/user.py there (llm_system, react_system, verify_user_prompt, reflect_user_prompt), or take profile = \
                 \"strict\"",
                directory.display()
            )));
        };
        let text = std::fs::read_to_string(&path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        serde_json::from_str(&text).map_err(|error| wrong(format!("in {}: {error}", path.display())))
    }

    fn generate(&self, new_user: Arc<NewUser>) -> Result<(Service, IndexMap<String, TaskSet>), RegistryError> {
        if let Some(level) = self.difficulty.filter(|level| !(1..=3).contains(level)) {
            let what = format!("a difficulty is 1, 2 or 3, found {level}; leave it out for all three");
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        let made = generate(&generate::Recipe {
            kind: self.kind(),
            profile: self.profile.unwrap_or(if self.kind() == Kind::Telecom { Profile::Tau2 } else { Profile::Strict }),
            seed: self.seed,
            users: self.customers,
            tasks: self.tasks,
            held_out: self.held_out,
            difficulty: self.difficulty,
            names: if self.invented { Names::Invented } else { Names::Common },
        })
        .map_err(|source| RegistryError::Generate { name: self.name.clone(), source: source.into() })?;
        let version = format!("seed{}", self.seed);
        let split = |split: &str, tasks| set(&self.name, split, &version, self.alone(tasks)?);
        let splits = [split(TRAIN, made.tasks)?, split(HELD_OUT, made.held_out)?].into();
        let domain = if self.solo { Arc::new(made.domain.solo()) } else { made.domain };
        Ok((Service::new(domain, new_user)?, splits))
    }

    fn load(
        &self,
        directory: &Path,
        new_user: Arc<NewUser>,
    ) -> Result<(Service, IndexMap<String, TaskSet>), RegistryError> {
        if self.difficulty.is_some() {
            let what = "tasks of a data directory have no `difficulty`; leave it out, or set it to none (--set env.difficulty=none)".to_owned();
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        if self.invented {
            let what = "customers of a data directory have their own names; leave `invented` out".to_owned();
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        let kind = self.kind();
        let profile = self.profile.unwrap_or_else(|| Profile::of(directory, Profile::Strict));
        let domain = Domain::load(kind, profile, directory).map_err(RegistryError::own)?;
        let domain = Arc::new(if self.solo { domain.solo() } else { domain });
        let service = Service::new(domain.clone(), new_user)?.with_texts_of(directory);
        let names = split_names(directory);
        if names.is_empty() {
            return Err(RegistryError::NoTasks { path: directory.display().to_string() });
        }
        let split = |name: &str| set(&self.name, name, "data", self.tasks(&domain, directory, name)?);
        Ok((service, names.into_iter().map(split).collect::<Result<_, RegistryError>>()?))
    }

    /// The tasks of a split, checked to be playable.
    fn tasks(&self, domain: &Arc<Domain>, directory: &Path, split: &str) -> Result<Vec<Task>, RegistryError> {
        let tasks = self.alone(tasks::load(domain.kind, directory, split).map_err(RegistryError::own)?)?;
        tasks::check(domain, &tasks).map_err(RegistryError::own)?;
        Ok(tasks)
    }

    /// The tasks unchanged or, in solo mode, for an agent without a user.
    fn alone(&self, tasks: Vec<Task>) -> Result<Vec<Task>, RegistryError> {
        let alone = |task: Task| {
            let key = task.key.clone();
            tasks::solo(task).map_err(|what| RegistryError::Options {
                name: self.name.clone(),
                what: format!("solo: task {key}: {what}"),
            })
        };
        if self.solo { tasks.into_iter().map(alone).collect() } else { Ok(tasks) }
    }
}

impl EnvOptions for ServiceSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn rubric(&self) -> RubricSpec {
        RubricSpec::single("tau", Map::new())
    }

    fn held_out_split(&self) -> &'static str {
        if self.data.is_some() { "test" } else { HELD_OUT }
    }

    fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        if self.solo && self.kind() != Kind::Telecom {
            let what =
                "solo is for telecom: users of other domains have no tools to hand over; leave `solo` out".to_owned();
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        let new_user = match user {
            Some(user) => user,
            None => self.user.start(&self.name, self.prompts()?)?,
        };
        let (service, splits) = match &self.data {
            Some(directory) => self.load(directory, new_user)?,
            None => self.generate(new_user)?,
        };
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(service),
            splits,
            rubric: self.rubric().build()?,
            baselines: baselines(self.kind()),
        })
    }
}

impl ServiceSpec {
    /// Prompts of a model that plays the user: those of tau2's simulator if its directory is beside the data.
    fn tau2_prompts(&self) -> Prompts {
        let file = match self.kind() {
            Kind::Telecom => "simulation_guidelines_tools.md",
            Kind::Retail | Kind::Airline => "simulation_guidelines.md",
        };
        let above = self.data.iter().flat_map(|data| [data.join(".."), data.join("../..")]);
        let read = above
            .map(|above| above.join("user_simulator").join(file))
            .find_map(|path| std::fs::read_to_string(path).ok());
        read.map_or_else(Prompts::default, |guidelines| Prompts::tau2(&guidelines))
    }
}

/// The file of tau-bench's prompts for its users.
const USER_PROMPTS: &str = "user_prompts.json";

/// The splits a data directory has.
fn split_names(directory: &Path) -> Vec<&'static str> {
    if directory.join("tasks.json").exists() {
        return vec!["train", "test"];
    }
    let has = |name: &&str| directory.join(format!("tasks_{name}.json")).exists();
    ["train", "dev", "test", "small"].into_iter().filter(has).collect()
}

/// User simulator: `"scripted"`, or a model, `{ url = …, model = …, strategy = "llm" }`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum UserSpec {
    #[default]
    Scripted,
    Model {
        strategy: Strategy,
        chat: ChatSpec,
    },
}

documented! {
    /// The key of a model that plays the user, beside the model's own.
    #[derive(Debug, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub(crate) struct StrategySpec {
        /// `llm`: one sample. `react`: a thought first, which is not said. `verify`: up to three samples, until a reviewer
        /// accepts one. `reflection`: a rejected sample is rewritten once.
        strategy: Strategy,
    }
}

impl UserSpec {
    fn start(&self, name: &str, prompts: Prompts) -> Result<Arc<NewUser>, RegistryError> {
        let Self::Model { strategy, chat } = self else { return Ok(scripted_users()) };
        let client = ChatClient::new(chat.clone())
            .map_err(|what| RegistryError::Options { name: name.to_owned(), what: format!("user: {what}") })?;
        let strategy = *strategy;
        Ok(Arc::new(move |task: &Task, seed| {
            let seed = Seed::root(seed).with("user");
            let user = LlmUser::new(client.clone(), strategy, prompts.clone(), &task.prompt, seed);
            Ok::<_, Fault>(Box::new(user.after(&earlier(task))) as Box<dyn User>)
        }))
    }

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::String(name) if name == "scripted" => Ok(Self::Scripted),
            table @ Value::Object(_) => {
                let known = || StrategySpec::KEYS.iter().chain(ChatSpec::KEYS).map(|key| key.name);
                let unknown =
                    table.as_object().and_then(|table| table.keys().find(|key| known().all(|name| name != *key)));
                if let Some(unknown) = unknown {
                    let listed = known().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                    return Err(format!(
                        "user: unknown field `{unknown}`, expected one of {listed}; write user = \"scripted\", or {{ url = …, model = … }}"
                    ));
                }
                let (own, chat) = split::<StrategySpec>(table);
                let own: StrategySpec =
                    serde_json::from_value(own).map_err(|error| format!("user.strategy: {error}"))?;
                let chat = serde_json::from_value(chat).map_err(|error| format!("user: {error}"))?;
                Ok(Self::Model { strategy: own.strategy, chat })
            }
            other => Err(format!(
                "user is \"scripted\" or a model's table with `url` and `model`, found {other}; write user = \"scripted\", or {{ url = …, model = … }}"
            )),
        }
    }
}

/// Earlier conversation of a task as the user knows it: without the agent's tool calls, and without the message that
/// the user answers next.
fn earlier(task: &Task) -> Vec<Value> {
    let history = task.extra.get("initial_state").and_then(|state| state.get("message_history")?.as_array());
    let called = |message: &Value| message.get("tool_calls").and_then(Value::as_array).is_some_and(|c| !c.is_empty());
    let mut known: Vec<Value> = history.into_iter().flatten().filter(|message| !called(message)).cloned().collect();
    let answered = history.and_then(|history| history.last()?.get("role")?.as_str()) == Some("assistant");
    if answered {
        known.pop();
    }
    known
}

impl<'de> Deserialize<'de> for UserSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for UserSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Table<'a> {
            strategy: Strategy,
            #[serde(flatten)]
            chat: &'a ChatSpec,
        }
        match self {
            Self::Scripted => serializer.serialize_str("scripted"),
            Self::Model { strategy, chat } => Table { strategy: *strategy, chat }.serialize(serializer),
        }
    }
}
