use hone_arena::rewards::TOTAL;
use hone_trace::Trace;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "advantage_sign",
    what: "Advantages run against the rewards: the better episode of a group is made less likely.",
    measure: "Pairs of one task's episodes in a probed step whose totals differ, at least 20: the better one has the lower \
              advantage. Error from 80 % of them; not looked at under `placebo`, which permutes rewards on purpose.",
    fix: "Look for a sign that was turned over between the reward and the loss: a cost paid as a reward, a baseline \
          subtracted the wrong way.",
    explains: &["reward_without_success", "success_cliff", "kl_runaway"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    if run.recipe.placebo.is_some() {
        return Looked::skipped("a run that is no placebo");
    }
    let (mut pairs, mut turned) = (0, Vec::new());
    for (_, range) in run.probed_steps() {
        let episodes = run.step_episodes(&range)?;
        let learned: Vec<(u64, &str, f64, f64)> = episodes
            .iter()
            .filter_map(|(number, trace)| Some((*number, trace.task.as_str(), trace.reward(TOTAL)?, advantage(trace)?)))
            .collect();
        for (at, (number, task, reward, advantage)) in learned.iter().enumerate() {
            let siblings = learned[at + 1..].iter().filter(|(_, other, worth, _)| other == task && worth != reward);
            for (_, _, other_reward, other_advantage) in siblings {
                pairs += 1;
                if (reward - other_reward) * (advantage - other_advantage) < 0.0 {
                    turned.push(*number);
                }
            }
        }
    }
    if pairs < 20 {
        return Looked::skipped("20 pairs of one task's episodes with different rewards and an advantage");
    }
    if (turned.len() as f64) < 0.8 * f64::from(pairs) {
        return Ok(Looked::Healthy);
    }
    let says = format!("in {} pairs the better episode has the lower advantage", share(turned.len(), pairs as usize));
    turned.dedup();
    Finding::new(Severity::Error, says).traces(turned).into()
}

/// The mean of the advantages of an episode's parts.
fn advantage(trace: &Trace) -> Option<f64> {
    let values = trace.lesson.as_ref()?.advantage.values();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
