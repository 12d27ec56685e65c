//! What broke in a step: counted by who broke it, recorded, and waited out for a while.

use std::collections::BTreeMap;

use hone_trace::{Group, Outcome};
use serde_json::{Value, json};

use crate::update::Learned;

/// What one step's episodes say about their surroundings.
#[derive(Debug, Default)]
pub struct Faults {
    episodes: usize,
    faulted: usize,
    scored: usize,
    /// By boundary: how many, and the first one's words.
    by: BTreeMap<String, (usize, String)>,
    /// By component: how many went unscored, and the first one's reason.
    unscored: BTreeMap<String, (usize, String)>,
}

impl Faults {
    pub fn of(groups: &[Group]) -> Self {
        let mut faults = Self::default();
        let everyone = groups
            .iter()
            .flat_map(|group| group.traces().iter().chain(group.excluded().iter().map(|(trace, _)| trace)));
        for trace in everyone {
            faults.episodes += 1;
            if let Outcome::Fault { fault } = &trace.outcome {
                faults.faulted += 1;
                let (count, _) = faults.by.entry(fault.boundary.to_string()).or_insert_with(|| (0, fault.what.clone()));
                *count += 1;
                continue;
            }
            let total = trace.reward(hone_arena::rewards::TOTAL);
            faults.scored += usize::from(total.is_some());
            for reward in trace.rewards.iter().filter(|reward| reward.value().is_none()) {
                let first = || (0, reward.why().to_owned());
                let (count, _) = faults.unscored.entry(reward.component.clone()).or_insert_with(first);
                *count += 1;
            }
        }
        faults
    }

    /// The event of the step, where something broke.
    pub fn event(&self, step: u64, learned: &Learned) -> Option<Value> {
        let counted = |of: &BTreeMap<String, (usize, String)>| {
            let entry = |(name, (count, first)): (&String, &(usize, String))| {
                (name.clone(), json!({"episodes": count, "first": first}))
            };
            Value::Object(of.iter().map(entry).collect())
        };
        if self.by.is_empty() && self.unscored.is_empty() && learned.skipped.is_empty() {
            return None;
        }
        Some(json!({
            "event": "faults",
            "step": step,
            "episodes": self.episodes,
            "faults": counted(&self.by),
            "unscored": counted(&self.unscored),
            "skipped_optimizer_steps": learned.skipped,
        }))
    }

    /// Why nothing could be learned from the step, where that is not the policy's doing.
    pub fn nothing_learned(&self, learned: &Learned) -> Option<String> {
        if self.episodes > 0 && self.faulted == self.episodes {
            let (who, (_, what)) = self.by.iter().max_by_key(|(_, (count, _))| *count)?;
            return Some(format!("every episode broke. {who}: {what}"));
        }
        if self.episodes > 0 && self.scored == 0 {
            let first = self.unscored.iter().map(|(name, (_, why))| format!("{name}: {why}")).next();
            return Some(format!("no episode was scored. {}", first.unwrap_or_default()));
        }
        let all_skipped = learned.optimizer_steps > 0 && learned.skipped.len() == learned.optimizer_steps as usize;
        all_skipped.then(|| {
            let first = learned.skipped.first().cloned().unwrap_or_default();
            format!("every optimizer step was skipped: {first}. Lower train.learning_rate, or look at the rewards")
        })
    }
}
