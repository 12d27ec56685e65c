//! Vocabulary, records and interfaces of Hone. Read this crate first.
//!
//! It knows no runtime, no network, no tensors and no tokenizer: plain data, and the traits the other crates meet at. A
//! [`Task`] is played in an [`Env`] by a [`Sampler`] and recorded as a [`Trace`] of [`Node`]s; the traces of one task
//! form a [`Group`]; [`Credit`] estimates their advantages; a [`Learner`] learns from a [`Batch`] under a [`Loss`]. The
//! sampler and the learner of one policy come from an [`Engine`]. Everything is recorded in a [`rundir::RunDir`].

mod batch;
mod clean;
mod digest;
mod engine;
mod entries;
mod group;
pub mod keys;
mod lock;
mod loss;
mod message;
mod names;
mod node;
mod outcome;
mod policy;
mod reward;
pub mod rundir;
pub mod scripted;
mod seed;
mod task;
mod tool;
mod trace;
mod world;

pub use batch::{Batch, BatchNode, LossStats, Target};
pub use clean::{clean, clean_json, clean_line, rounded, signed};
pub use digest::{BadDigest, Digest};
pub use engine::{
    AdamWSettings, Engine, EngineFault, EngineKind, EngineSpec, FreshSpec, LeanState, LearnerSpec, LoraSpec, Memory,
    NativeDevice, NativeMoments, NativeOptions, NativePrecision, Reference, Workload, gigabytes,
};
pub use group::{Advantage, Fate, Group, Lesson, NoSignal, Span};
pub use lock::{LockError, SPLIT_LOCK, Side, SplitLock};
pub use loss::{Loss, TokenBatch, TokenColumns};
pub use message::{Content, ImageUrl, Message, Part};
pub use names::{did_you_mean, foreign, nearest, plainly, with_nearest, with_type};
pub use node::{BadNode, Node, Origin, PolicyVersion, Sampled};
pub use outcome::{Boundary, Fault, FaultKind, Limit, Outcome, ParseFailure, ParseFailureKind};
pub use policy::{
    Abilities, Flow, LearnFault, LearnStats, Learner, OptimizerStep, Sample, SampleFault, SampleRequest, Sampler,
    SamplingParams, StepReport, StopReason, TokenGate, TokenMask, TokenScores, Whose,
};
pub use reward::{Forecast, Reward, Verdict};
pub use seed::{Rng, Seed};
pub use task::{Modality, Task, TaskSet, TaskSetError};
pub use tool::{DuplicateTool, ToolCall, ToolSet, ToolSpec};
pub use trace::{BadTrace, Timings, Trace, TraceBuilder, TraceHead, TurnRecord, Usage};
pub use world::{Action, Arena, Credit, EndState, Env, Episode, Held, Turn};
