//! Fleet: tasks that are played on rented instances, with tools over MCP and a remote verifier.
//!
//! An episode creates an instance, keeps it alive by heartbeats, and deletes it; anything left at the end of a run is
//! deleted by its run id. The verifier says pass, fail, or nothing: a verifier that did not run gives no verdict, and
//! no reward.

mod arena;
mod episode;
mod rest;
mod task;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;

use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, HELD_OUT, RegistryError, TRAIN, set};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::users::NewUser;
use hone_trace::Seed;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::http::{Credentials, Http};

use arena::FleetArena;

documented! {
    /// `[env]` with `kind = "fleet"`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct FleetSpec {
        /// `fleet`.
        pub kind: String,
        /// Name of your choice, which its tasks carry.
        pub name: String,
        /// A JSON array of tasks, or an object with `tasks`, as Fleet exports them.
        pub task_file: PathBuf where path().needed(),
        /// The orchestrator's address.
        pub url: String,
        /// Name of the environment variable that holds the key.
        pub key_env: String,
        /// Region of the instances; absent: the platform's choice.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub region: Option<String>,
        /// Environments whose tasks are taken, by their key; empty: all.
        pub envs: Vec<String>,
        /// Difficulties that are taken; empty: all.
        pub difficulties: Vec<u8> where whole(0, 255),
        /// Seconds that an instance lives without a heartbeat.
        pub ttl_s: u64 where whole(1, 1_000_000),
        /// Seconds between heartbeats.
        pub heartbeat_s: u64 where whole(1, 1_000_000),
        /// Seconds for creating an instance, its start included.
        pub create_deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for one tool call, retries included.
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for one run of the verifier.
        pub verifier_deadline_s: f64 where over(0.0, 86_400.0),
        /// Attempts to run a verifier that did not run.
        pub verifier_attempts: u32 where whole(1, 1000),
        /// Pays a failed episode the share of the checks that its verifier reports as passed.
        pub partial_reward: bool,
        /// Concurrent instances.
        pub instances: usize where whole(1, 4_096),
        /// The system prompt. The task's variables are added to it.
        pub system: String,
        /// Maximum number of training tasks.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed that shuffles the tasks.
        pub seed: u64 where seed(),
    }
}

impl Default for FleetSpec {
    fn default() -> Self {
        Self {
            kind: "fleet".into(),
            name: "fleet".into(),
            task_file: PathBuf::new(),
            url: "https://orchestrator.fleetai.com".into(),
            key_env: "FLEET_API_KEY".into(),
            region: None,
            envs: Vec::new(),
            difficulties: Vec::new(),
            ttl_s: 900,
            heartbeat_s: 60,
            create_deadline_s: 900.0,
            deadline_s: 90.0,
            verifier_deadline_s: 60.0,
            verifier_attempts: 4,
            partial_reward: false,
            instances: 16,
            system:
                "You are an agent that completes tasks with the tools of an application. Make one tool call at a time; \
                     when the task is done, reply with the final answer."
                    .into(),
            tasks: 100_000,
            held_out: 64,
            seed: 1,
        }
    }
}

impl FleetSpec {
    fn wrong(&self, what: impl Into<String>) -> RegistryError {
        RegistryError::Options { name: self.name.clone(), what: what.into() }
    }

    fn check(&self) -> Result<(), RegistryError> {
        if self.task_file.as_os_str().is_empty() {
            return Err(self.wrong("`task_file` is missing; give the JSON of the tasks"));
        }
        if !(1..=4096).contains(&self.instances) {
            return Err(self.wrong(format!(
                "instances must be between 1 and 4096, found {}; set how many may run at once",
                self.instances
            )));
        }
        if !(30..=3600).contains(&self.heartbeat_s) || self.heartbeat_s >= self.ttl_s {
            return Err(self.wrong(format!(
                "heartbeat_s must be between 30 and 3600 and under ttl_s, found {} and {}; leave both out for the defaults",
                self.heartbeat_s, self.ttl_s
            )));
        }
        let limits = [
            ("create_deadline_s", self.create_deadline_s),
            ("deadline_s", self.deadline_s),
            ("verifier_deadline_s", self.verifier_deadline_s),
        ];
        match limits.into_iter().find(|(_, value)| !(*value > 0.0 && *value <= 86_400.0)) {
            Some((name, value)) => Err(self.wrong(format!(
                "{name} must be over 0 and at most 86400 seconds, found {value}; set it to seconds, such as 60"
            ))),
            None => Ok(()),
        }
    }
}

impl EnvOptions for FleetSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn rubric(&self) -> RubricSpec {
        RubricSpec::single("env_reward", Map::new())
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        self.check()?;
        let credentials = Credentials { bearer_env: Some(&self.key_env), headers: None };
        let http = Http::new(&self.url, &credentials).map_err(|what| self.wrong(what))?;
        let mut tasks = task::read(&self.task_file).map_err(|what| self.wrong(what))?;
        tasks.retain(|task| {
            (self.envs.is_empty() || self.envs.contains(&task.env_id))
                && (self.difficulties.is_empty()
                    || task.difficulty.is_some_and(|level| self.difficulties.contains(&level)))
        });
        if tasks.len() <= self.held_out {
            return Err(self.wrong(format!(
                "{} has {} tasks of these environments and difficulties, which leaves none to train on beside held_out = {}; add tasks, or lower env.held_out",
                self.task_file.display(),
                tasks.len(),
                self.held_out
            )));
        }
        Seed::root(self.seed).with("task file").rng().shuffle(&mut tasks);
        let mut train: Vec<_> = tasks.iter().map(|task| task.task(&self.name)).collect();
        let held_out = train.split_off(train.len() - self.held_out);
        train.truncate(self.tasks);
        let version = format!("seed{}", self.seed);
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(FleetArena::new(self.clone(), http)),
            splits: [set(&self.name, TRAIN, &version, train)?, set(&self.name, HELD_OUT, &version, held_out)?].into(),
            rubric: self.rubric().build()?,
            baselines: Vec::new(),
        })
    }
}
