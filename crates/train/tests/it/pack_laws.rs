//! Laws of packing.

use hone_trace::{Advantage, Batch, Group, NoSignal, Node, Outcome, Sampled, Span, TraceBuilder, TraceHead};
use hone_train::loss::Reduction;
use hone_train::pack::{self, Credited, PackError, Packing, Sequence, to_learn, to_score};
use proptest::prelude::*;

use crate::common::{Turn, trace};

const PACKING: Packing = Packing { temperature: 1.0, budget: 1 << 20, share: true };

/// Groups that share a system prompt, siblings that share a prompt and often more: few ids, so prefixes collide.
fn groups() -> impl Strategy<Value = (Vec<Group>, Vec<Vec<Advantage>>)> {
    let ids = |count: std::ops::Range<usize>| prop::collection::vec(0u32..3, count);
    let turn = (ids(0..5), ids(0..3)).prop_map(|(sampled, answer)| Turn { sampled, answer });
    let turns = prop::collection::vec(turn, 0..4);
    let group = (ids(0..4), prop::collection::vec((turns, 0u8..4, -1.0..1.0f64), 1..5));
    prop::collection::vec(group, 0..4).prop_map(|groups| groups.into_iter().map(made).unzip())
}

/// The turns of a trace, the kind of its advantage and the value.
type Raw = (Vec<Turn>, u8, f64);

fn made((prompt, traces): (Vec<u32>, Vec<Raw>)) -> (Group, Vec<Advantage>) {
    let prompt: Vec<u32> = [5, 6].into_iter().chain(prompt).collect();
    let (traces, advantages) = traces
        .into_iter()
        .map(|(turns, kind, value)| {
            let advantage = match kind {
                0 => Advantage::None { why: NoSignal::ZeroVariance },
                1 => Advantage::PerTurn { values: (0..turns.len()).map(|turn| value + turn as f64).collect() },
                2 => Advantage::Spans { value, spans: vec![Span { start: 1, end: 3, value: value + 7.0 }] },
                _ => Advantage::Whole { value },
            };
            (trace(&prompt, &turns, vec![]), advantage)
        })
        .unzip();
    (Group::new(traces), advantages)
}

/// The ids before a target on its chain, and its own.
fn spelled(batch: &Batch, node: usize, offset: usize) -> Vec<u32> {
    let mut chain = vec![batch.nodes[node].tokens[..=offset].to_vec()];
    let mut at = node;
    while let Some(parent) = batch.nodes[at].parent {
        chain.push(batch.nodes[parent].tokens.clone());
        at = parent;
    }
    chain.into_iter().rev().flatten().collect()
}

/// Meaning of a target, wherever it is placed: the ids up to it and the numbers known about it.
type Meaning = (Vec<u32>, u32, u32, u32);

fn meanings(batches: &[Batch]) -> Vec<Vec<Meaning>> {
    let mut all = Vec::new();
    for batch in batches {
        for range in &batch.sequences {
            let targets = batch.targets[range.clone()].iter();
            let meaning = |target: &hone_trace::Target| {
                let ids = spelled(batch, target.node, target.offset);
                (ids, target.sampler.to_bits(), target.advantage.to_bits(), target.weight.to_bits())
            };
            all.push(targets.map(meaning).collect());
        }
    }
    all
}

/// The batches of an optimizer step under the mean over tokens.
fn mean(sequences: &[Credited], packing: &Packing) -> Vec<Batch> {
    to_learn(sequences, Reduction::TokenMean, packing)
}

fn prefixes(sequence: &Sequence) -> impl Iterator<Item = &[u32]> {
    (1..=sequence.ids.len()).map(|end| &sequence.ids[..end])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sampled_token_of_every_credited_trace_is_a_target_once((groups, advantages) in groups(), budget in 1usize..60) {
        let (sequences, _) = pack::credited(&groups, &advantages).unwrap();
        let batches = mean(&sequences, &Packing { budget, ..PACKING });
        for batch in &batches {
            prop_assert_eq!(batch.check(), Ok(()));
        }
        let mut packed = meanings(&batches).into_iter();
        for (group, advantages) in groups.iter().zip(&advantages) {
            for (trace, advantage) in group.traces().iter().zip(advantages) {
                let ids: Vec<u32> = trace.tokens().collect();
                let mut expected = Vec::new();
                let mut count = 0..;
                for (turn, (start, node)) in trace.sampled().enumerate() {
                    for (offset, logprob) in node.as_sampled().unwrap().logprobs.iter().enumerate() {
                        let at: usize = count.next().unwrap();
                        let value = match advantage {
                            Advantage::None { .. } => continue,
                            Advantage::Whole { value } => *value,
                            Advantage::PerTurn { values } => values[turn],
                            Advantage::Spans { value, spans } => {
                                if (spans[0].start..spans[0].end).contains(&at) { spans[0].value } else { *value }
                            }
                        };
                        expected.push((ids[..=start + offset].to_vec(), logprob.to_bits(), (value as f32).to_bits()));
                    }
                }
                if expected.is_empty() {
                    continue;
                }
                let found = packed.next().unwrap();
                let found: Vec<_> = found.into_iter().map(|(ids, sampler, advantage, _)| (ids, sampler, advantage)).collect();
                prop_assert_eq!(found, expected);
            }
        }
        prop_assert!(packed.next().is_none());
    }

    /// Token selection does not depend on advantage values: all sampled tokens are scored, those with an advantage are
    /// trained.
    #[test]
    fn every_sampled_token_is_scored_and_has_no_weight((groups, _) in groups(), budget in 1usize..60) {
        let (sequences, _) = pack::sampled(&groups).unwrap();
        let batches = to_score(&sequences, &Packing { budget, ..PACKING });
        let sampled = groups.iter().flat_map(Group::traces).flat_map(hone_trace::Trace::sampled);
        let tokens: usize = sampled.map(|(_, node)| node.tokens().len()).sum();
        let targets = || batches.iter().flat_map(|batch| &batch.targets);
        prop_assert_eq!(targets().count(), tokens);
        prop_assert!(targets().all(|target| target.weight == 0.0));
        for batch in &batches {
            prop_assert_eq!(batch.check(), Ok(()));
        }
    }

    #[test]
    fn sharing_and_splitting_change_no_target((groups, advantages) in groups(), budget in 1usize..60) {
        let (sequences, _) = pack::credited(&groups, &advantages).unwrap();
        for reduction in [Reduction::TokenMean, Reduction::SequenceMean, Reduction::PromptMean] {
            let whole = to_learn(&sequences, reduction, &PACKING);
            let unshared = to_learn(&sequences, reduction, &Packing { share: false, ..PACKING });
            let split = to_learn(&sequences, reduction, &Packing { budget, ..PACKING });
            let expected = meanings(&whole);
            prop_assert_eq!(&meanings(&unshared), &expected);
            prop_assert_eq!(&meanings(&split), &expected);
            // The weights of a mean add up to one.
            let weights: f64 = whole.iter().flat_map(|batch| &batch.targets).map(|target| f64::from(target.weight)).sum();
            prop_assert!(sequences.is_empty() || (weights - 1.0).abs() < 1e-5, "{}", weights);
            let unshared: usize = unshared.iter().map(Batch::packed_tokens).sum();
            prop_assert_eq!(unshared, sequences.iter().map(|credited| credited.sequence.ids.len()).sum::<usize>());
        }
    }

    /// Within a batch no prefix is computed twice: packed tokens are the distinct prefixes.
    #[test]
    fn no_shared_prefix_is_computed_twice((groups, advantages) in groups()) {
        let (sequences, _) = pack::credited(&groups, &advantages).unwrap();
        let packed: usize = mean(&sequences, &PACKING).iter().map(Batch::packed_tokens).sum();
        let distinct: std::collections::HashSet<&[u32]> =
            sequences.iter().flat_map(|credited| prefixes(&credited.sequence)).collect();
        prop_assert_eq!(packed, distinct.len());
    }

    #[test]
    fn a_batch_keeps_its_budget_unless_one_sequence_is_over_it((groups, advantages) in groups(), budget in 1usize..60) {
        let (sequences, _) = pack::credited(&groups, &advantages).unwrap();
        for share in [true, false] {
            for batch in mean(&sequences, &Packing { budget, share, ..PACKING }) {
                prop_assert!(batch.packed_tokens() <= budget || batch.sequences.len() == 1);
            }
        }
    }
}

#[test]
fn nodes_are_depth_first_and_parents_hold_what_is_shared() {
    let turn = |sampled: &[u32]| [Turn { sampled: sampled.to_vec(), answer: vec![4] }];
    let one = Group::new(vec![trace(&[1, 2, 3], &turn(&[7, 8]), vec![]), trace(&[1, 2, 3], &turn(&[7, 9]), vec![])]);
    let two = Group::new(vec![trace(&[1, 2, 5], &turn(&[7]), vec![])]);
    let whole = |value| Advantage::Whole { value };
    let (sequences, temperature) =
        pack::credited(&[one, two], &[vec![whole(1.0), whole(-1.0)], vec![whole(2.0)]]).unwrap();
    assert_eq!(temperature, Some(1.0));
    let batches = mean(&sequences, &PACKING);
    let nodes: Vec<_> = batches[0].nodes.iter().map(|node| (node.parent, node.tokens.as_slice())).collect();
    let expected: [(Option<usize>, &[u32]); 5] =
        [(None, &[1, 2]), (Some(0), &[3, 7]), (Some(1), &[8]), (Some(1), &[9]), (Some(0), &[5, 7])];
    assert_eq!(nodes, expected);
    // Both siblings sampled the 7 they share, and each has its own target there.
    let shared: Vec<_> = batches[0].targets.iter().filter(|target| (target.node, target.offset) == (1, 1)).collect();
    assert_eq!(shared.iter().map(|target| target.advantage).collect::<Vec<_>>(), [1.0, -1.0]);
}

/// Top-p narrows the sampling distribution, not the trained policy: the packer keeps both logprobs.
#[test]
fn the_logprob_a_token_was_drawn_with_goes_along() {
    let plain = trace(&[1], &[Turn { sampled: vec![1, 2], answer: vec![] }], vec![]);
    let (_, node) = plain.sampled().next().unwrap();
    let narrowed = Sampled { sampling_logprobs: Some(vec![-0.001, 0.0]), ..node.as_sampled().unwrap().clone() };
    let head = TraceHead {
        task: "t".into(),
        env: "e".into(),
        replica: 1,
        seed: 0,
        tools: plain.tools().clone(),
        sampling: plain.sampling.clone(),
    };
    let mut builder = TraceBuilder::new(head, vec![1]);
    builder.push(Node::sampled(vec![1, 2], narrowed).unwrap());
    let narrowed = builder.finish(Outcome::Finished);
    let group = Group::new(vec![plain, narrowed]);
    let advantages = vec![Advantage::Whole { value: 1.0 }, Advantage::Whole { value: -1.0 }];
    let (sequences, _) = pack::credited(&[group], &[advantages]).unwrap();
    let targets = &mean(&sequences, &PACKING)[0].targets;
    let logprobs: Vec<_> = targets.iter().map(|target| (target.sampler, target.behaviour)).collect();
    assert_eq!(logprobs, [(-0.01, -0.01), (-0.02, -0.02), (-0.01, -0.001), (-0.02, 0.0)]);
}

#[test]
fn what_cannot_be_packed_is_refused_with_the_reason() {
    let turn = [Turn { sampled: vec![1], answer: vec![] }];
    let group = || Group::new(vec![trace(&[1], &turn, vec![])]);
    let whole = || vec![Advantage::Whole { value: 1.0 }];
    let refuse = |group: Group, advantage: Vec<Advantage>| pack::credited(&[group], &[advantage]).unwrap_err();
    assert!(matches!(pack::credited(&[group()], &[]), Err(PackError::Groups { .. })));
    assert!(matches!(refuse(group(), vec![]), PackError::Traces { .. }));
    assert!(matches!(refuse(group(), vec![Advantage::PerTurn { values: vec![] }]), PackError::Turns { .. }));
    assert!(matches!(refuse(group(), vec![Advantage::Whole { value: f64::NAN }]), PackError::Advantage { .. }));
    assert!(matches!(refuse(Group::new(vec![trace(&[], &turn, vec![])]), whole()), PackError::NoPrompt { .. }));
    let mut greedy = trace(&[1], &turn, vec![]);
    greedy.sampling.temperature = 0.0;
    assert!(matches!(refuse(Group::new(vec![greedy]), whole()), PackError::Greedy { .. }));
    let mut hot = trace(&[1], &turn, vec![]);
    hot.sampling.temperature = 0.7;
    let mixed = pack::credited(&[group(), Group::new(vec![hot])], &[whole(), whole()]);
    assert!(matches!(mixed, Err(PackError::Temperature { .. })));
    assert!(mean(&[], &PACKING).is_empty());
    assert_eq!(Sequence::default().places.len(), 0);
}
