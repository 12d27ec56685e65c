//! The curriculum: tasks the policy sometimes solves teach most.

use hone_trace::{Task, documented};
use serde::{Deserialize, Serialize};

documented! {
    /// `[plan.curriculum]`: prefers tasks whose success rate is inside the band. Tasks not measured yet are preferred
    /// too.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Curriculum {
        /// Range of measured success rates that teach.
        pub band: [f64; 2] where real(0.0, 1.0),
        /// Unit over which success is measured: a task, a difficulty of an environment, or an environment.
        pub by: By,
        /// Probability of sampling a task outside the band. Over 0, so that a task that was once too hard is tried
        /// again.
        pub outside: f64 where over(0.0, 1.0),
    }
}

impl Default for Curriculum {
    fn default() -> Self {
        Self { band: [0.1, 0.9], by: By::default(), outside: 0.1 }
    }
}

/// Unit over which success is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    #[default]
    Task,
    /// Tasks of one environment and difficulty together.
    Difficulty,
    /// An environment's tasks together; moves its share of the groups.
    Env,
}

/// Episodes after which a rate is trusted.
const ENOUGH: f64 = 4.0;

impl Curriculum {
    pub(super) fn check(&self) -> Result<(), String> {
        let [low, high] = self.band;
        if !(0.0 <= low && low <= high && high <= 1.0) {
            return Err(format!("plan.curriculum.band is [{low}, {high}]; it must satisfy 0 <= low <= high <= 1"));
        }
        if !(self.outside > 0.0 && self.outside <= 1.0) {
            let outside = self.outside;
            return Err(format!(
                "plan.curriculum.outside is {outside}; over 0 and at most 1, or what was too hard once is never tried again"
            ));
        }
        Ok(())
    }

    /// True when something is known to be too easy or too hard.
    pub(crate) fn is_outside(&self, measured: Option<&Measured>) -> bool {
        let rate = measured.filter(|measured| measured.episodes >= ENOUGH).map(Measured::rate);
        rate.is_some_and(|rate| rate < self.band[0] || rate > self.band[1])
    }
}

impl By {
    pub(super) fn bucket(self, task: &Task) -> String {
        match (self, task.difficulty) {
            (Self::Task, _) => format!("{}/{}", task.env, task.key),
            (Self::Difficulty, Some(difficulty)) => format!("{}/{difficulty}", task.env),
            (Self::Difficulty, None) => format!("{}/-", task.env),
            (Self::Env, _) => task.env.clone(),
        }
    }

    /// Memory: the weight of the past when a group is added. A task is seen rarely, an environment all the time.
    fn memory(self) -> f64 {
        match self {
            Self::Task => 0.5,
            Self::Difficulty | Self::Env => 0.95,
        }
    }
}

/// Successes and episodes, the recent ones counting more.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    pub successes: f64,
    pub episodes: f64,
}

impl Measured {
    pub fn rate(&self) -> f64 {
        self.successes / self.episodes
    }

    pub(super) fn add(&mut self, successes: usize, episodes: usize, by: By) {
        self.successes = by.memory() * self.successes + successes as f64;
        self.episodes = by.memory() * self.episodes + episodes as f64;
    }
}
