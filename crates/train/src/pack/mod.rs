//! Packing: sampled tokens to batches without padding, shared prefixes once.
//!
//! In three steps: which tokens ([`sampled`], from traces alone), their advantages ([`credited`]), and their layout
//! ([`to_score`], [`to_learn`]). Which tokens are trained is decided here and nowhere else: the sampled tokens of
//! traces that have an advantage. Packing knows no model, and of the loss only its reduction, which it turns into one
//! weight per token over the whole optimizer step.
//!
//! Order is preserved: the targets of the batches, concatenated, are the targets of the sequences, concatenated. A
//! learner's results (logprobs, entropies) are matched up by zipping.

mod forest;

use hone_trace::{Advantage, Batch, Group, Sampled, Target, Trace};

use crate::loss::Reduction;
use forest::Forest;

/// Sampled tokens of one trace: its ids up to the last of them, and where they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequence {
    /// Index of the prompt it answers: sequences of one group are siblings.
    pub group: usize,
    /// Index of the trace in its group.
    pub trace: usize,
    pub ids: Vec<u32>,
    pub places: Vec<Place>,
}

/// A sampled token: its position, and the numbers known about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Position in the sequence's ids.
    pub position: usize,
    pub sampler: f32,
    pub behaviour: f32,
    /// Old logprob: the sampler's, or the learner's before its first update on the batch. `None` until it is known.
    pub old: Option<f32>,
}

/// A sequence to learn from, with the advantage of every place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Credited {
    pub sequence: Sequence,
    pub advantages: Vec<f32>,
}

/// Layout of tokens for a learner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packing {
    /// The temperature the tokens were sampled at.
    pub temperature: f32,
    /// Maximum tokens a batch computes, counting shared prefixes once. A sequence is never split: one that is longer
    /// gets its own batch.
    pub budget: usize,
    /// True if sequences share their common prefixes, which the learner then computes once.
    pub share: bool,
}

/// Reason why traces cannot be packed.
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

/// The sampled tokens of all traces, and the temperature they were sampled at (`None` if nothing was sampled).
pub fn sampled(groups: &[Group]) -> Result<(Vec<Sequence>, Option<f32>), PackError> {
    let mut sequences = Vec::new();
    let mut temperature = None;
    for (index, group) in groups.iter().enumerate() {
        for (place, trace) in group.traces().iter().enumerate() {
            let Some(sequence) = sequence((index, place), trace)? else { continue };
            check_temperature(trace, *temperature.get_or_insert(trace.sampling.temperature))?;
            sequences.push(sequence);
        }
    }
    Ok((sequences, temperature))
}

/// The traces that have an advantage, with its value for every sampled token.
pub fn credited(groups: &[Group], advantages: &[Vec<Advantage>]) -> Result<(Vec<Credited>, Option<f32>), PackError> {
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
            let Some(advantages) = worth(trace, advantage)? else { continue };
            let Some(sequence) = sequence((index, place), trace)? else { continue };
            check_temperature(trace, *temperature.get_or_insert(trace.sampling.temperature))?;
            sequences.push(Credited { sequence, advantages });
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

/// Advantage of every sampled token. `None` without signal.
fn worth(trace: &Trace, advantage: &Advantage) -> Result<Option<Vec<f32>>, PackError> {
    let turns: Vec<usize> = trace.sampled().map(|(_, node)| node.tokens().len()).collect();
    let (task, replica) = (|| trace.task.clone(), trace.replica);
    if let Advantage::PerTurn { values } = advantage
        && values.len() != turns.len()
    {
        return Err(PackError::Turns { task: task(), replica, turns: turns.len(), values: values.len() });
    }
    let Some(values) = advantage.per_token(turns) else { return Ok(None) };
    // Learners compute with 32 bits.
    match values.iter().copied().find(|value| !(*value as f32).is_finite()) {
        Some(value) => Err(PackError::Advantage { task: task(), replica, value }),
        None => Ok(Some(values.into_iter().map(|value| value as f32).collect())),
    }
}

/// The sampled tokens of a trace. `None` if it has none.
fn sequence((group, place): (usize, usize), trace: &Trace) -> Result<Option<Sequence>, PackError> {
    let mut places = Vec::new();
    for (start, node) in trace.sampled() {
        let Some(Sampled { logprobs, sampling_logprobs, .. }) = node.as_sampled() else { continue };
        let behaviour = sampling_logprobs.as_ref().unwrap_or(logprobs);
        let tokens = logprobs.iter().zip(behaviour).enumerate();
        places.extend(tokens.map(|(offset, (sampler, behaviour))| Place {
            position: start + offset,
            sampler: *sampler,
            behaviour: *behaviour,
            old: None,
        }));
    }
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(None) };
    if first.position == 0 {
        return Err(PackError::NoPrompt { task: trace.task.clone(), replica: trace.replica });
    }
    // Tokens after the last sampled one predict nothing.
    let ids = trace.tokens().take(last.position + 1).collect();
    Ok(Some(Sequence { group, trace: place, ids, places }))
}

/// Sequence to lay out.
struct Item<'a> {
    sequence: &'a Sequence,
    /// Absent where it is only scored.
    advantages: Option<&'a [f32]>,
    /// Weight of each of its tokens.
    weight: f64,
}

/// Batches of sequences to score, in order: their targets have no weight.
pub fn to_score<'a>(sequences: impl IntoIterator<Item = &'a Sequence>, packing: &Packing) -> Vec<Batch> {
    let items = sequences.into_iter().map(|sequence| Item { sequence, advantages: None, weight: 0.0 });
    pack(&items.collect::<Vec<_>>(), packing)
}

/// Batches of one optimizer step, in order.
pub fn to_learn(sequences: &[Credited], reduction: Reduction, packing: &Packing) -> Vec<Batch> {
    let weights = step_weights(sequences, reduction);
    let items = sequences.iter().zip(weights).map(|(Credited { sequence, advantages }, weight)| Item {
        sequence,
        advantages: Some(advantages),
        weight,
    });
    pack(&items.collect::<Vec<_>>(), packing)
}

fn pack(items: &[Item<'_>], packing: &Packing) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut forest = Forest::new(packing.share);
    let mut start = 0;
    for (index, Item { sequence, .. }) in items.iter().enumerate() {
        if index > start && forest.tokens() + forest.added_by(&sequence.ids) > packing.budget {
            let full = std::mem::replace(&mut forest, Forest::new(packing.share));
            batches.push(lay_out(full, &items[start..index], packing));
            start = index;
        }
        forest.insert(&sequence.ids);
    }
    if start < items.len() {
        batches.push(lay_out(forest, &items[start..], packing));
    }
    batches
}

/// The weight of each sequence's tokens, by the reduction over all of them.
fn step_weights(sequences: &[Credited], reduction: Reduction) -> Vec<f64> {
    let sequences = || sequences.iter().map(|credited| &credited.sequence);
    let groups = sequences().map(|sequence| sequence.group + 1).max().unwrap_or(0);
    let mut counts = vec![Vec::new(); groups];
    for sequence in sequences() {
        counts[sequence.group].push(sequence.places.len());
    }
    let mut weights: Vec<_> = reduction.weights(&counts).into_iter().map(Vec::into_iter).collect();
    sequences().map(|sequence| weights[sequence.group].next().unwrap_or(0.0)).collect()
}

fn lay_out(forest: Forest, items: &[Item<'_>], packing: &Packing) -> Batch {
    let (nodes, chains) = forest.into_nodes();
    let mut batch = Batch { nodes, temperature: packing.temperature, ..Batch::default() };
    for (Item { sequence, advantages, weight }, chain) in items.iter().zip(chains) {
        let start = batch.targets.len();
        // Places are in order, so one walk along the chain of (node, position of its first id) finds them all.
        let mut chain = chain.into_iter().peekable();
        let mut at = (0, 0);
        for (index, place) in sequence.places.iter().enumerate() {
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
                advantage: advantages.and_then(|values| values.get(index).copied()).unwrap_or(0.0),
                weight: *weight as f32,
            });
        }
        batch.sequences.push(start..batch.targets.len());
    }
    batch
}
