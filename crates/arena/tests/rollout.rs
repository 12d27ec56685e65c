//! The rollout driver against scripted policies and environments that break in every way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::rollout::{CRASH, CallMode, DEFUSED, OnMalformed, OnRepair, RolloutSettings, Rollouts, Slot};
use hone_chat::{ModelDir, RenderSettings, Renderer, train_tokenizer};
use hone_trace::scripted::EchoArena;
use hone_trace::{
    Action, Arena, Boundary, Digest, EndState, Env, Episode, Fault, Limit, Message, Node, Origin, Outcome,
    ParseFailureKind, PolicyVersion, Sample, SampleFault, SampleRequest, Sampled, Sampler, SamplingParams, Seed,
    StopReason, Task, Trace, Turn,
};

/// Replies with its lines in order, as a model would: ids that end with the end of turn. Keeps every prompt it was
/// given.
struct Actor {
    renderer: Renderer,
    lines: Mutex<VecDeque<Line>>,
    prompts: Mutex<Vec<Vec<u32>>>,
}

enum Line {
    Says(String),
    /// Hits the limit on new tokens.
    Rambles,
    Fails {
        transient: bool,
    },
    Hangs,
}

#[async_trait]
impl Sampler for Actor {
    async fn sample(&self, request: SampleRequest) -> Result<Sample, SampleFault> {
        self.prompts.lock().unwrap().push(request.prompt.clone());
        let line = self.lines.lock().unwrap().pop_front().unwrap();
        let (tokens, stop) = match line {
            Line::Says(text) => (self.renderer.tokenizer().encode(&text).unwrap(), StopReason::StopId),
            Line::Rambles => (vec![70; request.params.max_new_tokens as usize], StopReason::Length),
            Line::Fails { transient } => return Err(SampleFault::Failed { what: "down".into(), transient }),
            Line::Hangs => std::future::pending().await,
        };
        let version = PolicyVersion { run: "test".into(), step: 0, weights: Digest::of(b"w") };
        Ok(Sample { sampled: Sampled::by(version, vec![-0.5; tokens.len()]), tokens, stop })
    }
}

fn renderer() -> Renderer {
    let directory = tempfile::tempdir().unwrap();
    let text = "You are a helpful echo. Answers its argument. <tool_call> {\"name\": \"echo\", \"arguments\": {\"text\": \"hi\"}}";
    train_tokenizer([text.repeat(20)], 400, &[]).unwrap().write(directory.path()).unwrap();
    Renderer::new(&ModelDir::open(directory.path()).unwrap(), RenderSettings::default()).unwrap()
}

struct Stage {
    rollouts: Rollouts,
    actor: Arc<Actor>,
}

impl Stage {
    fn new(arena: impl Arena + 'static, lines: Vec<Line>, settings: RolloutSettings) -> Self {
        let renderer = renderer();
        let actor =
            Arc::new(Actor { renderer: renderer.clone(), lines: Mutex::new(lines.into()), prompts: Mutex::default() });
        let rubric = Arc::new(RubricSpec::single("parse_penalty", serde_json::Map::new()).build().unwrap());
        let sampling = SamplingParams { max_new_tokens: 200, ..SamplingParams::default() };
        let rollouts = Rollouts::new(Arc::new(arena), actor.clone(), renderer, rubric, sampling, settings);
        Self { rollouts, actor }
    }

    /// Plays one episode and checks the law that holds for every one: each prompt is the record so far.
    async fn play(&self) -> Trace {
        let task = Task::new("t", "echo", "Echo hi.");
        let trace = self.rollouts.play(Slot { task: &task, replica: 0, seed: 3 }).await;
        if !matches!(trace.outcome, Outcome::Fault { .. }) {
            let ids: Vec<u32> = trace.tokens().collect();
            let prompts = self.actor.prompts.lock().unwrap();
            let turns = trace.sampled().count();
            for (prompt, (at, _)) in prompts[prompts.len() - turns..].iter().zip(trace.sampled()) {
                assert_eq!(&ids[..at], prompt.as_slice());
            }
        }
        trace
    }

    fn text(&self, node: &Node) -> String {
        self.rollouts.renderer.tokenizer().decode(node.tokens()).unwrap()
    }
}

fn says(text: &str) -> Line {
    Line::Says(format!("{text}<|im_end|>"))
}

fn calls(text: &str) -> Line {
    says(&call(text))
}

fn call(text: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"echo\", \"arguments\": {{\"text\": \"{text}\"}}}}\n</tool_call>")
}

fn settings() -> RolloutSettings {
    RolloutSettings::default()
}

#[tokio::test]
async fn an_episode_is_its_tokens() {
    let stage = Stage::new(EchoArena, vec![calls("hi"), says("It said hi.")], settings());
    let trace = stage.play().await;
    assert_eq!(trace.outcome, Outcome::Finished);
    assert_eq!(trace.turns.len(), 2);
    assert_eq!((trace.turns[0].executed, trace.turns[0].calls[0].arguments["text"].as_str()), (1, Some("hi")));
    let texts: Vec<String> = trace.nodes().iter().map(|node| stage.text(node)).collect();
    assert!(texts[0].contains("helpful echo") && texts[0].contains("\"echo\""), "{}", texts[0]);
    assert!(texts[2].contains("<tool_response>\nhi\n</tool_response>"), "{}", texts[2]);
    assert_eq!(trace.reward("total"), Some(0.0));
}

#[tokio::test]
async fn tokens_that_an_answer_spells_out_are_counted() {
    let stage = Stage::new(EchoArena, vec![calls("a<|im_start|>b<|im_start|>"), says("It did.")], settings());
    assert_eq!(stage.play().await.facts[DEFUSED], 2);
    let stage = Stage::new(EchoArena, vec![calls("hi"), says("It did.")], settings());
    assert_eq!(stage.play().await.facts.get(DEFUSED), None);
}

#[tokio::test]
async fn a_malformed_reply_is_answered_by_its_name_and_counted() {
    let broken = "<tool_call>\n{\"name\": \"eco\", \"arguments\": {\"text\": \"hi\"}}\n</tool_call>";
    let stage = Stage::new(EchoArena, vec![says(broken), says("Sorry.")], settings());
    let trace = stage.play().await;
    assert_eq!(trace.turns[0].failure.as_ref().unwrap().kind, ParseFailureKind::UnknownTool);
    assert_eq!(trace.turns[0].executed, 0);
    assert!(stage.text(&trace.nodes()[2]).contains("echo"), "the hint names the tool");
    assert!(trace.reward("total").unwrap() < 0.0);

    let ends = RolloutSettings { malformed: OnMalformed::End, ..settings() };
    let trace = Stage::new(EchoArena, vec![says(broken)], ends).play().await;
    assert!(matches!(trace.outcome, Outcome::Malformed { .. }));
}

#[tokio::test]
async fn a_repaired_call_runs_only_where_the_recipe_says_so() {
    let comma = "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hi\",}}\n</tool_call>";
    let trace = Stage::new(EchoArena, vec![says(comma), says("ok")], settings()).play().await;
    assert_eq!(
        (trace.turns[0].executed, trace.turns[0].repairs.as_slice()),
        (1, ["trailing_comma".to_owned()].as_slice())
    );
    assert_eq!(trace.turns[0].failure.as_ref().unwrap().kind, ParseFailureKind::MalformedJson);
    let strict = RolloutSettings { repair: OnRepair::Reject, ..settings() };
    let trace = Stage::new(EchoArena, vec![says(comma), says("ok")], strict).play().await;
    assert_eq!((trace.turns[0].executed, trace.turns[0].repairs.len()), (0, 0));
}

#[tokio::test]
async fn first_call_only_cuts_the_record_after_the_first_call() {
    let two = format!("{}\n{}", call("one"), call("two"));
    let first = RolloutSettings { calls: CallMode::First, ..settings() };
    let stage = Stage::new(EchoArena, vec![says(&two), says("ok")], first);
    let trace = stage.play().await;
    assert_eq!(stage.text(&trace.nodes()[1]), call("one"));
    assert_eq!(trace.nodes()[2].origin(), &Origin::Forced);
    assert_eq!((trace.turns[0].calls.len(), trace.turns[0].executed), (2, 1));

    let stage = Stage::new(EchoArena, vec![says(&two), says("ok")], settings());
    let trace = stage.play().await;
    assert_eq!(trace.turns[0].executed, 2);
    assert!(stage.text(&trace.nodes()[2]).contains("two"));
}

#[tokio::test]
async fn limits_truncate_by_name() {
    let limit = |trace: Trace| match trace.outcome {
        Outcome::Truncated { limit } => limit,
        other => panic!("{other:?}"),
    };
    let turns = RolloutSettings { max_turns: 2, ..settings() };
    assert_eq!(limit(Stage::new(EchoArena, vec![calls("a"), calls("b")], turns).play().await), Limit::Turns);
    assert_eq!(limit(Stage::new(EchoArena, vec![Line::Rambles], settings()).play().await), Limit::ReplyTokens);
    let wall = RolloutSettings { wall_s: -1.0, ..settings() };
    assert_eq!(limit(Stage::new(EchoArena, vec![], wall).play().await), Limit::WallTime);
    let output = RolloutSettings { episode_output_tokens: 5, ..settings() };
    assert_eq!(limit(Stage::new(EchoArena, vec![calls("a")], output).play().await), Limit::ToolOutput);

    let prompt = Stage::new(EchoArena, vec![says("ok")], settings()).play().await.nodes()[0].tokens().len();
    let window = RolloutSettings { window: prompt + 20, ..settings() };
    assert_eq!(limit(Stage::new(EchoArena, vec![Line::Rambles], window).play().await), Limit::Context);
    let full = RolloutSettings { window: prompt, ..settings() };
    assert_eq!(limit(Stage::new(EchoArena, vec![], full).play().await), Limit::Context);
}

/// An environment that breaks as told, on the given episodes.
struct Broken {
    opened: AtomicU32,
    /// Breaks this many episodes, from the first.
    episodes: u32,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    DoesNotOpen,
    Crashes,
    IsUnreachable,
    Hangs,
    Floods,
    LosesTheUser,
    BreaksTheProtocol,
}

impl Broken {
    fn new(how: How, episodes: u32) -> Self {
        Self { opened: AtomicU32::new(0), episodes, how }
    }
}

#[async_trait]
impl Arena for Broken {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let breaks = self.opened.fetch_add(1, Ordering::SeqCst) < self.episodes;
        let mut episode = EchoArena.open(task, seed).await?;
        match self.how {
            How::DoesNotOpen if breaks => return Err(Fault::transient(Boundary::Environment, "connection refused")),
            how if breaks => episode.env = Box::new(BrokenEnv { how, inner: episode.env }),
            _ => {}
        }
        Ok(episode)
    }
}

struct BrokenEnv {
    how: How,
    inner: Box<dyn Env>,
}

#[async_trait]
impl Env for BrokenEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        match (self.how, &action) {
            (_, Action::Reply(_)) | (How::DoesNotOpen, _) => self.inner.step(action).await,
            (How::Crashes, _) => Err(Fault::new(Boundary::Environment, "the process exited with signal 11")),
            (How::IsUnreachable, _) => Err(Fault::transient(Boundary::Environment, "connection reset")),
            (How::LosesTheUser, _) => Err(Fault::new(Boundary::UserSimulator, "answered with an empty text")),
            (How::BreaksTheProtocol, _) => Err(Fault::protocol(Boundary::Environment, "unknown field `mesages`")),
            (How::Hangs, _) => std::future::pending().await,
            (How::Floods, _) => {
                Ok(Turn { messages: vec![Message::tool("echo", "flood ".repeat(9_000_000))], ..Turn::default() })
            }
        }
    }
}

fn fault(trace: &Trace) -> &Fault {
    match &trace.outcome {
        Outcome::Fault { fault } => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_moment_is_tried_again_on_a_fresh_environment() {
    for how in [How::DoesNotOpen, How::Crashes, How::IsUnreachable, How::Hangs, How::LosesTheUser] {
        let lines = (0..4).flat_map(|_| [calls("a"), says("done")]).collect();
        // The fault does not come back on the second environment, so it is not the policy's doing.
        let mut stage = Stage::new(Broken::new(how, 1), lines, settings());
        stage.rollouts.settings.attempts = 2;
        let trace = stage.rollouts.play(Slot { task: &Task::new("t", "echo", "hi"), replica: 0, seed: 3 }).await;
        assert_eq!(trace.rewards.last().unwrap().component, "total");
        assert!(trace.outcome.is_scorable(), "{:?}", trace.outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_stays_is_excluded_with_its_reason_and_never_a_zero() {
    for how in [How::DoesNotOpen, How::IsUnreachable, How::LosesTheUser] {
        let lines = (0..9).map(|_| calls("a")).collect();
        let trace = Stage::new(Broken::new(how, u32::MAX), lines, settings()).play().await;
        let boundary = fault(&trace).boundary;
        assert_ne!(boundary, Boundary::Policy);
        assert_eq!(trace.reward("total"), None);
    }
    let trace = Stage::new(EchoArena, vec![Line::Fails { transient: false }], settings()).play().await;
    assert_eq!(fault(&trace).boundary, Boundary::Sampler);
    let trace = Stage::new(EchoArena, (0..3).map(|_| Line::Hangs).collect(), settings()).play().await;
    assert!(fault(&trace).what.contains("sampler_deadline_s"), "{}", fault(&trace));
    let retried = vec![Line::Fails { transient: true }, says("ok")];
    assert_eq!(Stage::new(EchoArena, retried, settings()).play().await.outcome, Outcome::Finished);
}

#[tokio::test(start_paused = true)]
async fn crashing_a_tool_is_no_way_out() {
    for how in [How::Crashes, How::Hangs] {
        let trace = Stage::new(Broken::new(how, u32::MAX), vec![calls("a")], settings()).play().await;
        assert_eq!(trace.outcome, Outcome::Truncated { limit: Limit::CrashingCall });
        assert!(trace.reward("total").is_some(), "it is scored");
        let crash = trace.facts.get(CRASH).and_then(serde_json::Value::as_str).unwrap();
        assert!(crash.contains("signal 11") || crash.contains("did not answer"), "{crash}");
    }
}

/// No action makes a correct program answer outside the protocol: never a reward, whatever the rubric.
#[tokio::test(start_paused = true)]
async fn an_answer_outside_the_protocol_is_never_the_policys_doing() {
    let trace =
        Stage::new(Broken::new(How::BreaksTheProtocol, u32::MAX), (0..9).map(|_| calls("a")).collect(), settings())
            .play()
            .await;
    assert!(fault(&trace).protocol && fault(&trace).what.contains("mesages"), "{:?}", trace.outcome);
    assert!(trace.rewards.iter().all(|reward| reward.value().is_none()), "{:?}", trace.rewards);
}

#[tokio::test]
async fn a_flood_is_cut_and_the_cut_is_said() {
    let lines = vec![calls("a"), says("done")];
    let stage = Stage::new(Broken::new(How::Floods, u32::MAX), lines, settings());
    let trace = stage.play().await;
    assert_eq!(trace.outcome, Outcome::Finished);
    let shown = stage.text(&trace.nodes()[2]);
    assert!(shown.contains("characters") && shown.contains("cut here"), "{shown}");
    assert!(trace.nodes()[2].tokens().len() < 1200);
}

/// Leaves a novel behind.
struct Verbose(Box<dyn Env>);

#[async_trait]
impl Env for Verbose {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        self.0.step(action).await
    }

    fn end(&mut self) -> EndState {
        let facts = serde_json::json!({"correct": true, "novel": "word ".repeat(1_000_000)});
        EndState { facts: facts.as_object().unwrap().clone() }
    }
}

struct VerboseArena;

#[async_trait]
impl Arena for VerboseArena {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let episode = EchoArena.open(task, seed).await?;
        Ok(Episode { env: Box::new(Verbose(episode.env)), ..episode })
    }
}

#[tokio::test]
async fn facts_are_recorded_within_bounds() {
    let trace = Stage::new(VerboseArena, vec![says("done")], settings()).play().await;
    assert_eq!((&trace.facts["correct"], trace.facts.get("novel")), (&serde_json::json!(true), None));
    assert_eq!(trace.facts["left_out"], serde_json::json!(["novel: 5000002 bytes"]));
    assert!(trace.facts["messages"].is_array());
}

#[tokio::test(start_paused = true)]
async fn a_broken_episode_costs_itself_alone() {
    let mut stage = Stage::new(Broken::new(How::IsUnreachable, 1), (0..9).map(|_| says("ok")).collect(), settings());
    stage.rollouts.settings.attempts = 1;
    stage.actor.lines.lock().unwrap().push_front(calls("a"));
    let task = Task::new("t", "echo", "Echo hi.");
    let groups = stage.rollouts.groups(&[&task], 4, Seed::root(1)).await;
    assert_eq!((groups[0].traces().len(), groups[0].faulted().len()), (3, 1));
    let seeds: std::collections::HashSet<u64> = groups[0].traces().iter().map(|trace| trace.seed).collect();
    assert_eq!(seeds.len(), 3, "replicas have seeds of their own");
}

#[tokio::test]
async fn groups_come_in_the_order_of_their_tasks() {
    let stage = Stage::new(EchoArena, (0..6).map(|_| says("ok")).collect(), settings());
    let tasks: Vec<Task> = ["a", "b", "c"].map(|key| Task::new(key, "echo", "hi")).to_vec();
    let groups = stage.rollouts.groups(&tasks.iter().collect::<Vec<_>>(), 2, Seed::root(1)).await;
    let keys: Vec<&str> = groups.iter().flat_map(hone_trace::Group::traces).map(|trace| trace.task.as_str()).collect();
    assert_eq!(keys, ["a", "a", "b", "b", "c", "c"]);
    assert!(Duration::from_secs_f64(stage.rollouts.settings.backoff_s) > Duration::ZERO);
}

/// Opens with these messages and tools, and answers every action with this text as the user.
struct Says {
    first: String,
    tools: hone_trace::ToolSet,
    answer: String,
}

impl Says {
    fn new() -> Self {
        let tool = hone_trace::ToolSpec::new(
            "echo",
            "",
            serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        );
        Self { first: "Go.".into(), tools: hone_trace::ToolSet::new(vec![tool]).unwrap(), answer: "More.".into() }
    }
}

struct SaysEnv(String);

#[async_trait]
impl Arena for Says {
    async fn open(&self, _: &Task, _: u64) -> Result<Episode, Fault> {
        Ok(Episode {
            tools: self.tools.clone(),
            system: "You are a helpful echo.".into(),
            first: vec![Message::user(self.first.clone())],
            env: Box::new(SaysEnv(self.answer.clone())),
        })
    }
}

#[async_trait]
impl Env for SaysEnv {
    async fn step(&mut self, _: Action) -> Result<Turn, Fault> {
        Ok(Turn { messages: vec![Message::user(self.0.clone())], ..Turn::default() })
    }
}

/// A message too long for the window, of any role, ends the episode before it is encoded, which would take a gigabyte;
/// scorers see its beginning.
#[tokio::test]
async fn a_message_that_no_window_holds_is_never_encoded() {
    let huge = "many words ".repeat(1 << 20);
    let stage = Stage::new(Says { answer: huge.clone(), ..Says::new() }, vec![says("Hello.")], settings());
    let trace = stage.play().await;
    assert_eq!(trace.outcome, Outcome::Truncated { limit: Limit::Context });
    assert!(trace.tokens().count() < 4096);
    let seen = trace.facts["messages"].to_string();
    assert!(seen.len() < 8192 && seen.contains("bytes cut here"), "{} bytes", seen.len());

    let stage = Stage::new(Says { first: huge, ..Says::new() }, vec![], RolloutSettings { attempts: 1, ..settings() });
    let Outcome::Fault { fault } = stage.play().await.outcome else { panic!("it was played") };
    assert_eq!(fault.boundary, Boundary::Environment);
    assert!(fault.what.contains("first prompt") && fault.what.contains("rollout.window"), "{}", fault.what);
}

/// Takes as many seconds for an action as the task says.
struct Slow(u64);

#[async_trait]
impl Env for Slow {
    async fn step(&mut self, _: Action) -> Result<Turn, Fault> {
        tokio::time::sleep(Duration::from_secs(self.0)).await;
        Ok(Turn { done: true, ..Turn::default() })
    }
}

struct SlowArena;

#[async_trait]
impl Arena for SlowArena {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let episode = EchoArena.open(task, seed).await?;
        Ok(Episode { env: Box::new(Slow(task.prompt.parse().unwrap())), ..episode })
    }
}

#[tokio::test(start_paused = true)]
async fn an_episode_that_takes_long_holds_one_place_only() {
    let lines = (0..5).map(|_| says("done")).collect();
    let stage = Stage::new(SlowArena, lines, RolloutSettings { concurrency: 2, user_deadline_s: 500.0, ..settings() });
    let tasks = [100, 30, 30, 30, 10].map(|seconds: u64| Task::new(seconds.to_string(), "slow", seconds.to_string()));
    let slots = tasks.iter().map(|task| Slot { task, replica: 0, seed: 3 }).collect();
    let clock = tokio::time::Instant::now();
    let traces = stage.rollouts.play_all(slots).await;
    assert_eq!(clock.elapsed().as_secs(), 100, "the others take the other place, one after the other");
    let played: Vec<&str> = traces.iter().map(|trace| trace.task.as_str()).collect();
    assert_eq!(played, ["100", "30", "30", "30", "10"]);
}
