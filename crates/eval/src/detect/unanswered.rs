//! Unanswered calls: the environment gave nothing back, so the agent works blind.

use hone_trace::{Message, Outcome};

use super::{Detector, Seen, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "unanswered calls",
    about: "Calls after which the environment said nothing, other than at the episode's end",
    over: Some(0.0),
    measure: |seen| Some(measure(seen)),
};

fn measure(seen: &Seen<'_>) -> Sighting {
    let mut unanswered = Vec::new();
    for (at, message) in seen.messages.iter().enumerate() {
        let Message::Assistant { tool_calls, .. } = message else { continue };
        let after = &seen.messages[at + 1..];
        let answers = after.iter().take_while(|message| !matches!(message, Message::Assistant { .. })).count();
        let ends = after.is_empty() && matches!(seen.trace.outcome, Outcome::Finished);
        if !tool_calls.is_empty() && answers == 0 && !ends {
            unanswered.extend(tool_calls.iter().map(|call| call.name.clone()));
        }
    }
    Sighting::new(unanswered.len() as f64, unanswered.first().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use hone_trace::Limit;
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn silence_after_a_call_is_seen_and_a_call_that_ends_the_episode_is_not() {
        let answered = [call("f", json!({})), Message::tool("f", "ok"), Message::assistant("done")];
        assert!(!is_seen(&DETECTOR, &trace(&answered, Outcome::Finished, 1.0)));
        let silent = [call("f", json!({})), call("f", json!({})), Message::tool("f", "ok")];
        assert!(is_seen(&DETECTOR, &trace(&silent, Outcome::Finished, 0.0)));
        let last = [call("submit", json!({}))];
        assert!(!is_seen(&DETECTOR, &trace(&last, Outcome::Finished, 1.0)));
        assert!(is_seen(&DETECTOR, &trace(&last, Outcome::Truncated { limit: Limit::Turns }, 0.0)));
    }
}
