//! The environment by itself: its tasks, and what it does with scripts.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hone_arena::baseline::{Baseline, DoNothing, RandomCaller};
use hone_arena::rewards::Rubric;
use hone_arena::solution::{SAYS, solution};
use hone_trace::{Action, Arena, Seed, Task};
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;
use serde_json::Value;

use super::script::{Limits, Reference, Session, play};
use super::{AfterDone, Scripts, Transcript, World};

/// The tasks, by content.
pub(super) fn of(tasks: &[Task], held_out: &[Task]) -> World {
    let mut known: HashSet<String> = HashSet::new();
    let mut repeated = Vec::new();
    for task in tasks {
        if !known.insert(content(task)) {
            repeated.push(task.key.clone());
        }
    }
    // Numbered tasks have no content: a program derives its state from their key.
    let numbered = known.len() == 1 && tasks.len() > 1;
    let shared = held_out.iter().filter(|task| known.contains(&content(task))).count();
    let referenced: Vec<&Task> = tasks.iter().filter(|task| task.reference.is_some()).collect();
    // Speaking counts as acting too: a user who has tools is guided by words.
    let silent = |task: &Task| task.extra.get(SAYS).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let no_op = |task: &&&Task| task.reference.as_ref().is_some_and(Vec::is_empty) && silent(task);
    World {
        tasks: tasks.len(),
        held_out: held_out.len(),
        shared_content: (!numbered && !held_out.is_empty()).then(|| shared as f64 / held_out.len() as f64),
        repeated: if numbered { Vec::new() } else { repeated },
        references: referenced.len(),
        no_op: referenced.iter().filter(no_op).map(|task| task.key.clone()).collect(),
        ..World::default()
    }
}

/// A task without its name and its origin.
fn content(task: &Task) -> String {
    let bare = Task { key: String::new(), provenance: None, ..task.clone() };
    serde_json::to_string(&bare).unwrap_or_default()
}

/// Tasks that are played by scripts, and the most that are opened at once.
const TASKS: usize = 12;
const TOGETHER: usize = 4;

pub(super) async fn scripts(setup: &Setup, recipe: &Recipe, limit: Duration) -> Scripts {
    let clock = Instant::now();
    let (arena, rubric) = (&*setup.arena, &*setup.rubric);
    let tasks: Vec<&Task> = setup.tasks.iter().step_by(setup.tasks.len().div_ceil(TASKS).max(1)).take(TASKS).collect();
    let deadline = deadline(recipe).min(limit);
    let limits = |task: &Task| Limits {
        turns: recipe.rollout.max_turns,
        seed: Seed::root(recipe.seed).with("check").with(&task.key).value(),
        deadline,
    };
    let mut scripts = Scripts { success: recipe.eval.success.clone(), ..Scripts::default() };
    let (mut alone, mut episodes) = (Vec::new(), 0);
    for task in tasks {
        // At least one of everything, whatever it takes.
        if clock.elapsed() > limit && !alone.is_empty() {
            break;
        }
        let (first, played) = scripts.play(arena, rubric, task, limits(task)).await;
        episodes += played;
        let Some(first) = first else { break };
        alone.push((task, first));
        scripts.closed.count(arena, episodes).await;
        if scripts.gone.is_some() {
            break;
        }
    }
    scripts.closed.settle(arena, episodes).await;
    if scripts.gone.is_some() {
        return scripts;
    }
    scripts.beside = beside(setup, &alone, &limits).await;
    if let Some((task, first)) = alone.iter().find(|(_, first)| first.done) {
        scripts.after_done = after_done(setup, task, &*script(task), first.turns.len(), limits(task)).await;
    }
    if let Some((task, _)) = alone.iter().find(|(_, first)| first.fault.is_none()) {
        scripts.closed.ask(arena, task, &*script(task), limits(task)).await;
    }
    scripts
}

impl Scripts {
    /// Plays one task: twice without a deed, twice by its script, and idly once more where the script succeeded. Returns the
    /// script's first episode, `None` where the task did not open, and the number of episodes that count.
    async fn play(
        &mut self,
        arena: &dyn Arena,
        rubric: &Rubric,
        task: &Task,
        limits: Limits,
    ) -> (Option<Transcript>, usize) {
        let idle = play(arena, rubric, task, &DoNothing, limits).await;
        let idle_again = play(arena, rubric, task, &DoNothing, limits).await;
        if idle.unopened() && idle_again.unopened() {
            self.gone.clone_from(&idle_again.fault);
            self.idle.push(idle);
            self.idle_again.push(idle_again);
            return (None, 0);
        }
        let acted = script(task);
        // A replay needs room for what is said between the calls.
        let roomy = Limits { turns: limits.turns.max(64), ..limits };
        let mut first = play(arena, rubric, task, &*acted, roomy).await;
        first.left = solution(task).map_or(0, |moves| moves.len().saturating_sub(first.turns.len()));
        let again = play(arena, rubric, task, &*acted, roomy).await;
        if first.unopened() && again.unopened() {
            self.gone.clone_from(&again.fault);
        }
        let mut episodes = 4;
        let succeeds = |played: &Transcript| played.reward(&self.success) == Some(1.0);
        if succeeds(&first) && !succeeds(&idle) && !succeeds(&idle_again) {
            let after = play(arena, rubric, task, &DoNothing, limits).await;
            episodes += 1;
            if succeeds(&after) {
                self.kept_state.push(task.key.clone());
            }
        }
        if task.reference.is_some() {
            self.references.push(first.clone());
        }
        self.idle.push(idle);
        self.idle_again.push(idle_again);
        self.again.push((first.clone(), again));
        (Some(first), episodes)
    }
}

/// Tasks whose reference earned success before others played, and does not any more.
pub(super) async fn spoiled(setup: &Setup, recipe: &Recipe, scripts: &Scripts) -> Vec<String> {
    let mut spoiled = Vec::new();
    let before = scripts.references.iter().filter(|script| script.reward(&scripts.success) == Some(1.0));
    for script in before.take(TOGETHER) {
        let Some(task) = setup.tasks.iter().find(|task| task.key == script.task) else { continue };
        let Some(moves) = solution(task) else { continue };
        let seed = Seed::root(recipe.seed).with("check").with(&task.key).value();
        let limits = Limits { turns: recipe.rollout.max_turns.max(64), seed, deadline: deadline(recipe) };
        let again = play(&*setup.arena, &setup.rubric, task, &Reference(moves), limits).await;
        if again.reward(&scripts.success).is_some_and(|value| value != 1.0) {
            spoiled.push(task.key.clone());
        }
    }
    spoiled
}

/// Time that an answer may take.
fn deadline(recipe: &Recipe) -> Duration {
    let deadline = Duration::try_from_secs_f64(recipe.rollout.env_deadline_s.max(recipe.rollout.user_deadline_s));
    deadline.unwrap_or(Duration::from_secs(30))
}

/// The script of a task: its solution, or random calls.
fn script(task: &Task) -> Box<dyn Baseline> {
    match solution(task) {
        Some(moves) => Box::new(Reference(moves)),
        None => Box::new(RandomCaller { calls: 6 }),
    }
}

/// Episodes that are open at once, each with the transcript of the same script played alone.
async fn beside(
    setup: &Setup,
    alone: &[(&Task, Transcript)],
    limits: &impl Fn(&Task) -> Limits,
) -> Vec<(Transcript, Transcript)> {
    let mut sessions = Vec::new();
    for (task, first) in alone.iter().cycle().take(TOGETHER.min(2 * alone.len())) {
        let Limits { seed, deadline, .. } = limits(task);
        if let Ok(session) = Session::open(&*setup.arena, task, seed, deadline).await {
            sessions.push((session, script(task), first));
        }
    }
    let mut played = Vec::new();
    for (mut session, acted, first) in sessions {
        for _ in 0..first.turns.len().max(1) {
            if !session.advance(&*acted).await {
                break;
            }
        }
        played.push((first.clone(), session.finish(&setup.rubric).await.0));
    }
    played
}

/// Tasks that are tried at the start of a run, and the time after which no further action is taken.
const TRIES: usize = 4;
const TRYING: Duration = Duration::from_secs(5);

/// Episodes at the start of a run: solutions, or valid random calls where tasks have none, each of another task, until
/// one holds. Not a reason to refuse a run: an environment that breaks occasionally.
pub(super) async fn first_episodes(setup: &Setup, recipe: &Recipe) -> Vec<Transcript> {
    let clock = Instant::now();
    let mut tries = Vec::new();
    for task in setup.tasks.iter().step_by(setup.tasks.len().div_ceil(TRIES).max(1)) {
        let tried = first_episode(setup, recipe, task, clock).await;
        let held = tried.fault.is_none();
        tries.push(tried);
        // An answer that is late costs the whole deadline.
        if held || (tries.len() > 1 && clock.elapsed() > TRYING) {
            break;
        }
    }
    tries
}

/// One episode by the task's script, scored if it ended in time.
async fn first_episode(setup: &Setup, recipe: &Recipe, task: &Task, clock: Instant) -> Transcript {
    let seed = Seed::root(recipe.seed).with("first step").with(&task.key).value();
    let script: Box<dyn Baseline> = match solution(task) {
        Some(moves) => Box::new(Reference(moves)),
        None => Box::new(RandomCaller { calls: 1 }),
    };
    let mut session = match Session::open(&*setup.arena, task, seed, deadline(recipe)).await {
        Ok(session) => session,
        Err(broken) => return Transcript::unopened_by(task, broken),
    };
    for _ in 0..recipe.rollout.max_turns.max(1) {
        if !session.advance(&*script).await || clock.elapsed() > TRYING {
            break;
        }
    }
    if session.transcript.done { session.finish(&setup.rubric).await.0 } else { session.transcript }
}

/// Steps an environment once more after it said that the episode is over, then opens another.
async fn after_done(
    setup: &Setup,
    task: &Task,
    script: &dyn Baseline,
    turns: usize,
    limits: Limits,
) -> Option<AfterDone> {
    let mut session = Session::open(&*setup.arena, task, limits.seed, limits.deadline).await.ok()?;
    for _ in 0..turns {
        if !session.advance(script).await {
            break;
        }
    }
    let patience = limits.deadline.min(Duration::from_secs(5));
    let mut env = session.finish(&setup.rubric).await.1;
    let more = tokio::time::timeout(patience, env.step(Action::Reply("Done.".into()))).await;
    let goes_on = matches!(&more, Ok(Ok(turn)) if !turn.done);
    drop(env);
    Some(match Session::open(&*setup.arena, task, limits.seed, limits.deadline).await {
        Err(broken) => AfterDone::Breaks(broken.text),
        Ok(_) if goes_on => AfterDone::GoesOn,
        Ok(_) => AfterDone::Holds,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_that_is_solved_by_words_is_not_one_without_a_deed() {
        let mut nothing = Task::new("nothing", "telecom", "");
        nothing.reference = Some(Vec::new());
        let mut guided = nothing.clone();
        guided.key = "guided".into();
        guided.extra.insert(SAYS.into(), json!([{"before": 0, "text": "Please use toggle_roaming() on your phone."}]));
        let mut alone = nothing.clone();
        alone.key = "alone".into();
        alone.extra.insert(SAYS.into(), json!([]));
        assert_eq!(of(&[nothing, guided, alone], &[]).no_op, ["nothing", "alone"]);
    }
}
