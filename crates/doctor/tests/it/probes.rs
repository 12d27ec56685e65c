//! Probes that are really gathered: an environment with one fault, a chat template with one fault, a sampler that does not
//! follow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use hone_arena::rewards::spec::RubricSpec;
use hone_doctor::probe::Part;
use hone_doctor::{Depth, Diagnosis, Probe, Severity, preflight};
use hone_trace::scripted::Bigrams;
use hone_trace::{
    Action, Arena, Boundary, EndState, Engine, EngineFault, Env, Episode, Fault, Learner, LearnerSpec, Memory, Message,
    PolicyVersion, Sampler, Task, ToolCall, ToolSet, ToolSpec, Turn, Workload,
};
use hone_train::fresh::fresh_policy;
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;
use serde_json::{Value, json};

use crate::preflight::{finds, healthy};

/// What is wrong with a desk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// The dial stays where the last episode left it.
    KeepsState,
    /// One dial for all open episodes.
    SharedDial,
    /// The prompt changes from one opening to the next.
    Unseeded,
    /// Answers count all calls ever made.
    CountsCalls,
    /// A step after the end takes the whole environment down.
    DiesAfterDone,
    /// No action ends an episode.
    NeverDone,
    /// Calls run and are answered with nothing.
    Mute,
    /// The verifier is content with anything.
    AlwaysRight,
    /// The verifier is content with nothing.
    AlwaysWrong,
    /// The verifier does not say.
    NoVerdict,
    /// Tool results come as the user's words.
    AnswersAsUser,
    /// Tool results come as the policy's own words.
    AnswersAsAssistant,
    /// Every call is answered with an error that is not counted as one.
    OnlyErrors,
    /// The verdict has nothing to do with the episode.
    TossesACoin,
    /// The schema asks for another property than the solutions have.
    WrongSchema,
    /// Every call breaks it.
    Crashes,
    /// The first call is its last.
    Lost,
    NoTools,
    BadSchema,
    /// Today's date of this machine is in the system prompt.
    HostDate,
    /// A variable that nobody filled in.
    OpenPlace,
    LongPrompt,
    NeverOpens,
}

#[derive(Debug)]
struct Desk {
    flaw: Flaw,
    dial: Arc<AtomicI64>,
    opened: AtomicU64,
    calls: Arc<AtomicU64>,
    dead: Arc<AtomicI64>,
}

impl Desk {
    fn new(flaw: Flaw) -> Self {
        Self { flaw, dial: Arc::default(), opened: AtomicU64::new(0), calls: Arc::default(), dead: Arc::default() }
    }
}

struct Sitting {
    flaw: Flaw,
    dial: Arc<AtomicI64>,
    calls: Arc<AtomicU64>,
    dead: Arc<AtomicI64>,
    wanted: i64,
    done: bool,
}

#[async_trait]
impl Arena for Desk {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let broken = |what: &str| Err(Fault::new(Boundary::Environment, what));
        if self.flaw == Flaw::NeverOpens {
            return broken("the desk is locked");
        }
        if self.dead.load(Ordering::SeqCst) > 0 {
            return broken("the desk is gone");
        }
        let opened = self.opened.fetch_add(1, Ordering::SeqCst);
        let schema = match self.flaw {
            Flaw::BadSchema => json!({"type": 7}),
            Flaw::WrongSchema => {
                json!({"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]})
            }
            _ => json!({"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}),
        };
        let set = ToolSpec::new("set", "Sets the dial.", schema);
        let tools = if self.flaw == Flaw::NoTools { Vec::new() } else { vec![set] };
        let system = match self.flaw {
            Flaw::Unseeded => format!("You are visitor {opened}."),
            Flaw::HostDate => format!("Today is {}.", hone_chat::template::Clock::host().date()),
            Flaw::OpenPlace => "You speak with {{LOGGED_IN_USER}}.".into(),
            Flaw::LongPrompt => "The rules of the house. ".repeat(2000),
            _ => "You sit at a desk.".into(),
        };
        let dial = match self.flaw {
            Flaw::KeepsState => Arc::clone(&self.dial),
            Flaw::SharedDial => {
                self.dial.store(0, Ordering::SeqCst);
                Arc::clone(&self.dial)
            }
            _ => Arc::default(),
        };
        let sitting = Sitting {
            flaw: self.flaw,
            dial,
            calls: Arc::clone(&self.calls),
            dead: Arc::clone(&self.dead),
            wanted: task.extra["wanted"].as_i64().unwrap(),
            done: false,
        };
        let tools = ToolSet::new(tools).unwrap();
        Ok(Episode { tools, system, first: vec![Message::user(&task.prompt)], env: Box::new(sitting) })
    }
}

#[async_trait]
impl Env for Sitting {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        if self.done {
            if self.flaw == Flaw::DiesAfterDone {
                self.dead.store(1, Ordering::SeqCst);
            }
            return Err(Fault::new(Boundary::Environment, "the episode is over"));
        }
        let Action::Calls(calls) = action else {
            self.done = self.flaw != Flaw::NeverDone;
            return Ok(Turn { messages: vec![Message::user("Go on.")], done: self.done, failed: 0 });
        };
        if self.flaw == Flaw::Lost {
            self.dead.store(1, Ordering::SeqCst);
            return Err(Fault::new(Boundary::Environment, "the connection broke"));
        }
        if self.flaw == Flaw::Crashes {
            return Err(Fault::new(Boundary::Environment, "KeyError: 'value'"));
        }
        let value = calls[0].arguments.get("value").and_then(Value::as_i64).unwrap_or(-1);
        let before = self.dial.swap(value, Ordering::SeqCst);
        let count = self.calls.fetch_add(1, Ordering::SeqCst);
        let said = match self.flaw {
            Flaw::CountsCalls => format!("call {count}: the dial was at {before}"),
            _ => format!("the dial was at {before}"),
        };
        let messages = match self.flaw {
            Flaw::Mute => Vec::new(),
            Flaw::AnswersAsUser => vec![Message::user(said)],
            Flaw::AnswersAsAssistant => vec![Message::assistant(said)],
            Flaw::OnlyErrors => vec![Message::tool("set", "Error: the database is not there")],
            _ => vec![Message::tool("set", said)],
        };
        Ok(Turn { messages, ..Turn::default() })
    }

    fn end(&mut self) -> EndState {
        let right = match self.flaw {
            Flaw::AlwaysRight => true,
            Flaw::AlwaysWrong => false,
            Flaw::TossesACoin => self.calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(3),
            _ => self.dial.load(Ordering::SeqCst) == self.wanted,
        };
        let mut facts = serde_json::Map::new();
        if self.flaw != Flaw::NoVerdict {
            facts.insert("correct".into(), json!(right));
        }
        EndState { facts }
    }
}

const RECIPE: &str = r#"
name = "desk"
[env]
tasks = 64
held_out = 16
[sampling]
max_new_tokens = 16
[rollout]
window = 2048
max_turns = 3
backoff_s = 0.0
[[rubric.component]]
kind = "correct"
[train]
groups = 4
group_size = 4
[eval]
tasks = 16
"#;

pub(crate) fn model() -> &'static Path {
    static MODEL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = MODEL.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let make = move || {
            let recipe = Recipe::parse(RECIPE, &[]).unwrap();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(fresh_policy(&recipe, &Bigrams::ABLE, &path)).unwrap();
        };
        // Tests run on runtimes of their own; this one is made outside of them.
        std::thread::spawn(make).join().unwrap();
        dir
    });
    made.path()
}

pub(crate) fn recipe(model: &Path) -> Recipe {
    let mut recipe = Recipe::parse(RECIPE, &[]).unwrap();
    recipe.policy.model = Some(model.to_owned());
    recipe
}

pub(crate) fn task(number: i64, split: &str) -> Task {
    let mut task =
        Task::new(format!("{split}-{number}"), "desk", format!("Set the dial to {number}, please ({split})."));
    let arguments = json!({"value": number}).as_object().cloned().unwrap();
    task.reference = Some(vec![ToolCall::new("set", arguments)]);
    task.extra.insert("wanted".into(), json!(number));
    task
}

fn desk(flaw: Flaw) -> Probe {
    probe_of(|| Arc::new(Desk::new(flaw)))
}

/// A probe of an environment, with the policy's parts of a healthy probe: a table of bigrams cannot sit at a desk.
pub(crate) fn probe_of(arena: impl FnOnce() -> Arc<dyn Arena>) -> Probe {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recipe = recipe(model());
    let gathered = runtime.block_on(async {
        let mut setup = Setup::open(&recipe, &Bigrams::ABLE).await.unwrap();
        setup.arena = arena();
        setup.tasks = (1..=64).map(|number| task(number, "train")).collect();
        setup.held_out = (100..116).map(|number| task(number, "held-out")).collect();
        setup.rubric = Arc::new(RubricSpec::single("correct", serde_json::Map::new()).build().unwrap());
        Probe::of_setup(&setup, &recipe, BTreeSet::new(), Depth::Played).await
    });
    let Probe { played, identity, .. } = healthy();
    let mut recipe = gathered.recipe;
    // The healthy episodes were paid by another rubric.
    recipe.eval.success = "tau_state".into();
    Probe { recipe, played, identity, ..gathered }
}

#[test]
fn a_desk_without_a_flaw() {
    let diagnosis = preflight(&desk(Flaw::None)).unwrap();
    assert!(!diagnosis.has_errors(), "{diagnosis:#?}");
    for check in
        ["determinism", "isolation", "kept_state", "reference_fails", "do_nothing", "after_done", "call_format"]
    {
        assert!(diagnosis.healthy.contains(&check), "{check}: {diagnosis:#?}");
    }
}

#[test]
fn every_flaw_of_a_desk_is_named() {
    for (flaw, check, severity) in [
        (Flaw::KeepsState, "kept_state", Severity::Error),
        (Flaw::SharedDial, "isolation", Severity::Error),
        (Flaw::Unseeded, "determinism", Severity::Error),
        (Flaw::CountsCalls, "determinism", Severity::Warning),
        (Flaw::DiesAfterDone, "after_done", Severity::Error),
        (Flaw::NeverDone, "never_done", Severity::Error),
        (Flaw::Mute, "unanswered_calls", Severity::Error),
        (Flaw::AlwaysRight, "do_nothing", Severity::Error),
        (Flaw::AlwaysWrong, "reference_fails", Severity::Error),
        (Flaw::Crashes, "script_faults", Severity::Error),
        (Flaw::NoTools, "tool_schemas", Severity::Error),
        (Flaw::BadSchema, "tool_schemas", Severity::Error),
        (Flaw::HostDate, "host_date", Severity::Warning),
        (Flaw::OpenPlace, "placeholders", Severity::Warning),
        (Flaw::LongPrompt, "context", Severity::Error),
        (Flaw::NeverOpens, "environment_opens", Severity::Error),
        (Flaw::AnswersAsUser, "answer_roles", Severity::Error),
        (Flaw::AnswersAsAssistant, "answer_roles", Severity::Error),
        (Flaw::OnlyErrors, "failed_answers", Severity::Error),
        (Flaw::TossesACoin, "determinism", Severity::Error),
        (Flaw::WrongSchema, "tool_schemas", Severity::Error),
    ] {
        let probe = desk(flaw);
        let diagnosis = preflight(&probe).unwrap();
        assert!(diagnosis.found(check).is_some(), "{flaw:?}: {diagnosis:#?}");
        finds(&probe, check, severity);
    }
}

/// Scripts find out, and nothing else is played: rollouts would wait for it with all their patience.
#[test]
fn a_desk_that_is_lost_on_the_way() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recipe = recipe(model());
    let probe = runtime.block_on(async {
        let mut setup = Setup::open(&recipe, &Bigrams::ABLE).await.unwrap();
        setup.arena = Arc::new(Desk::new(Flaw::Lost));
        setup.tasks = (1..=64).map(|number| task(number, "train")).collect();
        Probe::of_setup(&setup, &recipe, BTreeSet::new(), Depth::Played).await
    });
    let diagnosis = finds(&probe, "script_faults", Severity::Error);
    let lines = &diagnosis.found("script_faults").unwrap().finding.evidence.lines;
    assert!(lines[0].contains("the connection broke") && lines[1].contains("afterwards no episode opens"), "{lines:?}");
    let needs = &diagnosis.skipped.iter().find(|skipped| skipped.check == "faulted").unwrap().needs;
    assert!(needs.contains("the desk is gone"), "{needs}");
}

/// The environment leaves out what the reward needs.
#[test]
fn a_desk_without_a_verdict() {
    let mut probe = desk(Flaw::NoVerdict);
    probe.recipe.eval.success = "correct".into();
    probe.played = Part::Left;
    let diagnosis = finds(&probe, "unscored", Severity::Error);
    assert!(diagnosis.found("unscored").unwrap().finding.evidence.lines[0].contains("correct"));
}

/// The model directory with another chat template.
fn with_template(change: impl Fn(&str) -> String) -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(model()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = scratch.path().join("chat_template.jinja");
    let source = if file.exists() { std::fs::read_to_string(&file).unwrap() } else { hone_chat::CHATML.to_owned() };
    std::fs::write(&file, change(&source)).unwrap();
    let path = scratch.path().to_owned();
    (scratch, path)
}

fn diagnose_template(change: impl Fn(&str) -> String) -> Diagnosis {
    let (_scratch, path) = with_template(change);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recipe = {
        let mut recipe = recipe(&path);
        recipe.env = Recipe::parse(RECIPE, &["env.name=shop".into()]).unwrap().env;
        recipe
    };
    let probe = runtime.block_on(Probe::of_recipe(&recipe, BTreeSet::new(), &Bigrams::ABLE));
    // A table of bigrams earns nothing: its own faults are not the template's.
    let Probe { played, identity, .. } = healthy();
    preflight(&Probe { played, identity, ..probe }).unwrap()
}

#[track_caller]
fn only_error(diagnosis: &Diagnosis, check: &str) {
    let errors: Vec<&str> =
        diagnosis.findings.iter().filter(|n| n.finding.severity == Severity::Error).map(|n| n.check).collect();
    assert_eq!(errors, [check], "{diagnosis:#?}");
}

#[test]
fn templates_with_one_fault() {
    let no_tools =
        |source: &str| source.replace("{{- tool | tojson + '\\n' }}", "").replace("{%- if tools %}", "{%- if false %}");
    only_error(&diagnose_template(no_tools), "tools_in_prompt");
    let no_results =
        |source: &str| source.replace("{{- '<tool_response>\\n' + message.content + '\\n</tool_response>' }}", "");
    only_error(&diagnose_template(no_results), "tool_results");
    let last_only = |source: &str| source.replace("(messages[1:] if has_system else messages)", "messages[-1:]");
    let diagnosis = diagnose_template(last_only);
    only_error(&diagnosis, "append_only");
    let no_calls = |source: &str| source.replace("message.tool_calls or []", "[]");
    only_error(&diagnose_template(no_calls), "call_format");
    let broken = |source: &str| format!("{source}{{{{ messages | nosuchfilter }}}}");
    let diagnosis = diagnose_template(broken);
    assert!(diagnosis.has_errors(), "{diagnosis:#?}");
}

#[test]
fn templates_with_a_date_and_without_reasoning() {
    let dated = |source: &str| source.replace("{{- '# Tools", "{{- strftime_now('%Y-%m-%d') + '# Tools");
    let diagnosis = diagnose_template(dated);
    assert!(diagnosis.found("host_date").is_some(), "{diagnosis:#?}");
    let stripped = |source: &str| {
        source.replace("{%- if message.reasoning_content %}", "{%- if message.reasoning_content and loop.last %}")
    };
    let diagnosis = diagnose_template(stripped);
    assert!(diagnosis.found("reasoning_stripped").is_some(), "{diagnosis:#?}");
}

/// An engine whose sampler serves the start for ever: adapters that are skipped at the weight sync.
struct Stuck {
    inner: Arc<dyn Engine>,
    start: Arc<dyn Sampler>,
}

#[async_trait]
impl Engine for Stuck {
    fn sampler(&self) -> Arc<dyn Sampler> {
        Arc::clone(&self.start)
    }
    fn version(&self) -> PolicyVersion {
        self.inner.version()
    }
    async fn learner(&self, spec: &LearnerSpec) -> Result<Box<dyn Learner>, EngineFault> {
        self.inner.learner(spec).await
    }
    async fn sampler_of(&self, dir: &Path) -> Result<Arc<dyn Sampler>, EngineFault> {
        self.inner.sampler_of(dir).await
    }
    fn vocabulary(&self) -> usize {
        self.inner.vocabulary()
    }
    fn memory(&self, work: &Workload) -> Option<Memory> {
        self.inner.memory(work)
    }
    async fn export(&self, dir: &Path) -> Result<(), EngineFault> {
        self.inner.export(dir).await
    }
}

/// The identity of an engine, in an otherwise healthy probe.
fn identity(stuck: bool) -> Probe {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let recipe = recipe(model());
    let gathered = runtime.block_on(async {
        let mut setup = Setup::open(&recipe, &Bigrams::ABLE).await.unwrap();
        if stuck {
            let start = setup.engine.sampler_of(model()).await.unwrap();
            setup.engine = Arc::new(Stuck { inner: Arc::clone(&setup.engine), start });
        }
        Probe::of_setup(&setup, &recipe, BTreeSet::new(), Depth::Played).await
    });
    Probe { identity: gathered.identity, ..healthy() }
}

#[test]
fn a_sampler_that_follows_and_one_that_does_not() {
    let follows = identity(false);
    let diagnosis = preflight(&follows).unwrap();
    assert!(diagnosis.healthy.contains(&"sampler_follows"), "{diagnosis:#?}");
    assert!(diagnosis.healthy.contains(&"logprob_mismatch"), "{diagnosis:#?}");
    let update = follows.identity.known().unwrap().update.known().unwrap();
    assert!(update.moved > 0.0 && update.restored == 0.0, "{update:?}");
    finds(&identity(true), "sampler_follows", Severity::Error);
}
