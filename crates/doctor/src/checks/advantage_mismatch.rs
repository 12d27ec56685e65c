use hone_trace::rundir::RunDirError;
use hone_trace::{Advantage, Group, Trace};
use hone_train::credit::Schedule;
use hone_train::events::Event;
use hone_train::ledger::names::PLAN_LEFT_OUT_GROUPS;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::{Episodes, Run};

pub(super) const CHECK: Check = Check {
    name: "advantage_mismatch",
    what: "Advantages are not what the recipe's estimator makes of the rewards: scaled, clipped, or another estimator's.",
    measure: "Advantages of probed steps, computed again from the recorded rewards by the recipe's estimator (placebo and \
              overlong filter included), against the recorded ones, to 1 part in 100,000. Error from 1 % of the episodes.",
    fix: "Look for what changes advantages between the estimator and the loss (a factor, a clip, a second normalisation), \
          or for a recipe or records that were edited after the run.",
    explains: &["gradients", "kl_runaway", "success_cliff", "reward_without_success"],
    look,
};

/// Largest difference, relative to the larger of the two or to 1e-4.
const TOLERANCE: f64 = 1e-5;

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let recipe = &run.recipe;
    let Ok(rubric) = recipe.rubric.build() else { return Looked::skipped("a rubric that can be built") };
    let Ok(schedule) = Schedule::of_recipe(recipe, &rubric) else {
        return Looked::skipped("an estimator that this version knows");
    };
    // The share of the steps after which arguments are paid was another one before.
    if recipe.credit.arguments_from.is_some() && run.events.iter().any(|event| matches!(event, Event::Extended { .. }))
    {
        return Looked::skipped("a run that was not extended, as credit.arguments_from goes by its length");
    }
    let (mut all, mut wrong) = (0, Vec::new());
    for (step, range) in run.probed_steps() {
        let episodes = run.step_episodes(&range)?;
        let Some(groups) = groups(&episodes, recipe.train.group_size as usize) else { continue };
        let ledger = run.steps.iter().find(|ledger| ledger.step == step);
        let left_out = ledger.and_then(|ledger| ledger.get(PLAN_LEFT_OUT_GROUPS)).unwrap_or(0.0) as usize;
        let kept = groups.len().saturating_sub(left_out);
        let made = schedule.advantages(recipe, &groups[..kept], step);
        for (group, advantages) in groups.iter().zip(&made) {
            for (trace, made) in group.traces().iter().zip(advantages) {
                let Some(lesson) = &trace.lesson else { continue };
                all += 1;
                let said = &lesson.advantage;
                if !same(said, made) {
                    wrong.push((number(&episodes, trace), said.clone(), made.clone()));
                }
            }
        }
    }
    if all == 0 {
        return Looked::skipped("whole groups of episodes with their advantages");
    }
    if (wrong.len() as f64) < 0.01 * all as f64 {
        return Ok(Looked::Healthy);
    }
    let name = &recipe.credit.name;
    let says = match factor(&wrong) {
        Some(factor) => {
            format!("the advantages of {} episodes are {factor:.4} times what {name} makes", share(wrong.len(), all))
        }
        None => format!("the advantages of {} episodes are not those of {name}", share(wrong.len(), all)),
    };
    let lines = wrong.iter().take(3).map(|(number, said, made)| {
        let number = number.map_or_else(String::new, |number| format!("episode {number}: "));
        format!("{number}{} is recorded, and {name} makes {}", shown(said), shown(made))
    });
    Finding::new(Severity::Error, says).lines(lines).traces(wrong.iter().filter_map(|(number, ..)| *number)).into()
}

/// Groups as they were sampled. `None` where the episodes are not whole groups of one task each.
fn groups(episodes: &Episodes, size: usize) -> Option<Vec<Group>> {
    if size == 0 || episodes.is_empty() || !episodes.len().is_multiple_of(size) {
        return None;
    }
    let chunks = || episodes.chunks(size);
    let whole = chunks().all(|group| group.iter().all(|(_, trace)| trace.task == group[0].1.task));
    whole.then(|| chunks().map(|group| Group::new(group.iter().map(|(_, trace)| trace.clone()).collect())).collect())
}

/// Number of a trace among a step's episodes: of a task and a seed there is one.
fn number(episodes: &Episodes, trace: &Trace) -> Option<u64> {
    let same = |other: &Trace| other.task == trace.task && other.seed == trace.seed && other.replica == trace.replica;
    episodes.iter().find(|(_, other)| same(other)).map(|(number, _)| *number)
}

fn same(said: &Advantage, made: &Advantage) -> bool {
    let (said_values, made_values) = (said.values(), made.values());
    let near = |(said, made): (&f64, &f64)| (said - made).abs() <= TOLERANCE * said.abs().max(made.abs()).max(1e-4);
    said_values.len() == made_values.len() && said_values.iter().zip(&made_values).all(near)
}

/// The factor between what is recorded and what is made, where it is one and the same.
fn factor(wrong: &[(Option<u64>, Advantage, Advantage)]) -> Option<f64> {
    let mut factors = Vec::new();
    for (_, said, made) in wrong {
        let (said, made) = (said.values(), made.values());
        if said.len() != made.len() {
            return None;
        }
        factors.extend(said.iter().zip(&made).filter(|(_, made)| made.abs() > 1e-9).map(|(said, made)| said / made));
    }
    let first = *factors.first()?;
    factors.iter().all(|factor| (factor - first).abs() <= 1e-3 * first.abs()).then_some(first)
}

fn shown(advantage: &Advantage) -> String {
    let values: Vec<String> = advantage.values().iter().take(4).map(|value| format!("{value:.4}")).collect();
    if values.is_empty() { "none".into() } else { values.join(", ") }
}
