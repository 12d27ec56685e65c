//! One GRPO step of ours: sample groups, score, credit, pack, learn, publish, with the parts a run uses.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use hone_arena::rewards::TOTAL;
use hone_engine::generate::bench::Workload;
use hone_engine::{Cpu, Generator, GeneratorSettings, LearnerSettings, Model, NativeLearner, Policy, Snapshot, bench};
use hone_trace::{
    Credit, Group, Learner as _, Node, OptimizerStep, Outcome, Reward, SampleRequest, Sampler as _, SamplingParams,
    Seed, ToolSet, Trace, TraceBuilder, TraceHead,
};
use hone_train::credit::{CreditRecipe, Weights};
use hone_train::loss::{LossRecipe, Objective};
use hone_train::pack::{self, Packing};
use serde_json::{Value, json};

/// Workload of a step.
pub(in crate::bench) const WORK: Workload = Workload { prompts: 8, samples: 8, prompt_tokens: 256, new_tokens: 100 };
const LOSS: &str = "dapo";
const CREDIT: &str = "grpo";
/// Four groups: about half of what recipes use, since memory is one of the bars.
const BATCH_TOKENS: usize = 4352;
const RATE: OptimizerStep = OptimizerStep { learning_rate: 1e-4, max_grad_norm: Some(1.0), publish: true };

/// Configuration of a step, for the record.
pub(super) fn configuration() -> Result<Value> {
    let model = bench::config()?;
    Ok(json!({
        "model": {"hidden": model.hidden, "layers": model.layers, "mlp": model.mlp, "vocab": model.vocab, "dtype": "f32"},
        "credit": CREDIT, "loss": LOSS, "temperature": 1.0, "learning_rate": RATE.learning_rate,
        "max_grad_norm": RATE.max_grad_norm, "batch_tokens": BATCH_TOKENS, "optimizer": "adamw", "optimizer_steps": 1,
    }))
}

/// The parts of a run, and the policy between its steps.
pub(in crate::bench) struct Stepper {
    runtime: tokio::runtime::Runtime,
    generator: Generator,
    learner: NativeLearner,
    objective: Objective,
    credit: Box<dyn Credit>,
    vocab: usize,
    work: Workload,
}

/// Seconds of a step, and of its sampling.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Took {
    pub(in crate::bench) seconds: f64,
    pub(in crate::bench) sampling: f64,
}

impl Stepper {
    pub(in crate::bench) fn new(threads: usize, work: Workload) -> Result<Self> {
        let model = Model::random(bench::config()?, Arc::new(Cpu::new(threads)?), 1);
        let vocab = model.config.vocab;
        let policy = Policy::new(Snapshot::new(model, None, "bench"));
        Ok(Self {
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            generator: Generator::new(Arc::clone(&policy), GeneratorSettings::default())?,
            learner: NativeLearner::new(policy, None, LearnerSettings::default()),
            objective: LossRecipe::named(LOSS).build()?,
            credit: CreditRecipe::named(CREDIT).build(Weights::only(TOTAL))?,
            vocab,
            work,
        })
    }

    /// One whole step.
    pub(in crate::bench) fn step(&mut self, number: u64) -> Result<Took> {
        let clock = Instant::now();
        let groups = self.groups(number)?;
        let sampling = clock.elapsed().as_secs_f64();
        let advantages = self.credit.credit(&groups);
        let (mut sequences, temperature) = pack::credited(&groups, &advantages)?;
        for place in sequences.iter_mut().flat_map(|credited| &mut credited.sequence.places) {
            place.old = Some(place.sampler);
        }
        let packing = Packing { temperature: temperature.unwrap_or(1.0), budget: BATCH_TOKENS, share: true };
        let (learner, objective) = (&mut self.learner, &self.objective);
        self.runtime.block_on(async {
            for batch in pack::to_learn(&sequences, objective.reduction, &packing) {
                learner.accumulate(&batch, objective).await?;
            }
            learner.step(RATE).await
        })?;
        Ok(Took { seconds: clock.elapsed().as_secs_f64(), sampling })
    }

    fn groups(&self, number: u64) -> Result<Vec<Group>> {
        let seed = Seed::root(0).with("step").at(number);
        let tools = Arc::new(ToolSet::none());
        let Workload { prompts, samples, prompt_tokens, new_tokens } = self.work;
        let prompt = |number: usize| random_prompt(seed.at(number as u64), self.vocab, prompt_tokens);
        let prompts: Vec<Vec<u32>> = (0..prompts).map(prompt).collect();
        let play = |prompt: usize, replica: u32| {
            let (tools, ids) = (Arc::clone(&tools), prompts[prompt].clone());
            async move {
                let params = SamplingParams { max_new_tokens: new_tokens as u32, ..SamplingParams::default() };
                let seed = seed.at(prompt as u64).at(u64::from(replica)).value();
                let request = SampleRequest { prompt: ids.clone(), params: params.clone(), seed, gate: None };
                let sample = self.generator.sample(request).await?;
                let task = prompt.to_string();
                let head = TraceHead { task, env: "bench".into(), replica, seed, tools, sampling: params };
                anyhow::Ok(scored(head, ids, sample)?)
            }
        };
        let wanted = (0..prompts.len()).flat_map(|prompt| (0..samples as u32).map(move |replica| (prompt, replica)));
        let plays = futures::future::join_all(wanted.map(|(prompt, replica)| play(prompt, replica)));
        let mut traces = self.runtime.block_on(plays).into_iter().collect::<Result<Vec<_>>>()?.into_iter();
        Ok(prompts.iter().map(|_| Group::new(traces.by_ref().take(samples).collect())).collect())
    }
}

fn random_prompt(seed: Seed, vocab: usize, tokens: usize) -> Vec<u32> {
    let mut rng = seed.with("prompt").rng();
    (0..tokens).map(|_| rng.below(vocab) as u32).collect()
}

/// The reward is the share of even ids, so that groups differ.
fn scored(head: TraceHead, prompt: Vec<u32>, sample: hone_trace::Sample) -> Result<Trace, hone_trace::BadNode> {
    let even = sample.tokens.iter().filter(|id| *id % 2 == 0).count() as f64 / sample.tokens.len().max(1) as f64;
    let mut builder = TraceBuilder::new(head, prompt);
    builder.push(Node::sampled(sample.tokens, sample.sampled)?);
    let mut trace = builder.finish(Outcome::Finished);
    trace.rewards.push(Reward::scored(TOTAL, even, "share of even ids"));
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_samples_what_is_asked_for_and_moves_the_policy() {
        let work = Workload { prompts: 2, samples: 4, prompt_tokens: 10, new_tokens: 6 };
        let mut stepper = Stepper::new(1, work).unwrap();
        let before = stepper.learner.policy().current().version.clone();
        let groups = stepper.groups(0).unwrap();
        assert_eq!(groups.iter().map(|group| group.traces().len()).collect::<Vec<_>>(), [4, 4]);
        assert!(groups.iter().flat_map(Group::traces).all(|trace| trace.tokens().count() == 16));
        let took = stepper.step(0).unwrap();
        assert!(took.sampling > 0.0 && took.sampling < took.seconds);
        let after = stepper.learner.policy().current().version.clone();
        assert!(after.step == before.step + 1 && after.weights != before.weights);
    }
}
