//! Identical repeats: the same call with the same arguments, with nothing written in between.

use hone_arena::rewards::Measure as _;
use hone_arena::rewards::process::RepeatedCalls;

use super::{Detector, punished};

pub(super) const DETECTOR: Detector = Detector {
    name: "identical repeats",
    about: "Share of calls that repeat an earlier one with nothing written in between",
    over: Some(0.0),
    measure: |seen| punished(&RepeatedCalls::default().measure(seen.case.as_ref()?)),
};

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome};
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn a_repeat_is_seen_and_reading_again_after_a_write_is_none() {
        let (read, write) = (call("read", json!({"a": 1, "b": 2})), call("write", json!({})));
        let same = call("read", json!({"b": 2, "a": 1}));
        let answer = Message::tool("read", "x");
        let repeats = [read.clone(), answer.clone(), same.clone(), answer.clone()];
        assert!(is_seen(&DETECTOR, &trace(&repeats, Outcome::Finished, 0.0)));
        let sensible = [read, answer.clone(), write, answer.clone(), same, answer];
        assert!(!is_seen(&DETECTOR, &trace(&sensible, Outcome::Finished, 1.0)));
    }
}
