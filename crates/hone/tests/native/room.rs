//! Conversations and a KV cache that is too small for all of them at once.

use std::sync::Arc;

use async_trait::async_trait;
use hone_arena::rollout::Slot;
use hone_engine::backend::Need;
use hone_engine::generate::step::PAGE;
use hone_engine::{Backend, Cpu, Generator, GeneratorSettings, Model, Policy, Snapshot};
use hone_trace::{
    Action, Arena, Env, Episode, Fault, Message, Sample, SampleFault, SampleRequest, Sampler, Task, ToolSet, Trace,
    Turn,
};

use crate::tiny::{recipe, setup};

/// Answers everything at length, and never ends an episode.
#[derive(Debug)]
struct Talkative;

#[async_trait]
impl Arena for Talkative {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let (tools, system) = (ToolSet::none(), "You listen.".into());
        Ok(Episode { tools, system, first: vec![Message::user(&task.prompt)], env: Box::new(Self) })
    }
}

#[async_trait]
impl Env for Talkative {
    async fn step(&mut self, _: Action) -> Result<Turn, Fault> {
        // A tool takes its time, in which others compute.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        Ok(Turn { messages: vec![Message::user("And then there is this. ".repeat(5))], ..Turn::default() })
    }
}

/// A sampler that does not say what it has room for.
struct Silent(Generator);

#[async_trait]
impl Sampler for Silent {
    async fn sample(&self, request: SampleRequest) -> Result<Sample, SampleFault> {
        self.0.sample(request).await
    }
}

/// Without waiting, every turn computes its whole conversation again; the numbers are the same.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_take_turns_where_not_all_of_them_fit() {
    // Half of the tokens end a reply.
    let stops: Vec<String> = (0..1024).step_by(2).map(|id| id.to_string()).collect();
    let recipe = recipe(&[&format!("sampling.stop_ids=[{}]", stops.join(",")), "rollout.max_turns=16"]);
    let setup = setup(&recipe);
    let tasks: Vec<Task> = (0..16).map(|n| Task::new(format!("{n}"), "talk", format!("Story {n}: tell me."))).collect();
    let played = async |pages: usize, says: bool| -> (Vec<Trace>, u64) {
        let model = Model::load(recipe.policy.model.as_ref().unwrap(), Arc::new(Cpu::new(1).unwrap())).unwrap();
        let page = model.device.bytes(&model.config, Need::Page);
        let settings = GeneratorSettings { memory_limit: pages as u64 * page, ..GeneratorSettings::default() };
        let generator = Generator::new(Policy::new(Snapshot::new(model, None, "room")), settings).unwrap();
        let sampler: Arc<dyn Sampler> =
            if says { Arc::new(generator.clone()) } else { Arc::new(Silent(generator.clone())) };
        let mut rollouts = setup.rollouts(&recipe, sampler, 1.0);
        rollouts.arena = Arc::new(Talkative);
        let slots = tasks.iter().map(|task| Slot { task, replica: 0, seed: 5 }).collect();
        let traces = rollouts.play_all(slots).await;
        let stats = generator.stats().await.unwrap();
        (traces, stats.prefilled_tokens)
    };
    let (ample, least) = played(4000, true).await;
    let tokens = |traces: &[Trace]| -> Vec<Vec<u32>> { traces.iter().map(|trace| trace.tokens().collect()).collect() };
    let longest = tokens(&ample).iter().map(Vec::len).max().unwrap();
    // Room for three of sixteen.
    let pages = (3 * longest).div_ceil(PAGE);
    let (blind, wasted) = played(pages, false).await;
    let (seeing, needed) = played(pages, true).await;
    assert!(tokens(&blind) == tokens(&ample) && tokens(&seeing) == tokens(&ample), "the cache changes no token");
    let waited =
        |traces: &[Trace]| traces.iter().flat_map(|trace| &trace.turns).any(|turn| turn.timings.room.is_some());
    assert!(waited(&seeing) && !waited(&blind) && !waited(&ample));
    assert!(wasted > 4 * least, "{wasted} tokens computed, {least} at least");
    assert!(needed < 3 * least, "{needed} tokens computed, {least} at least, {wasted} without waiting");
}
