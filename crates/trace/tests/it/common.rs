//! Records to test with.

use std::sync::Arc;

use hone_trace::{
    Digest, Node, Outcome, PolicyVersion, Sampled, SamplingParams, ToolSet, ToolSpec, Trace, TraceBuilder, TraceHead,
};

pub(crate) fn version(step: u64) -> PolicyVersion {
    PolicyVersion { run: "test".into(), step, weights: Digest::of(&step.to_le_bytes()) }
}

pub(crate) fn tools() -> Arc<ToolSet> {
    let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}});
    Arc::new(ToolSet::new(vec![ToolSpec::new("echo", "Answers its argument", schema)]).unwrap())
}

pub(crate) fn head(task: &str) -> TraceHead {
    TraceHead {
        task: task.into(),
        env: "echo".into(),
        replica: 0,
        seed: 7,
        tools: tools(),
        sampling: SamplingParams::default(),
    }
}

pub(crate) fn trace(task: &str, tokens: &[u32]) -> Trace {
    let mut builder = TraceBuilder::new(head(task), vec![1, 2, 3]);
    let sampled = Sampled::by(version(0), vec![-0.25; tokens.len()]);
    builder.push(Node::sampled(tokens.to_vec(), sampled).unwrap());
    builder.finish(Outcome::Finished)
}
