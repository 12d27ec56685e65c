//! The sampling plan: drawn and skipped tasks, both unchanged by a resume.

use std::collections::BTreeMap;

use hone_arena::rewards::{Case, Measure};
use hone_trace::{Advantage, Group, NoSignal, Reward, Task, Verdict};
use hone_train::plan::{Draw, Plan, PlanRecipe, PlanState};
use hone_train::run::train;

use crate::common::{Turn, trace};
use crate::tiny::{Even, Silent, paid_for, recipe, timeless, traces};

fn tasks(envs: &[(&str, usize)]) -> Vec<Task> {
    let of = |(env, count): &(&'static str, usize)| {
        let env = *env;
        (0..*count).map(move |number| Task { difficulty: Some(1), ..Task::new(format!("{env}-{number}"), env, "") })
    };
    let envs: Vec<(&'static str, usize)> =
        envs.iter().map(|(env, count)| (&*Box::leak((*env).to_owned().into_boxed_str()), *count)).collect();
    envs.iter().flat_map(of).collect()
}

fn plan_recipe(text: &str) -> PlanRecipe {
    toml::from_str(text).unwrap()
}

fn count<'a>(plan: &Plan<'a>, draws: &[Draw]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for draw in draws {
        *counts.entry(plan.task(*draw).env.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn a_pass_plays_every_task_once_and_the_next_in_another_order() {
    let (recipe, tasks) = (PlanRecipe::default(), tasks(&[("a", 7)]));
    let mut plan = Plan::new(&recipe, 3, &tasks, PlanState::default());
    let passes: Vec<Vec<usize>> = (0..2).map(|_| plan.draw(7).iter().map(|draw| draw.task).collect()).collect();
    for pass in &passes {
        let mut sorted = pass.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..7).collect::<Vec<_>>());
    }
    assert_ne!(passes[0], passes[1]);
    let seeds: std::collections::HashSet<u64> = (0..2)
        .flat_map(|number| (0..7).map(move |task| (number, task)))
        .map(|(number, task)| plan.seed(Draw { number, task }).value())
        .collect();
    assert_eq!(seeds.len(), 14, "a task that comes again is not played with the same seed");
}

#[test]
fn shares_are_kept_over_the_steps() {
    let recipe = plan_recipe("[share.small]\nmin = 0.4\n[share.large]\nmax = 0.5\n");
    let tasks = tasks(&[("large", 90), ("small", 5), ("other", 5)]);
    let mut plan = Plan::new(&recipe, 0, &tasks, PlanState::default());
    let steps: Vec<_> = (0..50).map(|_| plan.draw(8)).collect();
    let counts = count(&plan, &steps.concat());
    assert_eq!(counts["small"] + counts["large"] + counts["other"], 400);
    assert!((150..=175).contains(&counts["small"]), "{counts:?}");
    assert!((185..=205).contains(&counts["large"]), "{counts:?}");
    let wrong = plan_recipe("[share.nobody]\nmin = 0.4\n");
    let refused = wrong.check_tasks(&tasks).unwrap_err().to_string();
    assert_eq!(refused, "plan.share.nobody: no task is of that environment; the tasks are of large, other, small");
    assert!(recipe.check_tasks(&tasks).is_ok());
}

/// A group of four episodes with this many successes.
fn group(successes: usize) -> Group {
    let turn = || Turn { sampled: vec![1], answer: vec![] };
    let value = |index: usize| f64::from(u8::from(index < successes));
    Group::new((0..4).map(|i| trace(&[7], &[turn()], vec![Reward::scored("ok", value(i), "")])).collect())
}

#[test]
fn a_curriculum_prefers_what_is_sometimes_solved() {
    let recipe = plan_recipe("[curriculum]\nband = [0.1, 0.9]\noutside = 0.05\n");
    let tasks = tasks(&[("a", 30)]);
    let mut plan = Plan::new(&recipe, 1, &tasks, PlanState::default());
    // The first ten are always solved, the next ten never, the last ten half the time.
    let solved = |task: usize| [4, 0, 2][task / 10];
    let mut late = BTreeMap::new();
    for step in 0..60 {
        for draw in plan.draw(5) {
            plan.observe(draw, &group(solved(draw.task)), "ok");
            if step >= 20 {
                *late.entry(draw.task / 10).or_insert(0) += 1;
            }
        }
    }
    assert!(late[&2] > 150, "of 200 draws: {late:?}");
    assert!(plan.state.passed_over > 0);
    assert!(late.get(&1).is_some_and(|tries| *tries > 0), "what was too hard is tried again: {late:?}");
    assert!(plan_recipe("[curriculum]\noutside = 0.0\n").check().is_err());
    assert!(plan_recipe("[curriculum]\nband = [0.9, 0.1]\n").check().is_err());
}

#[test]
fn a_curriculum_by_environment_moves_its_share() {
    let recipe = plan_recipe("[curriculum]\nby = \"env\"\noutside = 0.1\n[share.easy]\nmin = 0.2\n");
    let tasks = tasks(&[("easy", 50), ("right", 50)]);
    let mut plan = Plan::new(&recipe, 1, &tasks, PlanState::default());
    let mut last = Vec::new();
    for _ in 0..40 {
        last = plan.draw(10);
        for draw in last.clone() {
            let solved = if plan.task(draw).env == "easy" { 4 } else { 2 };
            plan.observe(draw, &group(solved), "ok");
        }
    }
    let counts = count(&plan, &last);
    assert!(counts["right"] >= 8 && counts["easy"] >= 2, "its minimum stays: {counts:?}");
}

#[test]
fn a_plan_goes_on_from_its_state() {
    let recipe = plan_recipe("[curriculum]\nby = \"difficulty\"\n[share.b]\nmin = 0.5\n");
    let tasks = tasks(&[("a", 9), ("b", 4)]);
    let mut plan = Plan::new(&recipe, 5, &tasks, PlanState::default());
    let step = |plan: &mut Plan<'_>, number: usize| {
        let draws = plan.draw(6);
        for draw in &draws {
            plan.observe(*draw, &group((draw.task + number) % 5), "ok");
        }
        draws
    };
    for number in 0..4 {
        step(&mut plan, number);
    }
    let text = serde_json::to_string(&plan.state).unwrap();
    let mut resumed = Plan::new(&recipe, 5, &tasks, serde_json::from_str(&text).unwrap());
    for number in 4..12 {
        assert_eq!(step(&mut resumed, number), step(&mut plan, number));
    }
    assert_eq!(resumed.state, plan.state);
}

/// Pays every episode the same.
struct Same;

impl Measure for Same {
    fn measure(&self, _case: &Case) -> Verdict {
        Verdict::scored(0.5, "")
    }
}

/// Scores nothing.
struct Down;

impl Measure for Down {
    fn measure(&self, _case: &Case) -> Verdict {
        Verdict::unscored("connection refused")
    }
}

/// A group left out because nothing in it was scored is not one whose episodes all earned the same.
#[tokio::test(flavor = "multi_thread")]
async fn groups_that_were_left_out_keep_their_reason() {
    for treatment in ["filter", "replace"] {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run");
        let treatment = format!("plan.zero_variance={treatment}");
        let recipe = recipe(&[&treatment, "plan.rounds=1", "train.steps=1", "eval.every=0"]);
        train(&paid_for(&recipe, Down), &recipe, &run, &mut Silent).await.unwrap();
        let metrics = &timeless(&run)[0];
        let at = |name: &str| metrics[name].as_f64().unwrap();
        assert!(at("plan/left_out_groups") > 0.0);
        assert_eq!((at("tokens/unscored"), at("tokens/zero_advantage")), (at("tokens/sampled"), 0.0));
        let lessons: Vec<_> = traces(&run).into_iter().filter_map(|trace| trace.lesson).collect();
        let unscored = Advantage::None { why: NoSignal::Unscored };
        assert!(!lessons.is_empty() && lessons.iter().all(|lesson| lesson.advantage == unscored));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_without_signal_are_replaced_up_to_the_limit_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let settings = ["plan.zero_variance=replace", "plan.rounds=2", "train.steps=1", "eval.every=0"];
    let recipe = recipe(&settings);
    train(&paid_for(&recipe, Same), &recipe, &run, &mut Silent).await.unwrap();
    let metrics = &timeless(&run)[0];
    let at = |name: &str| metrics[name].as_f64().unwrap();
    // Three rounds of three groups of three: nothing to learn from, and nothing dropped silently.
    assert_eq!((at("plan/rounds"), at("plan/left_out_groups"), at("plan/unfilled_groups")), (3.0, 9.0, 3.0));
    assert_eq!((at("rollouts/total"), at("tokens/trained")), (27.0, 0.0));
    assert_eq!(
        traces(&run).len(),
        4 + 27 + 4 + 2 + 4,
        "two evaluations of two both ways, every episode, the start again, two probes"
    );

    let filtered = directory.path().join("filtered");
    let recipe = crate::tiny::recipe(&["plan.zero_variance=filter", "train.steps=1", "eval.every=0"]);
    train(&paid_for(&recipe, Same), &recipe, &filtered, &mut Silent).await.unwrap();
    let metrics = &timeless(&filtered)[0];
    assert_eq!((metrics["plan/rounds"].as_f64(), metrics["plan/left_out_groups"].as_f64()), (Some(1.0), Some(3.0)));

    let paid = directory.path().join("paid");
    train(&paid_for(&recipe, Even), &recipe, &paid, &mut Silent).await.unwrap();
    let metrics = &timeless(&paid)[0];
    assert!(metrics["tokens/trained"].as_f64().unwrap() > 0.0, "those with signal stay");
}
