//! The laws of the records: what cannot be built, and that what is built reads back.

use std::sync::Arc;

use crate::common::{head, tools, trace, version};
use hone_trace::{
    BadNode, Boundary, Digest, Fault, FaultKind, Group, Message, Node, Outcome, Reward, Sampled, Seed, Task, TaskSet,
    TaskSetError, ToolCall, ToolSet, ToolSpec, Trace, TraceBuilder, TraceHead, TurnRecord, Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn sampled(tokens: usize, logprobs: usize, covered: u32) -> Result<Node, BadNode> {
    let record =
        Sampled { versions: vec![(version(0), covered)], logprobs: vec![-1.0; logprobs], sampling_logprobs: None };
    Node::sampled(vec![5; tokens], record)
}

#[test]
fn a_sampled_node_needs_a_logprob_and_a_version_for_every_token() {
    assert!(sampled(3, 3, 3).is_ok());
    assert!(matches!(sampled(3, 2, 3), Err(BadNode::Logprobs { tokens: 3, logprobs: 2, .. })));
    assert!(matches!(sampled(3, 3, 2), Err(BadNode::Versions { tokens: 3, covered: 2 })));
    let nan = Sampled::by(version(0), vec![f32::NAN]);
    assert!(matches!(Node::sampled(vec![1], nan), Err(BadNode::NotALogprob { index: 0, .. })));
    let certain = Sampled::by(version(0), vec![0.5]);
    assert!(Node::sampled(vec![1], certain).is_err());
}

#[test]
fn a_trace_whose_prompt_was_rendered_with_other_tools_is_refused() {
    let mut form = serde_json::to_value(trace("t", &[4, 5])).unwrap();
    assert!(serde_json::from_value::<Trace>(form.clone()).is_ok());
    form["tools"] = json!([]);
    let error = serde_json::from_value::<Trace>(form.clone()).unwrap_err().to_string();
    assert!(error.contains("other tools"), "{error}");
    form.as_object_mut().unwrap().remove("tools");
    assert!(serde_json::from_value::<Trace>(form).is_err());
}

#[test]
fn a_node_read_from_disk_obeys_the_same_law() {
    let broken = json!({"origin": "sampled", "tokens": [1, 2], "versions": [[version(0), 2]], "logprobs": [-0.1]});
    assert!(serde_json::from_value::<Node>(broken).is_err());
    let missing = json!({"origin": "sampled", "tokens": [1, 2]});
    assert!(serde_json::from_value::<Node>(missing).is_err());
}

#[test]
fn a_faulted_trace_leaves_its_group_with_its_reason() {
    let mut faulted = trace("t", &[9]);
    faulted.outcome = Outcome::Fault { fault: Fault::transient(Boundary::Environment, "connection refused") };
    let group = Group::new(vec![trace("t", &[4]), faulted, trace("t", &[5])]);
    assert_eq!(group.traces().len(), 2);
    assert!(matches!(&group.faulted()[0].outcome, Outcome::Fault { fault } if fault.to_string().contains("refused")));
    assert_eq!(group.all().count(), 3, "and none is lost");
}

#[test]
fn a_fault_is_read_back_with_its_kind_and_an_older_one_without() {
    let late = Fault::new(Boundary::Environment, "no answer").of_kind(FaultKind::ServerLate);
    let mut record = serde_json::to_value(&late).unwrap();
    assert_eq!(record["kind"], "server_late");
    assert_eq!(serde_json::from_value::<Fault>(record.clone()).unwrap(), late);
    record.as_object_mut().unwrap().remove("kind");
    let older = serde_json::from_value::<Fault>(record.clone()).unwrap();
    assert_eq!(older.kind, FaultKind::Other);
    assert_eq!(serde_json::to_value(&older).unwrap(), record, "written as before");
}

#[test]
fn rewards_are_a_value_or_a_reason() {
    let scored = Reward::scored("format", 0.5, "two of four fields");
    assert_eq!(
        serde_json::to_value(&scored).unwrap(),
        json!({"component": "format", "value": 0.5, "why": "two of four fields"})
    );
    let broken = Reward::scored("judge", f64::NAN, "0 / 0");
    assert_eq!(broken.value(), None);
    assert_eq!(serde_json::from_value::<Reward>(serde_json::to_value(&broken).unwrap()).unwrap(), broken);
}

#[test]
fn tools_keep_what_their_author_wrote_and_names_are_unique() {
    let wire = json!({"type": "function", "function": {
        "name": "f", "description": "d", "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}, "strict": true,
    }});
    let spec: ToolSpec = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(spec.parameter_names().collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(serde_json::to_string(&spec).unwrap(), wire.to_string());
    let bare: ToolSpec = serde_json::from_value(wire["function"].clone()).unwrap();
    assert_eq!(bare, spec);
    assert!(ToolSet::new(vec![spec.clone(), spec]).unwrap_err().to_string().contains("\"f\""));
    for (bad, word) in [
        (json!({"function": {}}), "name"),
        (json!("f"), "object"),
        (json!({"name": "f", "parameters": []}), "JSON Schema"),
        (json!({"name": "f", "params": {}}), "did you mean \"parameters\"?"),
        (json!({"name": "f", "input_schema": {}}), "did you mean \"parameters\"?"),
        (json!({"name": "f", "desciption": "d", "parameters": {}}), "did you mean \"description\"?"),
    ] {
        let error = serde_json::from_value::<ToolSpec>(bad).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn calls_are_read_flat_or_wrapped_with_arguments_as_object_or_text() {
    let flat: ToolCall = serde_json::from_value(json!({"name": "f", "arguments": {"a": 1}})).unwrap();
    let wrapped = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let wrapped: ToolCall = serde_json::from_value(wrapped).unwrap();
    assert_eq!(flat.arguments, wrapped.arguments);
    assert_eq!(wrapped.id.as_deref(), Some("1"));
    assert!(serde_json::from_value::<ToolCall>(json!({"name": "f", "arguments": [1]})).is_err());
}

#[test]
fn messages_keep_null_content_apart_from_empty() {
    let call = Message::calls(vec![ToolCall::new("f", serde_json::Map::new())]);
    let form = serde_json::to_value(&call).unwrap();
    assert_eq!(form["content"], Value::Null);
    assert_eq!(serde_json::from_value::<Message>(form).unwrap(), call);
    let parts = json!({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "u"}}]});
    let message: Message = serde_json::from_value(parts.clone()).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), parts);
    assert_eq!(message.content().unwrap().text(), "hi");
}

#[test]
fn a_task_set_is_ordered_unique_and_hashed() {
    let task = |key: &str, prompt: &str| Task::new(key, "retail", prompt);
    let (set, repeated) = TaskSet::new("s", "1", vec![task("a", "x"), task("b", "y"), task("a", "x")]).unwrap();
    assert_eq!((set.len(), repeated), (2, vec![2]));
    let (other, _) = TaskSet::new("s", "2", vec![task("b", "y"), task("a", "x")]).unwrap();
    assert_ne!(set.digest(), other.digest());
    let conflict = TaskSet::new("s", "1", vec![task("a", "x"), task("a", "z")]).unwrap_err();
    assert_eq!(conflict, TaskSetError::Conflict { key: "a".into(), first: 0, second: 1 });
    let unknown = json!({"key": "a", "env": "e", "prompt": "p", "data_id": 7});
    assert_eq!(serde_json::to_value(serde_json::from_value::<Task>(unknown.clone()).unwrap()).unwrap()["data_id"], 7);
}

#[test]
fn seeds_depend_on_their_path_alone() {
    let root = Seed::root(1);
    assert_eq!(root.with("rollout").at(3), Seed::root(1).with("rollout").at(3));
    let others = [
        root.with("rollout").at(4),
        root.with("eval").at(3),
        Seed::root(2).with("rollout").at(3),
        root.at(3).with("rollout"),
    ];
    assert!(others.iter().all(|other| *other != root.with("rollout").at(3)));
    // The stream is part of the format of a run: a change here breaks every resume.
    assert_eq!(Seed::root(1).with("rollout").at(3).rng().next_u64(), 3_289_591_747_469_486_119);
    let mut items: Vec<usize> = (0..50).collect();
    root.rng().shuffle(&mut items);
    assert_ne!(items, (0..50).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..50).collect::<Vec<_>>());
}

#[test]
fn digests_read_back() {
    let digest = Digest::of(b"abc");
    assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(digest.to_string().parse(), Ok(digest));
    assert!("xyz".parse::<Digest>().is_err());
}

fn any_node() -> impl Strategy<Value = Node> {
    (0..3usize, prop::collection::vec(0..9u32, 0..6), prop::collection::vec(-9.0..0.0f32, 6), 0..6u32).prop_map(
        |(kind, tokens, logprobs, split)| match kind {
            0 => Node::observation(tokens),
            1 => Node::forced(tokens),
            _ => {
                let count = tokens.len() as u32;
                let split = split.min(count);
                let record = Sampled {
                    versions: vec![(version(0), split), (version(1), count - split)],
                    logprobs: logprobs[..tokens.len()].to_vec(),
                    sampling_logprobs: None,
                };
                Node::sampled(tokens, record).unwrap()
            }
        },
    )
}

proptest! {
    /// Invariant 1: concatenating the nodes gives exactly the ids handed over, in order, also after a disk trip.
    #[test]
    fn concatenation(prompt in prop::collection::vec(0..9u32, 1..6), nodes in prop::collection::vec(any_node(), 0..8)) {
        let mut builder = TraceBuilder::new(head("t"), prompt.clone());
        let mut ids = prompt;
        for node in &nodes {
            ids.extend_from_slice(node.tokens());
            builder.push(node.clone());
            prop_assert_eq!(&builder.ids(), &ids);
        }
        let trace = builder.finish(Outcome::Finished);
        prop_assert_eq!(trace.tokens().collect::<Vec<_>>(), ids.clone());
        for (at, node) in trace.sampled() {
            prop_assert_eq!(&ids[at..at + node.tokens().len()], node.tokens());
        }
        let read: Trace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
        prop_assert_eq!(read, trace);
    }

    /// A cut node is a node: logprobs and versions still cover its tokens.
    #[test]
    fn cutting(node in any_node(), count in 0..8usize) {
        let cut = node.clone().cut(count);
        prop_assert_eq!(cut.tokens(), &node.tokens()[..count.min(node.tokens().len())]);
        if let Some(record) = cut.as_sampled() {
            prop_assert!(Node::sampled(cut.tokens().to_vec(), record.clone()).is_ok());
        }
    }
}

/// A record that leaves the tools out is refused, and a trace without tools says so: `[]` is not an absent key.
#[test]
fn the_tools_of_a_trace_are_never_optional() {
    // An `Option` here would not compile.
    let of_trace: fn(&Trace) -> &Arc<ToolSet> = Trace::tools;
    assert_eq!(of_trace(&trace("t", &[1])), &tools());
    let toolless = TraceHead { tools: Arc::new(ToolSet::none()), ..head("t") };
    let toolless = TraceBuilder::new(toolless, vec![1]).finish(Outcome::Finished);
    for trace in [trace("t", &[1]), toolless] {
        let record = serde_json::to_value(&trace).unwrap();
        assert_eq!(record["tools"].as_array().map(Vec::len), Some(trace.tools().len()));
        let mut without = record.clone();
        without.as_object_mut().unwrap().remove("tools");
        let mut null = record.clone();
        null["tools"] = Value::Null;
        for broken in [without, null] {
            assert!(serde_json::from_value::<Trace>(broken.clone()).is_err(), "{broken}");
        }
        assert_eq!(serde_json::from_value::<Trace>(record).unwrap(), trace);
    }
}

#[test]
fn a_turn_reads_all_that_came_before_it() {
    let mut builder = TraceBuilder::new(head("t"), vec![1, 2, 3]);
    let sampled = |tokens: Vec<u32>| {
        let logprobs = vec![-0.25; tokens.len()];
        Node::sampled(tokens, Sampled::by(version(0), logprobs)).unwrap()
    };
    builder.push(sampled(vec![4, 5]));
    builder.push(Node::observation(vec![6; 10]));
    builder.push(sampled(vec![7]));
    assert_eq!(builder.finish(Outcome::Finished).usage(), Some(Usage { prompt: 3 + 15, completion: 2 + 1 }));

    // A remote model's ids are unknown: its server's count is used, or nothing if it did not count.
    let remote = |usage: Option<Usage>| {
        let mut builder = TraceBuilder::new(head("t"), Vec::new());
        builder.push(sampled(Vec::new()));
        builder.record(TurnRecord { usage, ..TurnRecord::default() });
        builder.finish(Outcome::Finished).usage()
    };
    let counted = Some(Usage { prompt: 900, completion: 40 });
    assert_eq!((remote(counted), remote(None)), (counted, None));
}
