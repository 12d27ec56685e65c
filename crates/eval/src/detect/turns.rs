//! Turns of the agent.

use super::{Detector, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "turns",
    about: "Turns of the agent",
    over: None,
    measure: |seen| Some(Sighting::new(seen.trace.turns.len() as f64, "")),
};

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome};

    use super::super::testing::{measure, trace};
    use super::*;

    #[test]
    fn replies_are_turns() {
        let messages = [Message::user("hi"), Message::assistant("a"), Message::user("b"), Message::assistant("c")];
        assert_eq!(measure(&DETECTOR, &trace(&messages, Outcome::Finished, 1.0)).unwrap().value, 2.0);
    }
}
