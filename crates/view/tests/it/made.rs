//! A recorded run to view: six steps of four groups of four, two evaluations, and hostile text.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hone_chat::Tokenizer;
use hone_trace::rundir::RunDir;
use hone_trace::{
    Advantage, Boundary, Digest, Fault, Lesson, Message, NoSignal, Node, Outcome, ParseFailure, ParseFailureKind,
    PolicyVersion, Reward, Sampled, SamplingParams, ToolCall, ToolSet, ToolSpec, Trace, TraceBuilder, TraceHead,
    TurnRecord,
};
use serde_json::{Map, Value, json};

/// Markup, attributes, escapes of terminals, direction marks, a null: as a model may write them.
pub(crate) const HOSTILE: &str = "<script>window.pwned=1</script><img src=x onerror=\"window.pwned=1\">'\"><svg onload=window.pwned=1>\u{1b}[2J\u{1b}[31m\u{202e}drawkcab\u{2066}\0 </pre></style></title>";

pub(crate) const STEPS: u64 = 6;

const RECIPE: &str = "name = \"made\"\nseed = 1\n[train]\nsteps = 6\n[eval]\nsuccess = \"solved\"\n";

/// A run being written: later appends are those of a live run.
pub(crate) struct Made {
    run: RunDir,
    tokenizer: Tokenizer,
}

impl Made {
    pub(crate) fn begin(path: &Path) -> Self {
        let run = RunDir::create(path, RECIPE).unwrap();
        let texts = hone_testdata::committed("tiny-qwen3").join("tokenizer.json");
        let start = path.join("checkpoints/step-00000000");
        fs::create_dir_all(&start).unwrap();
        fs::copy(&texts, start.join("tokenizer.json")).unwrap();
        Self { run, tokenizer: Tokenizer::from_file(&texts).unwrap() }
    }

    /// Six steps between two evaluations.
    pub(crate) fn whole(path: &Path) -> Self {
        let mut made = Self::begin(path);
        made.evaluation(0);
        (1..=STEPS).for_each(|step| made.step(step));
        made.evaluation(STEPS);
        made
    }

    pub(crate) fn step(&mut self, step: u64) {
        let traces: Vec<Trace> = (0..16).map(|at| self.trace(step, at / 4, at % 4, true)).collect();
        let numbers = self.run.traces(&traces).unwrap();
        self.run.event(&json!({"event": "step", "step": step, "traces": [numbers.start, numbers.end]})).unwrap();
        self.run.event(&json!({"event": "checkpoint", "step": step, "best": null})).unwrap();
        let reward = 0.1 * step as f64;
        let line = json!({"step": step, "batch_reward/total": reward, "batch_reward/solved": reward, "reward/success_rate": reward,
            "reward/signal_ratio": 0.5, "reward/parse_failure_rate": 0.1, "reward/parse_failure_rate/malformed_json": 0.1,
            "policy/policy_entropy": 0.3, "policy/policy_kl": null, "tokens/sampled": 320.0, "tokens/trained": 200.0,
            "tokens/zero_advantage": 110.0, "tokens/clipped": 10.0, "timing/sampled_tokens_per_second": 900.0});
        let Value::Object(line) = line else { unreachable!() };
        self.run.metrics(&line).unwrap();
    }

    pub(crate) fn evaluation(&mut self, step: u64) {
        let traces: Vec<Trace> = (0..4).map(|task| self.trace(step, task, 0, false)).collect();
        let numbers = self.run.traces(&traces).unwrap();
        let result =
            json!({"success": 0.25 + 0.1 * step as f64, "ci": [0.1, 0.9], "n": 4, "tasks": 4, "temperature": 0.0});
        self.run.event(&json!({"event": "eval", "step": step, "kind": "greedy", "result": result, "traces": [numbers.start, numbers.end]})).unwrap();
    }

    /// A step of one rollout in which a tool, the agent and a reward each have a one-megabyte line.
    pub(crate) fn long(&mut self, step: u64) {
        let line = "<b>\u{1b}[31m\u{202e}".repeat((1 << 20) / 11);
        let mut trace = self.trace(step, 0, 0, true);
        let messages = [Message::user("find my order"), Message::tool("find", &line), Message::assistant(&line)];
        trace.facts.insert("messages".into(), serde_json::to_value(messages).unwrap());
        trace.rewards.push(Reward::scored("long", 1.0, &line));
        let numbers = self.run.traces(&[trace]).unwrap();
        self.run.event(&json!({"event": "step", "step": step, "traces": [numbers.start, numbers.end]})).unwrap();
        let Value::Object(metrics) = json!({"step": step, "batch_reward/total": 1.0}) else { unreachable!() };
        self.run.metrics(&metrics).unwrap();
    }

    /// Files that `hone data validate` and `hone audit --run` leave beside a run, with hostile names and words in every text.
    pub(crate) fn reports(path: &Path) {
        let tally = json!({"tasks": 3, "kept": 1, "no_op": 0, "rejected": {"flaky_verifier": 1, "too_easy": 1}});
        let finding = |key: &str, reason: &str| json!({"key": key, "env": "shop", "rejected": reason, "detail": HOSTILE, "before": 0.0, "traces": [4, 5]});
        let rejected = [finding("a", "flaky_verifier"), finding(HOSTILE, "too_easy")];
        let data = json!({"all": tally, "environments": {HOSTILE: tally}, "rejected": rejected});
        let line = |at: f64, total: f64| {
            json!({"probe": "filler", "label": HOSTILE, "role": "junk", "tasks": 2, "solved": 0.0,
            "means": {HOSTILE: 0.5, "total": total}, "point": ["confidence_right", at], "advantage": -0.5, "positive": 0.0})
        };
        let audit = json!({"recipe": "made", "tasks": 2, "episodes": 9, "faults": 0, "honest": {"who": HOSTILE, "total": 0.5},
            "components": [{"name": HOSTILE, "weight": 1.0, "oracle": 1.0, "junk": null}],
            "findings": [{"law": "range", "severity": "error", "says": HOSTILE, "lines": [HOSTILE], "repair": "scale it", "consequences": [HOSTILE]}],
            "held": ["floor"], "skipped": [{"law": "precision", "needs": HOSTILE}],
            "worst": {"label": HOSTILE, "text": HOSTILE}, "lines": [line(0.0, 0.25), line(0.5, 1.0)]});
        for (name, report) in [("report.json", data), ("audit.json", audit)] {
            fs::write(path.join(name), report.to_string()).unwrap();
        }
    }

    /// Rollouts 0 and 1 solve their task in late steps; rollout 2 is hostile; the last rollout of group 3 broke, and
    /// group 2 has no signal.
    fn trace(&self, step: u64, group: u64, replica: u64, trains: bool) -> Trace {
        let tool =
            ToolSpec::new("find", "finds", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
        let tools = Arc::new(ToolSet::new(vec![tool]).unwrap());
        let ids = |text: &str| self.tokenizer.encode(text).unwrap();
        let (task, env) = (format!("task-{group}"), "shop".to_owned());
        let sampling = SamplingParams::default();
        let head = TraceHead { task, env, replica: replica as u32, seed: 7, tools, sampling };
        let mut builder = TraceBuilder::new(head, ids("<|im_start|>user\nfind my order<|im_end|>"));
        let solved = group == 2 || (replica < 2 && step > 1);
        let said = if replica == 2 { HOSTILE } else { "Your refund is on its way." };
        let mut messages = vec![Message::system("You are a shop."), Message::user("find my order")];
        let mut sampled = 0;
        let version = PolicyVersion { run: "made".into(), step, weights: Digest::of(b"w") };
        let mut say = |builder: &mut TraceBuilder, text: &str| {
            let tokens = ids(text);
            sampled += tokens.len();
            let logprobs = tokens.iter().enumerate().map(|(at, _)| -0.1 * at as f32).collect();
            builder.push(Node::sampled(tokens, Sampled::by(version.clone(), logprobs)).unwrap());
        };
        if replica != 3 {
            say(&mut builder, "<tool_call>{\"name\": \"find\"}</tool_call>");
            let call = ToolCall::new("find", Map::from_iter([("name".to_owned(), json!("Ada"))]));
            builder.record(TurnRecord { calls: vec![call.clone()], executed: 1, ..TurnRecord::default() });
            builder.push(Node::observation(ids("{\"order\": 7}")));
            messages.extend([Message::calls(vec![call]), Message::tool("find", "{\"order\": 7}")]);
        }
        say(&mut builder, said);
        let failure = (replica == 3).then(|| ParseFailure {
            kind: ParseFailureKind::MalformedJson,
            message: HOSTILE.into(),
            at: 0,
            hint: "write JSON".into(),
        });
        builder.record(TurnRecord { failure: failure.clone(), ..TurnRecord::default() });
        messages.push(Message::assistant(said));
        let outcome = match failure {
            Some(_) if group == 3 => Outcome::Fault { fault: Fault::new(Boundary::Environment, "the shop is closed") },
            Some(failure) => Outcome::Malformed { failure },
            None => Outcome::Finished,
        };
        let mut trace = builder.finish(outcome);
        let value = f64::from(u8::from(solved));
        trace.rewards =
            vec![Reward::scored("solved", value, "the order was found"), Reward::scored("total", value, "sum")];
        trace.facts.insert("messages".into(), serde_json::to_value(messages).unwrap());
        let advantage = match (group, solved) {
            (2, _) => Advantage::None { why: NoSignal::ZeroVariance },
            (_, true) => Advantage::Whole { value: 1.0 },
            (_, false) => Advantage::Whole { value: -1.0 },
        };
        let told = !matches!(advantage, Advantage::None { .. });
        let fates = |at: usize| if at == 0 { 'c' } else { 't' };
        trace.lesson = trains.then(|| Lesson {
            advantage,
            logprobs: if told { vec![-0.25; sampled] } else { Vec::new() },
            entropies: if told { vec![0.5; sampled] } else { Vec::new() },
            fates: if told { (0..sampled).map(fates).collect() } else { String::new() },
        });
        trace
    }
}
