//! Premature finish: the agent ended the episode itself, did not pass, and did not do what the reference does.

use hone_trace::Outcome;

use super::{Detector, Seen, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "premature finish",
    about: "The agent finished without passing, and without one call that changes something (without a call, where it is not known which do)",
    over: Some(0.0),
    measure: |seen| Some(measure(seen)),
};

fn measure(seen: &Seen<'_>) -> Sighting {
    let finished = matches!(seen.trace.outcome, Outcome::Finished) && seen.passed == Some(false);
    let writes = seen.case.as_ref().and_then(|case| case.writes.as_deref());
    let counts = |name: &String| writes.is_none_or(|writes| writes.is_empty() || writes.contains(name));
    let run = seen.trace.turns.iter().flat_map(|turn| turn.calls.iter().take(turn.executed as usize));
    let worked = run.filter(|call| counts(&call.name)).count();
    if finished && worked == 0 {
        let calls: u32 = seen.trace.turns.iter().map(|turn| turn.executed).sum();
        return Sighting::new(
            1.0,
            format!(
                "finished after {} turns and {calls} calls, none of which changes anything",
                seen.trace.turns.len()
            ),
        );
    }
    Sighting::new(0.0, "")
}

#[cfg(test)]
mod tests {
    use hone_trace::Message;
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn done_without_doing_is_seen() {
        let read = [call("read", json!({})), Message::tool("read", "x"), Message::assistant("Done.")];
        assert!(is_seen(&DETECTOR, &trace(&read, Outcome::Finished, 0.0)));
        assert!(!is_seen(&DETECTOR, &trace(&read, Outcome::Finished, 1.0)), "nothing was to be done");
        let wrote = [call("write", json!({})), Message::tool("write", "x"), Message::assistant("Done.")];
        assert!(!is_seen(&DETECTOR, &trace(&wrote, Outcome::Finished, 0.0)), "wrong, and not premature");
    }
}
