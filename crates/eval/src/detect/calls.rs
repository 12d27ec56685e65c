//! Tool calls that were run.

use super::{Detector, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "calls",
    about: "Tool calls that were run",
    over: None,
    measure: |seen| {
        let run: u32 = seen.trace.turns.iter().map(|turn| turn.executed).sum();
        Some(Sighting::new(f64::from(run), ""))
    },
};

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome};
    use serde_json::json;

    use super::super::testing::{call, measure, trace};
    use super::*;

    #[test]
    fn calls_are_counted_and_replies_are_not() {
        let messages = [call("f", json!({})), Message::tool("f", "ok"), Message::assistant("done")];
        assert_eq!(measure(&DETECTOR, &trace(&messages, Outcome::Finished, 1.0)).unwrap().value, 1.0);
    }
}
