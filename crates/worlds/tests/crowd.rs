//! Concurrent service episodes through the rollout driver, played by a policy that knows the solutions: every one is
//! won, timed by party, and can be rescored from its record.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use async_trait::async_trait;
use hone_arena::registry::{Environment, TRAIN};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rewards::{Case, TOTAL};
use hone_arena::rollout::{RolloutSettings, Rollouts, Slot};
use hone_arena::solution::{Move, solution};
use hone_arena::users::{GREETING, NewUser, Script, ScriptedUser, User, UserTurn};
use hone_chat::{ModelDir, RenderSettings, Renderer, call_format, train_tokenizer};
use hone_trace::scripted::ScriptedSampler;
use hone_trace::{Boundary, Digest, EndState, Fault, Outcome, PolicyVersion, SamplingParams, Task, Trace};
use hone_worlds::EnvSpec;
use serde_json::json;

fn environment(name: &str, tasks: usize) -> Environment {
    let table = json!({"name": name, "tasks": tasks, "held_out": 0, "customers": 60});
    EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open().unwrap()
}

fn renderer() -> (Renderer, hone_chat::parse::Format) {
    let directory = tempfile::tempdir().unwrap();
    let text = "Use the tools. <tool_call> {\"name\": \"get_user_details\", \"arguments\": {\"user_id\": \"a\"}}";
    train_tokenizer([text.repeat(20)], 400, &[]).unwrap().write(directory.path()).unwrap();
    let model = ModelDir::open(directory.path()).unwrap();
    let renderer = Renderer::new(&model, RenderSettings::default()).unwrap();
    let format = call_format(renderer.template(true), model.special_tokens()).unwrap();
    (renderer, format)
}

/// Components that a recipe might combine with the tau reward.
fn rubric() -> RubricSpec {
    let kinds =
        ["tau", "partial_credit", "confirmed", "found_first", "invented_ids", "repeated_calls", "parse_penalty"];
    let component = kinds.map(|kind| json!({"kind": kind}).as_object().unwrap().clone()).to_vec();
    RubricSpec { component, product: Vec::new() }
}

/// Plays every task's solution concurrently.
async fn play(environment: Environment) -> Vec<(Task, Trace)> {
    let tasks = environment.splits[TRAIN].to_vec();
    let (renderer, format) = renderer();
    let tools = environment.arena.open(&tasks[0], 0).await.unwrap().tools;
    let version = PolicyVersion { run: "oracle".into(), step: 0, weights: Digest::of(b"oracle") };
    let nobody = Arc::new(ScriptedSampler::new(version.clone(), []));
    let settings = RolloutSettings {
        window: 1 << 17,
        max_turns: 64,
        tool_output_tokens: 1 << 14,
        episode_output_tokens: 1 << 17,
        ..RolloutSettings::default()
    };
    let sampling = SamplingParams { max_new_tokens: 1 << 13, ..SamplingParams::default() };
    let rubric = Arc::new(rubric().build().unwrap());
    let rollouts = Rollouts::new(environment.arena, nobody, renderer.clone(), rubric, sampling, settings);
    let toolbox = rollouts.toolbox(&tools).unwrap();
    let plays = tasks.iter().enumerate().map(|(number, task)| {
        let line = |step| match step {
            Move::Call(call) => format.render_calls(&[call], &toolbox).unwrap(),
            Move::Say(text) => text,
        };
        let lines = solution(task).unwrap().into_iter().map(line);
        let lines: Vec<_> =
            lines.map(|line| renderer.tokenizer().encode(&format!("{line}<|im_end|>")).unwrap()).collect();
        let rollouts = rollouts.with_sampler(Arc::new(ScriptedSampler::new(version.clone(), lines)));
        async move { rollouts.play(Slot { task, replica: 0, seed: number as u64 }).await }
    });
    let traces = futures::future::join_all(plays).await;
    tasks.into_iter().zip(traces).collect()
}

#[tokio::test]
async fn every_episode_is_won_timed_and_can_be_scored_again() {
    for name in ["retail", "airline"] {
        let again = rubric().build().unwrap();
        for (task, trace) in play(environment(name, 60)).await {
            assert_eq!(trace.outcome, Outcome::Finished, "{}", task.key);
            for reward in trace.rewards.iter().filter(|reward| reward.component != TOTAL) {
                // Rules are counted below zero: breaking none is 0.
                let best =
                    if ["tau", "partial_credit", "found_first"].contains(&&*reward.component) { 1.0 } else { 0.0 };
                assert_eq!(reward.value(), Some(best), "{}: {}: {}", task.key, reward.component, reward.why());
            }
            let (last, before) = trace.turns.split_last().unwrap();
            assert!(last.timings.verifier.is_some() && before.iter().all(|turn| turn.timings.verifier.is_none()));
            for turn in &trace.turns {
                assert_eq!(turn.timings.user.is_some(), turn.calls.is_empty(), "a call asks no user, a reply does");
                assert!(turn.timings.environment.is_some() && turn.timings.sampler.is_some());
            }

            let read: Trace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
            assert_eq!(read, trace);
            let case = Case::of(&read, &EndState { facts: read.facts.clone() }).unwrap();
            let card = again.score_case(&case).await;
            assert_eq!(trace.rewards[..trace.rewards.len() - 1], card.components[..]);
            assert_eq!(trace.rewards.last(), Some(&card.total));
        }
    }
}

/// A user's misbehaviour after its first words.
#[derive(Clone, Copy)]
enum Breaks {
    Hangs,
    Dies,
}

struct Broken(Script, Breaks);

#[async_trait]
impl User for Broken {
    async fn reply(&mut self, agent: &str) -> Result<UserTurn, Fault> {
        match self.1 {
            _ if agent == GREETING => Ok(UserTurn::read(&self.0.goals[0])),
            Breaks::Hangs => std::future::pending().await,
            Breaks::Dies => Err(Fault::new(Boundary::UserSimulator, "out of quota")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_that_breaks_costs_its_own_episode_and_is_never_a_zero() {
    let table = json!({"name": "retail", "tasks": 6, "held_out": 0, "customers": 40});
    let users: Arc<NewUser> = Arc::new(|task, _| {
        let script: Script = serde_json::from_value(task.extra["user"].clone()).unwrap();
        Ok(match task.key.rsplit('/').next().unwrap() {
            "1" => Box::new(Broken(script, Breaks::Hangs)) as Box<dyn User>,
            "4" => Box::new(Broken(script, Breaks::Dies)),
            _ => Box::new(ScriptedUser::new(script)),
        })
    });
    let environment = EnvSpec::read(table.as_object().unwrap().clone()).unwrap().open_with(Some(users)).unwrap();
    for (number, (task, trace)) in play(environment).await.into_iter().enumerate() {
        if ![1, 4].contains(&number) {
            assert_eq!((trace.outcome, trace.rewards[0].value()), (Outcome::Finished, Some(1.0)), "{}", task.key);
            continue;
        }
        let Outcome::Fault { fault } = &trace.outcome else { panic!("{}: {:?}", task.key, trace.outcome) };
        assert_eq!(fault.boundary, Boundary::UserSimulator, "{fault}");
        assert!(trace.rewards.iter().all(|reward| reward.value().is_none()), "a fault is not a zero");
    }
}
