//! Features that only the native engine has: threads, adapters, a limit on memory.

use std::sync::Arc;

use hone_engine::{Adapter, Cpu, Model, Snapshot};
use hone_trace::rundir::RunReader;
use hone_train::run::{recorded_recipe, resume, train};
use hone_train::setup::Setup;

use crate::engine::KIND;
use crate::tiny::{Copies, Silent, recipe, setup, timeless, traces, trained};

/// A run that moves to a machine with another number of cores: prompts that share a system prompt are one tree, whose
/// attention is divided more finely for more threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_resumed_on_other_threads_gives_the_same_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["policy.threads=1", "train.steps=3", "train.mini_batch=9", "eval.every=0"]);
    let mut copies = Copies::new(&run, directory.path());
    train(&setup(&recipe), &recipe, &run, &mut copies).await.unwrap();
    for (copy, threads) in copies.taken.iter().zip([2, 8, 3, 2]) {
        let mut moved = recorded_recipe(copy).unwrap();
        moved.policy.threads = threads;
        resume(&setup(&moved), &moved, copy, &mut Silent).await.unwrap();
        assert_eq!(timeless(copy), timeless(&run), "{threads} threads, {}", copy.display());
        assert_eq!(traces(copy), traces(&run), "{threads} threads, {}", copy.display());
        assert_eq!(trained(copy), trained(&run), "{threads} threads, {}", copy.display());
    }
}

/// A run that trains an adapter: checkpoints hold the adapter in PEFT's form, the base is unchanged and serves as the
/// reference.
#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_is_trained_checkpointed_and_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let lora = "policy.lora={ rank = 4, target_modules = [\"q_proj\", \"down_proj\"] }";
    let recipe = recipe(&[lora, "kl_reward={ coefficient = 0.01 }", "train.steps=2", "eval.every=0"]);
    let mut copies = Copies::new(&run, directory.path());
    let setup_whole = setup(&recipe);
    train(&setup_whole, &recipe, &run, &mut copies).await.unwrap();
    let (_, checkpoint) = RunReader::open(&run).unwrap().checkpoints().unwrap().pop().unwrap();
    let base = Model::load(recipe.policy.model.as_ref().unwrap(), Arc::new(Cpu::new(1).unwrap())).unwrap();
    let adapter = Adapter::load(&base, &checkpoint).unwrap();
    let served = setup_whole.engine.version().weights;
    assert_eq!(Snapshot::new(base, Some(adapter), "tiny").version.weights, served, "the base is what it was");
    assert!(checkpoint.join("adapter_config.json").is_file() && !checkpoint.join("model.safetensors").exists());
    assert!(timeless(&run)[1]["loss/avg_kl"].as_f64().unwrap() > 0.0, "the adapter has moved");
    for copy in &copies.taken {
        let recipe = recorded_recipe(copy).unwrap();
        resume(&setup(&recipe), &recipe, copy, &mut Silent).await.unwrap();
        assert_eq!(timeless(copy), timeless(&run));
    }
    let wrong = crate::tiny::recipe(&["policy.lora={ rank = 4, target_modules = [\"q_prj\"] }"]);
    let error = Setup::open(&wrong, &KIND).await.unwrap_err().to_string();
    assert!(error.contains("did you mean \"q_proj\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_memory_than_there_is_is_refused_with_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.activation_mb=1"]);
    let error = train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap_err().to_string();
    assert!(error.contains("may use 1 MB") && error.contains("train.batch_tokens of at most"), "{error}");
    assert_eq!(traces(&run).len(), 4, "the evaluation before it is recorded");
    assert_eq!(RunReader::open(&run).unwrap().checkpoints().unwrap().len(), 1, "and so is the beginning");
}
