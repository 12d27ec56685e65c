//! A record written as a run directory, for the doctor, the audit and every other reader.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hone_arena::rewards::TOTAL;
use hone_trace::Credit as _;
use hone_trace::rundir::RunDir;
use hone_trace::{
    Advantage, Boundary, Digest, Fault, Group, Lesson, Limit, Node, Outcome, PolicyVersion, Reward, Sampled,
    SamplingParams, ToolSet, Trace, TraceBuilder, TraceHead, TurnRecord,
};
use hone_train::credit::{Grpo, Scale, Weights};
use hone_train::events::Event;
use hone_train::ledger::{Scheme, credited, names};
use hone_train::recipe::Recipe;
use serde_json::{Map, Value, json};

use crate::ForeignError;
use crate::record::{Curve, Episode, Record};

/// Writes the record into `directory` as a run. Episodes have no tokens, because none were recorded.
pub fn write_run(record: &Record, directory: &Path) -> Result<(), ForeignError> {
    let recipe = recipe(record)?;
    let mut run = RunDir::create(directory, &recipe.to_toml()?)?;
    let scheme = Scheme {
        weights: record.components.clone(),
        success: recipe.eval.success.clone(),
        normalised: false,
        arguments: Vec::new(),
    };
    for step in record.steps() {
        let mut groups: BTreeMap<&str, Vec<Trace>> = BTreeMap::new();
        for episode in record.episodes.iter().filter(|episode| episode.step == step) {
            let group = groups.entry(&episode.group).or_default();
            group.push(trace(record, episode, group.len() as u32)?);
        }
        let traces: Vec<Trace> = groups.values().flatten().cloned().collect();
        let mut line = Map::from_iter([("step".to_owned(), step.into())]);
        if !traces.is_empty() {
            let numbers = run.traces(&traces)?;
            run.event(&Event::Step { step, traces: [numbers.start, numbers.end] })?;
            line.extend(earned(groups.into_values().map(Group::new).collect(), &scheme));
        }
        if record.not_finite.contains(&step) {
            line.insert(names::POLICY_SKIPPED_STEPS.name.to_owned(), json!(1));
        }
        for (curve, value) in record.curves.get(&step).into_iter().flatten() {
            line.insert(name(*curve), json!(value));
        }
        run.metrics(&line)?;
    }
    run.sync()?;
    Ok(())
}

/// Metrics of rewards, as our own ledger computes them. Token and turn counts are not available.
fn earned(groups: Vec<Group>, scheme: &Scheme) -> Vec<(String, Value)> {
    let credit = Grpo::new(Weights::only(TOTAL), Scale::Group);
    let metrics = credited(&groups, &credit.credit(&groups), scheme);
    let faults = groups.iter().map(|group| group.faulted().len()).sum::<usize>();
    let all = groups.iter().map(|group| group.all().count()).sum::<usize>();
    let kept =
        metrics.iter().filter(|(name, _)| is_of_rewards(name)).map(|(name, value)| (name.to_owned(), json!(value)));
    kept.chain([
        (names::ROLLOUTS_FAULTED.name.to_owned(), json!(faults)),
        (names::ROLLOUTS_TOTAL.name.to_owned(), json!(all)),
    ])
    .collect()
}

/// True for metrics that rewards alone determine. Replies are not recorded as calls, so how many parse is not known.
fn is_of_rewards(name: &str) -> bool {
    let of_parsing =
        [names::REWARD_PARSE_FAILURE_RATE, names::REWARD_REPAIRED_RATE].iter().any(|rate| rate.name == name)
            || names::REWARD_PARSE_FAILURE_RATE_KIND.part(name).is_some();
    matches!(name.split_once('/'), Some(("reward" | "batch_reward", _))) && !of_parsing
}

fn name(curve: Curve) -> String {
    match curve {
        Curve::Loss => names::POLICY_POLICY_LOSS,
        Curve::GradNorm => names::POLICY_GRAD_NORM,
        Curve::Entropy => names::POLICY_POLICY_ENTROPY,
        Curve::Kl => names::POLICY_POLICY_KL,
        Curve::LearningRate => names::POLICY_POLICY_LR,
        Curve::Reward => names::REWARD_AVG_RAW_REWARD,
        Curve::CompletionLength => names::GENERATE_AVG_NUM_TOKENS,
        Curve::ClipRatio => names::POLICY_LOSS_METRICS_CLIP_RATIO,
    }
    .name
    .to_owned()
}

/// A recipe with the components' names and weights. It cannot train: its components are the record's, not ours.
fn recipe(record: &Record) -> Result<Recipe, ForeignError> {
    let mut components = record.components.clone();
    if components.iter().all(|(_, weight)| *weight <= 0.0) {
        components.push(("reward".to_owned(), 1.0));
    }
    let table = |(name, weight): &(String, f64)| json!({"kind": "correct", "name": name, "weight": weight.max(0.0)});
    let groups: std::collections::BTreeSet<(u64, &str)> =
        record.episodes.iter().map(|episode| (episode.step, episode.group.as_str())).collect();
    let steps = record.steps().len().max(1);
    let form = json!({
        "name": record.format,
        "credit": "grpo",
        "rubric": {"component": components.iter().map(table).collect::<Vec<_>>()},
        "train": {
            "groups": (groups.len() / steps).clamp(1, 2048),
            "group_size": record.group_size().max(2),
            "steps": steps,
        },
    });
    let text = toml::to_string(&form).unwrap_or_default();
    Ok(Recipe::parse(&text, &[])?)
}

/// An episode as a trace without tokens.
fn trace(record: &Record, episode: &Episode, replica: u32) -> Result<Trace, ForeignError> {
    let head = TraceHead {
        task: short(&episode.group),
        env: record.format.to_owned(),
        replica,
        seed: u64::from(replica),
        tools: Arc::new(ToolSet::none()),
        sampling: SamplingParams::default(),
    };
    let version = PolicyVersion { run: record.format.into(), step: episode.step, weights: Digest::of(b"not recorded") };
    let mut builder = TraceBuilder::new(head, Vec::new());
    let node = Node::sampled(Vec::new(), Sampled::by(version, Vec::new())).map_err(|error| ForeignError::Bad {
        path: record.format.into(),
        line: None,
        what: error.to_string(),
    })?;
    builder.push(node);
    builder.record(TurnRecord::default());
    let outcome = match (&episode.fault, episode.truncated) {
        (Some(what), _) => Outcome::Fault { fault: Fault::new(Boundary::Environment, what.clone()) },
        (None, true) => Outcome::Truncated { limit: Limit::ReplyTokens },
        (None, false) => Outcome::Finished,
    };
    let mut trace = builder.finish(outcome);
    let value = |name: &str, value: Option<f64>| match value {
        Some(value) => Reward::scored(name, value, "recorded"),
        None => Reward::unscored(name, "the record has no value"),
    };
    trace.rewards = record.components.iter().map(|(name, _)| value(name, episode.rewards.get(name).copied())).collect();
    trace.rewards.push(value(TOTAL, episode.total));
    trace.lesson = episode.advantage.map(|value| Lesson {
        advantage: Advantage::Whole { value },
        logprobs: Vec::new(),
        entropies: Vec::new(),
        fates: String::new(),
    });
    for (key, text) in [("question", &episode.prompt), ("completion", &episode.completion)] {
        trace.facts.extend(text.clone().map(|text| (key.to_owned(), Value::from(text))));
    }
    trace.facts.extend(episode.messages.clone().map(|messages| ("messages".to_owned(), Value::from(messages))));
    Ok(trace)
}

/// A prompt as a task's key: its beginning and a digest of the whole.
fn short(group: &str) -> String {
    if group.len() <= 48 {
        return group.to_owned();
    }
    format!("{}… {}", &group[..group.floor_char_boundary(40)], Digest::of(group.as_bytes()).short())
}
