//! Sharpening distinguished from learning, on a policy with scaled logits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hone_arena::rewards::{Case, Measure};
use hone_trace::rundir::RunDir;
use hone_trace::{Trace, Verdict as Scored};
use hone_train::evaluate::{ControlKind, Controls, Decoding, Kind, Measured, Sharpening, Verdict, count, play};
use hone_train::events::Event;
use hone_train::recipe::Recipe;
use hone_train::report::RunReport;
use hone_train::setup::Setup;

use crate::evaluation::task_of;
use crate::tiny::{copy, paid_for, recipe};

/// The policy's directory with its last norm scaled: the same ranking of tokens, with more or less confidence.
fn with_norm(from: &Path, to: PathBuf, factor: f32) -> PathBuf {
    copy(from, &to);
    let file = to.join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let table: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let [first, last] = [0, 1].map(|end| table["model.norm.weight"]["data_offsets"][end].as_u64().unwrap() as usize);
    for number in bytes[header + first..header + last].chunks_exact_mut(4) {
        let value = f32::from_le_bytes(number.try_into().unwrap()) * factor;
        number.copy_from_slice(&value.to_le_bytes());
    }
    std::fs::write(file, bytes).unwrap();
    to
}

/// Succeeds if the policy says what the start says greedily.
#[derive(Clone, Default)]
struct Likeliest(Arc<Mutex<HashMap<String, Vec<u32>>>>);

impl Measure for Likeliest {
    fn measure(&self, case: &Case) -> Scored {
        let known = self.0.lock().unwrap().get(&task_of(case)).cloned();
        let same = known.is_some() && known == case.tokens;
        Scored::scored(f64::from(u8::from(same)), "")
    }
}

async fn measured(setup: &Setup, recipe: &Recipe, run: &mut RunDir, step: u64) -> Measured {
    let mut results = Vec::new();
    for kind in [Kind::Greedy, Kind::Sampled] {
        let traces = play(setup, recipe, setup.engine.sampler(), kind.decoding(recipe)).await;
        let numbers = run.traces(&traces).unwrap();
        let event = Event::Eval { step, kind, result: None, traces: [numbers.start, numbers.end] };
        run.event(&event).unwrap();
        results.push(count(&traces, &recipe.eval.success).evaluation);
    }
    let sampled = results.pop().unwrap();
    Measured { greedy: results.pop().unwrap(), sampled }
}

/// The broken twin of learning: logits multiplied by 11 over 8. Sampled success rises, and nothing was learned.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_only_sharpened_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let sized = ["env.held_out=64", "eval.tasks=64", "sampling.max_new_tokens=1", "rollout.max_turns=1"];
    let base = recipe(&sized);
    let model = base.policy.model.clone().unwrap();
    let policy = |name: &str, factor: f32| Recipe {
        policy: hone_train::recipe::PolicyRecipe {
            model: Some(with_norm(&model, directory.path().join(name), factor)),
            ..base.policy.clone()
        },
        ..base.clone()
    };
    let (begin, end) = (policy("begin", 8.0), policy("end", 11.0));
    let likeliest = Likeliest::default();
    let (start, sharpened) = (paid_for(&begin, likeliest.clone()), paid_for(&end, likeliest.clone()));
    let greedy = play(&start, &begin, start.engine.sampler(), Decoding::greedy(&begin.eval)).await;
    let said = |trace: &Trace| trace.sampled().flat_map(|(_, node)| node.tokens().to_vec()).collect::<Vec<u32>>();
    likeliest.0.lock().unwrap().extend(greedy.iter().map(|trace| (trace.task.clone(), said(trace))));

    let path = directory.path().join("run");
    let mut run = RunDir::create(&path, &begin.to_toml().unwrap()).unwrap();
    let before = measured(&start, &begin, &mut run, 0).await;
    let after = measured(&sharpened, &begin, &mut run, 3).await;
    let (recipe, step) = (&begin, 3);
    let mut controls = Controls { setup: &sharpened, recipe, start: start.engine.sampler(), run: &mut run, step };
    assert_eq!(controls.play(&before, &after).await.unwrap(), Sharpening::Found);

    let held_out = RunReport::read(&path).unwrap().held_out;
    let judgement = held_out.judgement.unwrap();
    assert_eq!((before.greedy.success, after.greedy.success), (Some(1.0), Some(1.0)));
    assert!(judgement.sampled.mean > 0.2, "sampled, it looks like learning: {judgement:?}");
    assert_eq!(judgement.verdict, Verdict::Confident, "{judgement:?}");
    let matched = held_out.controls.iter().find(|control| control.kind == ControlKind::Sharpened).unwrap();
    let (wanted, found) = (after.sampled.entropy.unwrap(), matched.result.entropy.unwrap());
    assert!((found / wanted - 1.0).abs() < 0.15, "entropy {found} for {wanted}");
    assert!((matched.result.temperature - 8.0 / 11.0).abs() < 0.1, "{}", matched.result.temperature);
    let gain = held_out.gain.unwrap();
    assert!(gain.difference.ci[0] < 0.0, "no gain over the best control: {gain:?}");
}
