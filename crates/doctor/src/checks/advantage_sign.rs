use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;
use hone_trace::{Advantage, Trace};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "advantage_sign",
    what: "Advantages do not follow the rewards: the better episode of a group is not made more likely, or is made \
           less likely.",
    measure: "Pairs of one task's episodes in a probed step whose totals differ, at least 20: the better one has the lower \
              advantage, or the same. Error from 80 % of them, and from 20 % where the estimator gives an episode one \
              advantage that rises with its total; not looked at under `placebo`, which permutes rewards on purpose.",
    fix: "Look for a flipped sign or lost order between the reward and the loss: a cost paid as a reward, a baseline \
          subtracted the wrong way, advantages of other episodes.",
    explains: &["advantage_mismatch", "reward_without_success", "success_cliff", "kl_runaway"],
    look,
};

/// Estimators whose advantage rises with the total, within a group.
const RISING: [&str; 6] = ["grpo", "grpo_batch", "dr_grpo", "rloo", "reinforce++", "reinforce++_baseline"];

fn look(run: &Run) -> Result<Looked, RunDirError> {
    if run.recipe.placebo.is_some() {
        return Looked::skipped("a run that is no placebo");
    }
    let (mut pairs, mut turned, mut level) = (0usize, Vec::new(), Vec::new());
    let mut whole = true;
    for (_, range) in run.probed_steps() {
        let episodes = run.step_episodes(&range)?;
        let learned: Vec<(u64, &str, f64, f64)> = episodes
            .iter()
            .filter_map(|(number, trace)| Some((*number, trace.task.as_str(), trace.reward(TOTAL)?, advantage(trace)?)))
            .collect();
        whole &= episodes
            .iter()
            .filter_map(|(_, trace)| trace.lesson.as_ref())
            .all(|lesson| matches!(lesson.advantage, Advantage::Whole { .. } | Advantage::None { .. }));
        for (at, (number, task, reward, advantage)) in learned.iter().enumerate() {
            let siblings = learned[at + 1..].iter().filter(|(_, other, worth, _)| other == task && worth != reward);
            for (_, _, other_reward, other_advantage) in siblings {
                pairs += 1;
                let together = (reward - other_reward) * (advantage - other_advantage);
                if together < 0.0 {
                    turned.push(*number);
                } else if together == 0.0 {
                    level.push(*number);
                }
            }
        }
    }
    if pairs < 20 {
        return Looked::skipped("20 pairs of one task's episodes with different rewards and an advantage");
    }
    let recipe = &run.recipe;
    // With `negative = 0` all that is under the mean is level.
    let plain = recipe.kl_reward.is_none() && recipe.credit.negative != Some(0.0);
    let rising = whole && plain && RISING.contains(&recipe.credit.name.as_str());
    if !rising {
        level.clear();
    }
    let least = if rising { 0.2 } else { 0.8 };
    let wrong = turned.len() + level.len();
    if (wrong as f64) < least * pairs as f64 {
        return Ok(Looked::Healthy);
    }
    let says = match () {
        () if turned.len() as f64 >= 0.8 * pairs as f64 => {
            format!("in {} pairs the better episode has the lower advantage", share(turned.len(), pairs))
        }
        () => format!("in {} pairs the better episode does not have the higher advantage", share(wrong, pairs)),
    };
    Finding::new(Severity::Error, says)
        .line(format!("{} lower, {} the same, of {pairs} pairs of one task's episodes", turned.len(), level.len()))
        .traces(turned.into_iter().chain(level))
        .into()
}

/// The mean of the advantages of an episode's parts.
fn advantage(trace: &Trace) -> Option<f64> {
    let values = trace.lesson.as_ref()?.advantage.values();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
