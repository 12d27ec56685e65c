//! Trace summary: a row in a table of rollouts, read without building its tokens.

use std::fmt;

use hone_arena::rewards::TOTAL;
use hone_trace::{Advantage, NoSignal};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lines::parse;
use super::words::{Ending, Lenient, Origin};

/// One rollout in a table.
#[derive(Debug, Clone, Serialize)]
pub struct Brief {
    /// Its number in the run.
    pub trace: u64,
    pub task: String,
    pub env: String,
    pub replica: u64,
    pub outcome: Lenient<Ending>,
    /// The limit, failure or fault, in words.
    pub why: String,
    pub rewards: Vec<Scored>,
    pub advantage: Worth,
    pub turns: usize,
    /// Names of the calls, in order.
    pub calls: Vec<String>,
    pub failed_calls: u64,
    pub parse_failures: Vec<String>,
    pub tokens: usize,
    pub sampled: usize,
    /// Number of sampled tokens by training outcome; `None` if it is not recorded.
    pub trained: Option<usize>,
    pub clipped: Option<usize>,
    /// Seconds its turns waited for sampler, environment, user and verifier.
    pub seconds: f64,
}

/// Verdict of a component on a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub component: String,
    /// `None`: unscored, and `why` gives the reason.
    #[serde(default)]
    pub value: Option<f64>,
    #[serde(default)]
    pub why: String,
}

/// Credit of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Worth {
    /// One value for every token.
    Whole(f64),
    /// Several values: minimum and maximum.
    Varies(f64, f64),
    /// No signal, and why.
    Nothing(String),
    NotRecorded,
}

impl Worth {
    /// One number for a plot: of several, the one farthest from 0.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value),
            Self::Varies(low, high) => Some(if low.abs() > high.abs() { *low } else { *high }),
            Self::Nothing(_) | Self::NotRecorded => None,
        }
    }

    pub fn words(&self) -> String {
        match self {
            Self::Whole(value) => crate::number::signed(*value),
            Self::Varies(low, high) => format!("{}…{}", crate::number::signed(*low), crate::number::signed(*high)),
            Self::Nothing(why) => why.clone(),
            Self::NotRecorded => "–".to_owned(),
        }
    }

    fn of(lesson: Option<&LessonForm>) -> Self {
        let Some(lesson) = lesson else { return Self::NotRecorded };
        if let Advantage::None { why } = &lesson.advantage {
            return Self::Nothing(no_signal(*why).to_owned());
        }
        let values = lesson.advantage.values();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match () {
            () if values.is_empty() => Self::Nothing("no turns".to_owned()),
            () if low == high => Self::Whole(low),
            () => Self::Varies(low, high),
        }
    }
}

/// Reason why a trace carries no signal, in words.
pub(super) fn no_signal(why: NoSignal) -> &'static str {
    match why {
        NoSignal::Singleton => "alone in its group: nothing to compare with",
        NoSignal::ZeroVariance => "every rollout of the group earned the same, or the group was left out",
        NoSignal::Unscored => "it has no reward",
        NoSignal::NoSuccess => "the group's mean reward is not above zero",
        NoSignal::Overlong => "a length limit cut it short, and the recipe does not train on such episodes",
    }
}

impl Brief {
    /// True if something outside the policy broke it.
    pub fn is_broken(&self) -> bool {
        self.outcome.is(Ending::Fault)
    }

    /// Its number in the group, from 1, as `hone show` takes it.
    pub fn rollout(&self) -> u64 {
        self.replica + 1
    }

    pub(super) fn read(trace: u64, line: &[u8]) -> Result<Self, String> {
        let form: Form = parse(line)?;
        let calls = form.turns.iter().flat_map(|turn| &turn.calls).map(|call| call.name.clone());
        let failures = form.turns.iter().filter_map(|turn| Some(turn.failure.get("kind")?.as_str()?.to_owned()));
        let fate = |letter: char| form.lesson.as_ref().map(|lesson| lesson.fates.matches(letter).count());
        let (outcome, why) = ended(&form.outcome);
        Ok(Self {
            trace,
            outcome,
            why,
            advantage: Worth::of(form.lesson.as_ref()),
            calls: calls.collect(),
            turns: form.turns.len(),
            failed_calls: form.turns.iter().map(|turn| turn.failed).sum(),
            parse_failures: failures.collect(),
            tokens: form.nodes.iter().map(|node| node.tokens.0).sum(),
            sampled: form.nodes.iter().filter(|node| node.origin.is(Origin::Sampled)).map(|node| node.tokens.0).sum(),
            trained: fate('t'),
            clipped: fate('c'),
            seconds: form
                .turns
                .iter()
                .filter_map(|turn| turn.timings.as_object())
                .flat_map(|parts| parts.values())
                .filter_map(Value::as_f64)
                .sum(),
            task: form.task,
            env: form.env,
            replica: form.replica,
            rewards: form.rewards.into_iter().map(RewardForm::scored).collect(),
        })
    }

    pub fn reward(&self, component: &str) -> Option<f64> {
        self.rewards.iter().find(|reward| reward.component == component)?.value
    }

    /// The reward paid: the total, or the only component.
    pub fn total(&self) -> Option<f64> {
        self.reward(TOTAL).or_else(|| match &self.rewards[..] {
            [only] => only.value,
            _ => None,
        })
    }
}

/// Kind and words of an outcome.
fn ended(outcome: &Value) -> (Lenient<Ending>, String) {
    let kind = Lenient::read(outcome.get("kind")).unwrap_or_else(Lenient::missing);
    let text = |part: &str, key: &str| outcome.get(part)?.get(key)?.as_str().map(str::to_owned);
    let why = kind.known().and_then(|kind| match kind {
        Ending::Finished => None,
        Ending::Truncated => {
            outcome.get("limit").and_then(Value::as_str).map(|limit| format!("limit of {}", limit.replace('_', " ")))
        }
        Ending::Malformed => text("failure", "kind")
            .map(|failure| format!("{failure}: {}", text("failure", "message").unwrap_or_default())),
        Ending::Fault => {
            text("fault", "boundary").map(|who| format!("{who}: {}", text("fault", "what").unwrap_or_default()))
        }
    });
    (kind, why.unwrap_or_default())
}

/// A trace as far as a table needs it. Fields that a newer version writes differently count as absent.
#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    task: String,
    #[serde(default)]
    env: String,
    #[serde(default)]
    replica: u64,
    #[serde(default)]
    nodes: Vec<NodeForm>,
    #[serde(default)]
    turns: Vec<TurnForm>,
    #[serde(default)]
    outcome: Value,
    #[serde(default, deserialize_with = "if_readable")]
    rewards: Vec<RewardForm>,
    #[serde(default, deserialize_with = "if_readable")]
    lesson: Option<LessonForm>,
}

#[derive(Deserialize)]
struct NodeForm {
    #[serde(default = "Lenient::missing")]
    origin: Lenient<Origin>,
    #[serde(default)]
    tokens: Count,
}

#[derive(Deserialize)]
struct TurnForm {
    #[serde(default, deserialize_with = "if_readable")]
    calls: Vec<CallForm>,
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    failure: Value,
    #[serde(default)]
    timings: Value,
}

#[derive(Deserialize)]
struct CallForm {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
pub(super) struct RewardForm {
    #[serde(default)]
    component: String,
    #[serde(default)]
    value: Option<f64>,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    unscored: Option<String>,
}

impl RewardForm {
    pub(super) fn scored(self) -> Scored {
        Scored { component: self.component, value: self.value, why: self.why.or(self.unscored).unwrap_or_default() }
    }
}

#[derive(Deserialize)]
struct LessonForm {
    advantage: Advantage,
    #[serde(default)]
    fates: String,
}

fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Number of items of an array.
#[derive(Debug, Clone, Copy, Default)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        deserializer.deserialize_seq(Counting)
    }
}
