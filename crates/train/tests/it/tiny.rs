//! A policy small enough to train in a test, and a reward that even random tokens earn some of.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::executor::block_on;
use hone_arena::rewards::{Case, Measure, Rubric, Term};
use hone_trace::rundir::RunReader;
use hone_trace::{Digest, EngineKind, FreshSpec, Trace, Verdict};
use hone_train::evaluate::Measured;
use hone_train::fresh::fresh_policy;
use hone_train::ledger::Ledger;
use hone_train::recipe::Recipe;
use hone_train::run::Watch;
use hone_train::setup::Setup;
use serde_json::{Map, Value};

use crate::engine;

pub(crate) const RECIPE: &str = r#"
name = "tiny"
seed = 3
loss = "dapo"
[policy]
threads = 1
[env]
tasks = 12
held_out = 4
[sampling]
max_new_tokens = 8
[rollout]
window = 1024
max_turns = 2
backoff_s = 0.0
[[rubric.component]]
kind = "tau_state"
# The tests put rubrics of their own in its place.
name = "even"
[train]
steps = 3
groups = 3
group_size = 3
mini_batch = 4
learning_rate = 3e-3
[sft]
steps = 3
batch = 2
warmup = 1
[eval]
tasks = 2
every = 2
"#;

pub(crate) struct Silent;
impl Watch for Silent {}

/// The recipe with settings over it, and a policy of some tens of thousands of parameters.
pub(crate) fn recipe(settings: &[&str]) -> Recipe {
    let settings: Vec<String> = engine::SETTINGS.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
    let mut recipe = Recipe::parse(RECIPE, &settings).unwrap();
    recipe.policy.model = Some(policy().to_owned());
    recipe
}

/// Its directory, made once.
fn policy() -> &'static Path {
    static POLICY: OnceLock<tempfile::TempDir> = OnceLock::new();
    POLICY
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let recipe = Recipe::parse(RECIPE, &[]).unwrap();
            // Each test has its own runtime; this one is created outside of them.
            let path = dir.path().to_owned();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(fresh_policy(&recipe, &engine::KIND, &path)).unwrap();
            })
            .join()
            .unwrap();
            model(dir.path(), 5, dir.path());
            dir
        })
        .path()
}

/// Writes a small model for the tokenizer in `texts`.
pub(crate) fn model(texts: &Path, seed: u64, dir: &Path) {
    let config = engine::config(texts);
    block_on(engine::KIND.fresh(&FreshSpec { config: &config, seed, threads: 1, dir })).unwrap();
}

/// Digests of a run's final weights and optimizer state.
pub(crate) fn trained(run: &Path) -> Vec<Digest> {
    let (_, checkpoint) = RunReader::open(run).unwrap().checkpoints().unwrap().pop().unwrap();
    engine::state(&checkpoint).iter().map(|bytes| Digest::of(bytes)).collect()
}

/// The share of even ids among the sampled ones: every policy earns some, and can learn to earn more.
pub(crate) struct Even;

impl Measure for Even {
    fn measure(&self, case: &Case) -> Verdict {
        let tokens = case.tokens.as_deref().unwrap_or_default();
        let even = tokens.iter().filter(|token| token.is_multiple_of(2)).count();
        Verdict::scored(even as f64 / tokens.len().max(1) as f64, "even ids")
    }
}

/// The recipe's setup, paid for even ids.
pub(crate) fn setup(recipe: &Recipe) -> Setup {
    paid_for(recipe, Even)
}

pub(crate) fn paid_for(recipe: &Recipe, component: impl hone_arena::rewards::Component + 'static) -> Setup {
    opened(recipe, &engine::KIND, component)
}

pub(crate) fn opened(
    recipe: &Recipe,
    kind: &dyn EngineKind,
    component: impl hone_arena::rewards::Component + 'static,
) -> Setup {
    let mut setup = block_on(Setup::open(recipe, kind)).unwrap();
    setup.rubric = Arc::new(Rubric::new(vec![Term::new("even", 1.0, component)], vec![]).unwrap());
    setup
}

/// The metrics of a run without the wall clock's.
pub(crate) fn timeless(run: &Path) -> Vec<Map<String, Value>> {
    let metrics = RunReader::open(run).unwrap().metrics().unwrap().records;
    let timeless = |record: &Map<String, Value>| {
        record.iter().filter(|(name, _)| !name.starts_with("timing/")).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    metrics.iter().map(timeless).collect()
}

/// The traces of a run without the wall clock's.
pub(crate) fn traces(run: &Path) -> Vec<Trace> {
    let clockless = |trace: Result<Trace, _>| {
        let mut trace = trace.unwrap();
        trace.turns.iter_mut().for_each(|turn| turn.timings = hone_trace::Timings::default());
        trace
    };
    RunReader::open(run).unwrap().traces().unwrap().iter().map(clockless).collect()
}

/// Copies the run's directory at every callback, as a kill at that moment would leave it.
pub(crate) struct Copies {
    pub run: PathBuf,
    pub into: PathBuf,
    pub taken: Vec<PathBuf>,
}

impl Copies {
    pub(crate) fn new(run: &Path, into: &Path) -> Self {
        Self { run: run.into(), into: into.into(), taken: Vec::new() }
    }

    fn take(&mut self) {
        let to = self.into.join(format!("copy-{}", self.taken.len()));
        copy(&self.run, &to);
        self.taken.push(to);
    }
}

impl Watch for Copies {
    fn evaluated(&mut self, _step: u64, _measured: &Measured) {
        self.take();
    }

    fn stepped(&mut self, _ledger: &Ledger) {
        self.take();
    }
}

/// A copy of a run, as a kill at this moment would leave it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path).unwrap(), &target).unwrap();
        } else if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
