//! Missing finish: the agent says it is done but does not end the episode, until a limit does.

use hone_trace::{Message, Outcome};

use super::{Detector, Seen, Sighting, excerpt};

pub(super) const DETECTOR: Detector = Detector {
    name: "missing finish",
    about: "A limit ended the episode after replies without a call: the agent did not know how to finish",
    over: Some(0.0),
    measure: |seen| Some(measure(seen)),
};

fn measure(seen: &Seen<'_>) -> Sighting {
    let plain = |message: &&Message| matches!(message, Message::Assistant { tool_calls, .. } if tool_calls.is_empty());
    let replies: Vec<&Message> = seen.replies().collect();
    let trailing: Vec<&&Message> = replies.iter().rev().take_while(|message| plain(message)).collect();
    if !matches!(seen.trace.outcome, Outcome::Truncated { .. }) || trailing.is_empty() {
        return Sighting::new(0.0, "");
    }
    let text = trailing[0].content().map(hone_trace::Content::text).unwrap_or_default();
    Sighting::new(trailing.len() as f64, excerpt(&text, 120))
}

#[cfg(test)]
mod tests {
    use hone_trace::Limit;
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn words_that_end_nothing_are_seen() {
        let cut = Outcome::Truncated { limit: Limit::Turns };
        let talks = [
            call("f", json!({})),
            Message::tool("f", "ok"),
            Message::assistant("I am done."),
            Message::assistant("Done!"),
        ];
        assert!(is_seen(&DETECTOR, &trace(&talks, cut.clone(), 0.0)));
        assert!(!is_seen(&DETECTOR, &trace(&talks, Outcome::Finished, 1.0)));
        let works = [call("f", json!({})), Message::tool("f", "ok"), call("g", json!({}))];
        assert!(!is_seen(&DETECTOR, &trace(&works, cut, 0.0)), "cut in the middle of work");
    }
}
