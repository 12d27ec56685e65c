//! The whole story with stand-ins: task, episode, sampler, trace, group. One token is one byte here, so that the test
//! needs no tokenizer; `chat` tells the same story with a real one.

use std::sync::Arc;

use crate::common::version;
use futures::executor::block_on;
use hone_trace::scripted::{EchoArena, ScriptedSampler};
use hone_trace::{
    Action, Arena, Group, Limit, Message, Node, Outcome, SampleRequest, Sampler, SamplingParams, StopReason, Task,
    ToolCall, Trace, TraceBuilder, TraceHead, TurnRecord,
};

const END: u32 = 0;

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn text(ids: &[u32]) -> String {
    ids.iter().filter(|id| **id != END).map(|id| char::from(*id as u8)).collect()
}

fn read(reply: &str) -> Action {
    match serde_json::from_str::<ToolCall>(reply) {
        Ok(call) => Action::Calls(vec![call]),
        Err(_) => Action::Reply(reply.into()),
    }
}

async fn play(task: &Task, sampler: &dyn Sampler, replica: u32, max_turns: usize) -> Trace {
    let mut episode = EchoArena.open(task, 7).await.unwrap();
    let sampling = SamplingParams { stop_ids: vec![END], ..SamplingParams::default() };
    let tools = Arc::new(episode.tools.clone());
    let head = TraceHead {
        task: task.key.clone(),
        env: task.env.clone(),
        replica,
        seed: 7,
        tools,
        sampling: sampling.clone(),
    };
    let mut trace = TraceBuilder::new(head, ids(&episode.system));
    let mut outcome = Outcome::Truncated { limit: Limit::Turns };
    for _ in 0..max_turns {
        let request = SampleRequest { prompt: trace.ids(), params: sampling.clone(), seed: 7, gate: None };
        let sample = match sampler.sample(request).await {
            Ok(sample) => sample,
            Err(fault) => {
                outcome = Outcome::Fault { fault: fault.into() };
                break;
            }
        };
        assert_eq!(sample.stop, StopReason::StopId);
        let action = read(&text(&sample.tokens));
        trace.push(Node::sampled(sample.tokens, sample.sampled).unwrap());
        let calls = if let Action::Calls(calls) = &action { calls.clone() } else { Vec::new() };
        trace.record(TurnRecord { executed: calls.len() as u32, calls, ..TurnRecord::default() });
        let turn = episode.env.step(action).await.unwrap();
        let observation: String =
            turn.messages.iter().filter_map(Message::content).map(hone_trace::Content::text).collect();
        if turn.done {
            outcome = Outcome::Finished;
            break;
        }
        trace.push(Node::observation(ids(&observation)));
    }
    trace.finish(outcome)
}

#[test]
fn the_story() {
    let say = |text: &str| [ids(text), vec![END]].concat();
    let call = say(r#"{"name": "echo", "arguments": {"text": "hi"}}"#);
    let sampler = ScriptedSampler::new(version(0), [call.clone(), say("It said hi."), call.clone(), call.clone()]);
    let task = Task::new("echo-1", "echo", "Echo hi.");
    let finished = block_on(play(&task, &sampler, 0, 2));
    assert_eq!(finished.outcome, Outcome::Finished);
    let expected = [ids("You are a helpful echo."), call, ids("hi"), say("It said hi.")].concat();
    assert_eq!(finished.tokens().collect::<Vec<_>>(), expected);
    assert_eq!(finished.turns[0].calls[0].name, "echo");

    let cut = block_on(play(&task, &sampler, 1, 1));
    assert_eq!(cut.outcome, Outcome::Truncated { limit: Limit::Turns });
    let faulted = block_on(play(&task, &sampler, 2, 3));
    assert!(!faulted.outcome.is_scorable());

    let group = Group::new(vec![finished, cut, faulted]);
    assert_eq!((group.traces().len(), group.faulted().len()), (2, 1));
}
