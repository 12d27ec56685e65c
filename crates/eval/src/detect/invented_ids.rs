//! Invented ids: arguments that neither the prompt nor an answer had mentioned.

use hone_arena::rewards::Measure as _;
use hone_arena::rewards::process::InventedIds;

use super::{Detector, punished};

pub(super) const DETECTOR: Detector = Detector {
    name: "invented ids",
    about: "Share of the ids in calls that neither the prompt nor an earlier answer has",
    over: Some(0.0),
    measure: |seen| punished(&InventedIds::default().measure(seen.case.as_ref()?)),
};

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome};
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn an_id_from_nowhere_is_seen_and_one_that_was_read_is_not() {
        let known = [
            Message::user("Cancel #W12."),
            call("get", json!({"order_id": "#W12"})),
            Message::tool("get", "{\"item_id\": \"77\"}"),
            call("drop", json!({"item_ids": ["77"]})),
        ];
        assert!(!is_seen(&DETECTOR, &trace(&known, Outcome::Finished, 1.0)));
        let invented = [Message::user("Cancel it."), call("get", json!({"order_id": "#W99"}))];
        assert!(is_seen(&DETECTOR, &trace(&invented, Outcome::Finished, 0.0)));
    }
}
