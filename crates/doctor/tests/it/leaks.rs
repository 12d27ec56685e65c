//! Environments in another process that keep something of every closed episode.

use std::sync::Arc;

use hone_arena::stdio::{CommandSpec, StdioArena};
use hone_doctor::probe::{Closed, Part};
use hone_doctor::{Diagnosis, Probe, Severity, preflight};
use hone_trace::Held;

use crate::preflight::{finds, healthy};
use crate::probes::probe_of;

/// A dial in Python. The flaw is its first argument.
const DIAL: &str = r#"
import json, subprocess, sys, threading
flaw, episodes, kept = sys.argv[1], {}, []
tool = {"type": "function", "function": {"name": "set", "description": "Sets the dial.", "parameters": {
    "type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}}}
for line in sys.stdin:
    ask = json.loads(line)
    op, episode, answer = ask["op"], ask.get("episode"), {"id": ask.get("id")}
    if op == "open":
        episodes[episode] = {"wanted": ask["task"]["wanted"], "dial": None}
        if flaw == "files":
            kept.append(open("/dev/null"))
        if flaw == "children":
            kept.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        if flaw == "zombies":
            kept.append(subprocess.Popen(["true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        if flaw == "threads":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        answer |= {"system": "You sit at a desk.", "tools": [tool], "messages": [{"role": "user", "content": ask["task"]["prompt"]}]}
    elif op == "close":
        if flaw != "keeps":
            episodes.pop(episode, None)
        continue
    elif op == "step" and episode not in episodes and flaw != "stateless":
        answer |= {"error": f"there is no episode {episode}"}
    elif op == "step":
        state = episodes.get(episode, {"wanted": 0})
        if ask["action"]["kind"] == "calls":
            state["dial"] = ask["action"]["calls"][0]["arguments"].get("value")
            answer |= {"messages": [{"role": "tool", "name": "set", "content": "set"}]}
        else:
            answer |= {"done": True}
        answer |= {"facts": {"correct": state["dial"] == state["wanted"]}}
    print(json.dumps(answer), flush=True)
"#;

fn probe(flaw: &str, workers: usize) -> Probe {
    probe_of(|| {
        let spec = CommandSpec { workers, ..CommandSpec::new(["python3", "-c", DIAL, flaw]) };
        Arc::new(StdioArena::new(spec).unwrap())
    })
}

fn words(diagnosis: &Diagnosis) -> String {
    let found = diagnosis.found("leaked_instances").unwrap();
    format!("{}\n{}", found.finding.says, found.finding.evidence.lines.join("\n"))
}

/// One process and several, and one that knows no episodes at all.
#[test]
#[cfg(target_os = "linux")]
fn a_program_that_forgets_its_episodes() {
    for (flaw, workers) in [("none", 1), ("none", 3), ("stateless", 1)] {
        let diagnosis = preflight(&probe(flaw, workers)).unwrap();
        assert!(diagnosis.healthy.contains(&"leaked_instances"), "{flaw} {workers}: {diagnosis:#?}");
        assert!(!diagnosis.has_errors(), "{flaw} {workers}: {diagnosis:#?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_keeps_something_of_every_episode() {
    for (flaw, wanted) in [
        ("children", "every closed episode leaves 1.0 child processes behind"),
        ("zombies", "every closed episode leaves 1.0 child processes behind"),
        ("files", "every closed episode leaves 1.0 open files behind"),
        ("threads", "every closed episode leaves 1.0 threads behind"),
        ("keeps", "2 of 2 closed episodes still answer a step"),
    ] {
        let diagnosis = preflight(&probe(flaw, 1)).unwrap();
        assert!(diagnosis.found("leaked_instances").is_some(), "{flaw}: {diagnosis:#?}");
        assert!(words(&diagnosis).contains(wanted), "{flaw}: {}", words(&diagnosis));
    }
}

fn held(kind: &'static str, count: u64, in_use: Option<u64>, limit: Option<u64>) -> Held {
    Held { place: "the server".into(), kind, count, in_use, limit }
}

fn counted(counts: &[(usize, Held)]) -> Probe {
    let mut probe = healthy();
    let Part::Known(world) = &mut probe.world else { panic!() };
    let Part::Known(scripts) = &mut world.scripts else { panic!() };
    let counts = counts.iter().map(|(episodes, held)| (*episodes, vec![held.clone()]));
    scripts.closed = Closed { held: counts.collect(), ..Closed::default() };
    probe
}

#[test]
fn a_limit_within_the_run_is_an_error() {
    let files = |count| held("open files", count, None, Some(256));
    let diagnosis =
        finds(&counted(&[(4, files(14)), (24, files(34)), (48, files(58))]), "leaked_instances", Severity::Error);
    assert!(words(&diagnosis).contains("the process may have 256, reached after 198 more"), "{}", words(&diagnosis));
}

/// A pool that fills and then stays, and too few episodes to tell.
#[test]
fn growth_that_ends_is_no_leak() {
    let threads = |count| held("threads", count, None, None);
    let diagnosis = preflight(&counted(&[(4, threads(2)), (24, threads(32)), (48, threads(32))])).unwrap();
    assert!(diagnosis.healthy.contains(&"leaked_instances"), "{diagnosis:#?}");
    let diagnosis = preflight(&counted(&[(2, threads(2)), (4, threads(4)), (6, threads(6))])).unwrap();
    assert!(diagnosis.skipped.iter().any(|skipped| skipped.check == "leaked_instances"), "{diagnosis:#?}");
}

#[test]
fn sessions_that_no_episode_accounts_for() {
    let diagnosis = finds(&counted(&[(8, held("sessions", 8, Some(0), Some(8)))]), "leaked_instances", Severity::Error);
    assert!(words(&diagnosis).contains("8 - 0 = 8 sessions"), "{}", words(&diagnosis));
    finds(&counted(&[(8, held("instances", 3, Some(1), None))]), "leaked_instances", Severity::Warning);
    let diagnosis = preflight(&counted(&[(8, held("instances", 1, Some(1), None))])).unwrap();
    assert!(diagnosis.healthy.contains(&"leaked_instances"), "{diagnosis:#?}");
}
