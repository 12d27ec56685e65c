use std::collections::BTreeMap;

use hone_trace::rundir::RunDirError;
use hone_train::events::{Event, GuardEvent};
use hone_train::ledger::names::ASYNC_STALENESS_MEAN;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "staleness",
    what: "Tokens are trained long after the policy that sampled them, or later than the recipe allows.",
    measure: "`async/staleness_mean`: warning from 4 steps. Versions of the sampled tokens of probed steps, against the \
              optimizer steps that made them: error where tokens are older than async.staleness.",
    fix: "Lower async.staleness, or correct for it with a loss that has a `correction`; where the recipe allows none, look \
          at how weights reach the sampler.",
    explains: &["kl_runaway", "logprob_mismatch"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let mean = run.mean(ASYNC_STALENESS_MEAN);
    let allowed = run.recipe.overlap.staleness;
    let ages = ages(run)?;
    let (mut tokens, mut sum, mut old) = (0u64, 0u64, Vec::new());
    for (number, age, count) in &ages {
        tokens += count;
        sum += age * count;
        if *age > allowed {
            old.push((*number, *age));
        }
    }
    if let Some(most) = old.iter().map(|(_, age)| *age).max() {
        let says =
            format!("tokens were sampled by a policy of up to {most} steps before, and async.staleness is {allowed}");
        return Finding::new(Severity::Error, says)
            .line(format!(
                "{:.1} steps old on average, over {tokens} tokens of the probed steps",
                sum as f64 / tokens as f64
            ))
            .traces(old.into_iter().map(|(number, _)| number))
            .into();
    }
    let Some(mean) = mean else { return Looked::skipped("a recorded step") };
    if mean < 4.0 {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Warning, format!("tokens are {mean:.1} steps old on average when they are trained")).into()
}

/// Age of the sampled tokens in steps, with their episode and number. Versions that no optimizer step of this run made are
/// left out.
fn ages(run: &Run) -> Result<Vec<(u64, u64, u64)>, RunDirError> {
    // The version that each step leaves behind; a step without an update leaves the one before.
    let mut made: BTreeMap<u64, u64> = BTreeMap::new();
    let mut rollbacks = Vec::new();
    for event in &run.events {
        match event {
            Event::OptimizerStep(taken) => drop(made.insert(taken.step, taken.policy_step)),
            Event::Guard(GuardEvent { step, back_to: Some(good), .. }) => rollbacks.push((*step, *good)),
            _ => {}
        }
    }
    // After a rollback the policy is the one that the checkpoint's step left behind.
    for (step, good) in rollbacks {
        let version = made.range(..=good).next_back().map_or(0, |(_, version)| *version);
        made.insert(step, version);
    }
    let newest = |before: u64| made.range(..before).next_back().map(|(_, version)| *version);
    let mut ages = Vec::new();
    for (step, range) in run.probed_steps() {
        let Some(now) = newest(step) else { continue };
        for (number, trace) in run.step_episodes(&range)? {
            let sampled = trace.nodes().iter().filter_map(|node| node.as_sampled());
            for (version, count) in sampled.flat_map(|sampled| &sampled.versions).filter(|(v, _)| v.step < now) {
                // The last step that still left this version behind.
                let left = made.range(..step).rev().find(|(_, made)| **made == version.step).map(|(step, _)| *step);
                let until = match left {
                    Some(left) => made.range(left + 1..).next().map(|(next, _)| *next),
                    None if version.step == 0 => made.keys().next().copied(),
                    None => None,
                };
                ages.extend(until.filter(|until| *until < step).map(|until| (number, step - until, u64::from(*count))));
            }
        }
    }
    Ok(ages)
}
