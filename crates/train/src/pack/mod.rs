//! Packing: credited traces to batches without padding, shared prefixes once.
//!
//! Which tokens are trained is decided here and nowhere else: the sampled tokens of traces that have an advantage. Packing
//! knows no model and no loss but its reduction, which it settles as one weight per token over the whole optimizer step.
//!
//! Order is kept: the targets of the batches, one after the other, are the targets of the sequences, one after the
//! other. What a learner says of them (logprobs, entropies) goes back by zipping.

mod forest;

use hone_trace::{Advantage, Batch, Group, Sampled, Target, Trace};

use crate::loss::Reduction;
use forest::Forest;

/// One trace to learn from: its ids up to the last trained token, and the trained tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequence {
    /// Which prompt it answers: sequences of one group are siblings.
    pub group: usize,
    /// Which trace of its group it is.
    pub trace: usize,
    pub ids: Vec<u32>,
    pub places: Vec<Place>,
}

/// A trained token: where it is and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Position in the sequence's ids.
    pub position: usize,
    pub sampler: f32,
    pub behaviour: f32,
    /// The learner's logprob when the sequence was first seen, once it was.
    pub old: Option<f32>,
    pub advantage: f32,
}

/// How an optimizer step is laid out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packing {
    pub reduction: Reduction,
    /// The temperature the tokens were sampled at.
    pub temperature: f32,
    /// Most tokens a batch computes, shared ones once. A sequence is never split: one that is longer by itself gets a
    /// batch of its own.
    pub budget: usize,
    /// Whether sequences share their common prefixes. Turned off for learners that cannot, and to check those that can.
    pub share: bool,
}

/// Why traces cannot be packed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PackError {
    #[error("{groups} groups came with advantages for {advantages}; credit gives every group an entry")]
    Groups { groups: usize, advantages: usize },
    #[error("group {group} has {traces} traces and {advantages} advantages; credit gives every trace an entry")]
    Traces { group: usize, traces: usize, advantages: usize },
    #[error("trace {task}#{replica} has {turns} sampled turns and {values} per-turn advantages")]
    Turns { task: String, replica: u32, turns: usize, values: usize },
    #[error(
        "trace {task}#{replica} was sampled at temperature {found}, others of the step at {expected}; one optimizer step \
         trains one temperature: set the same for all training environments"
    )]
    Temperature { task: String, replica: u32, expected: f32, found: f32 },
    #[error(
        "trace {task}#{replica} was sampled greedily (temperature 0): identical rollouts carry no signal and the policy \
         that is trained has no greedy limit. Sample training episodes at a temperature over 0"
    )]
    Greedy { task: String, replica: u32 },
    #[error("trace {task}#{replica} starts with a sampled token: nothing predicts it, its prompt is empty")]
    NoPrompt { task: String, replica: u32 },
    #[error("trace {task}#{replica} has an advantage of {value}; an advantage must be a finite number of 32 bits")]
    Advantage { task: String, replica: u32, value: f64 },
}

/// The credited traces as sequences, and the temperature they were sampled at (`None` where nothing is trained).
pub fn sequences(groups: &[Group], advantages: &[Vec<Advantage>]) -> Result<(Vec<Sequence>, Option<f32>), PackError> {
    if groups.len() != advantages.len() {
        return Err(PackError::Groups { groups: groups.len(), advantages: advantages.len() });
    }
    let mut sequences = Vec::new();
    let mut temperature = None;
    for (index, (group, advantages)) in groups.iter().zip(advantages).enumerate() {
        let traces = group.traces();
        if traces.len() != advantages.len() {
            return Err(PackError::Traces { group: index, traces: traces.len(), advantages: advantages.len() });
        }
        for (place, (trace, advantage)) in traces.iter().zip(advantages).enumerate() {
            let Some(sequence) = sequence(index, trace, advantage)? else { continue };
            check_temperature(trace, *temperature.get_or_insert(trace.sampling.temperature))?;
            sequences.push(Sequence { trace: place, ..sequence });
        }
    }
    Ok((sequences, temperature))
}

fn check_temperature(trace: &Trace, expected: f32) -> Result<(), PackError> {
    let (task, replica, found) = (trace.task.clone(), trace.replica, trace.sampling.temperature);
    if found <= 0.0 {
        Err(PackError::Greedy { task, replica })
    } else if found == expected {
        Ok(())
    } else {
        Err(PackError::Temperature { task, replica, expected, found })
    }
}

/// `None` where there is nothing to train: no signal, or no sampled token.
fn sequence(group: usize, trace: &Trace, advantage: &Advantage) -> Result<Option<Sequence>, PackError> {
    let turns: Vec<usize> = trace.sampled().map(|(_, node)| node.tokens().len()).collect();
    let (task, replica) = (|| trace.task.clone(), trace.replica);
    if let Advantage::PerTurn { values } = advantage
        && values.len() != turns.len()
    {
        return Err(PackError::Turns { task: task(), replica, turns: turns.len(), values: values.len() });
    }
    let Some(values) = advantage.per_token(turns) else { return Ok(None) };
    // Learners compute with 32 bits.
    if let Some(value) = values.iter().copied().find(|value| !(*value as f32).is_finite()) {
        return Err(PackError::Advantage { task: task(), replica, value });
    }
    let mut places = Vec::new();
    let mut values = values.into_iter();
    for (start, node) in trace.sampled() {
        let Some(Sampled { logprobs, sampling_logprobs, .. }) = node.as_sampled() else { continue };
        let behaviour = sampling_logprobs.as_ref().unwrap_or(logprobs);
        let tokens = logprobs.iter().zip(behaviour).zip(values.by_ref()).enumerate();
        places.extend(tokens.map(|(offset, ((sampler, behaviour), value))| Place {
            position: start + offset,
            sampler: *sampler,
            behaviour: *behaviour,
            old: None,
            advantage: value as f32,
        }));
    }
    match places.first() {
        Some(first) if first.position == 0 => return Err(PackError::NoPrompt { task: task(), replica }),
        None => return Ok(None),
        Some(_) => {}
    }
    // What follows the last trained token predicts nothing that is trained.
    let end = places.last().map_or(0, |last| last.position + 1);
    Ok(Some(Sequence { group, trace: 0, ids: trace.tokens().take(end).collect(), places }))
}

/// Lays the sequences of one optimizer step out as batches, in order.
pub fn pack(sequences: &[Sequence], packing: &Packing) -> Vec<Batch> {
    let weights = step_weights(sequences, packing.reduction);
    let mut batches = Vec::new();
    let mut forest = Forest::new(packing.share);
    let mut start = 0;
    for (index, sequence) in sequences.iter().enumerate() {
        if index > start && forest.tokens() + forest.added_by(&sequence.ids) > packing.budget {
            let full = std::mem::replace(&mut forest, Forest::new(packing.share));
            batches.push(lay_out(full, &sequences[start..index], &weights[start..index], packing));
            start = index;
        }
        forest.insert(&sequence.ids);
    }
    if start < sequences.len() {
        batches.push(lay_out(forest, &sequences[start..], &weights[start..], packing));
    }
    batches
}

/// The weight of each sequence's tokens, by the reduction over all of them.
fn step_weights(sequences: &[Sequence], reduction: Reduction) -> Vec<f64> {
    let groups = sequences.iter().map(|sequence| sequence.group + 1).max().unwrap_or(0);
    let mut counts = vec![Vec::new(); groups];
    for sequence in sequences {
        counts[sequence.group].push(sequence.places.len());
    }
    let mut weights: Vec<_> = reduction.weights(&counts).into_iter().map(Vec::into_iter).collect();
    sequences.iter().map(|sequence| weights[sequence.group].next().unwrap_or(0.0)).collect()
}

fn lay_out(forest: Forest, sequences: &[Sequence], weights: &[f64], packing: &Packing) -> Batch {
    let (nodes, chains) = forest.into_nodes();
    let mut batch = Batch { nodes, temperature: packing.temperature, ..Batch::default() };
    for ((sequence, weight), chain) in sequences.iter().zip(weights).zip(chains) {
        let start = batch.targets.len();
        // Places are in order, so one walk along the chain of (node, position of its first id) finds them all.
        let mut chain = chain.into_iter().peekable();
        let mut at = (0, 0);
        for place in &sequence.places {
            while let Some(next) = chain.next_if(|(_, first)| *first <= place.position) {
                at = next;
            }
            let (node, first) = at;
            batch.targets.push(Target {
                node,
                offset: place.position - first,
                sampler: place.sampler,
                behaviour: place.behaviour,
                old: place.old,
                advantage: place.advantage,
                weight: *weight as f32,
            });
        }
        batch.sequences.push(start..batch.targets.len());
    }
    batch
}
