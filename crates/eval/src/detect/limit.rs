//! Limits hit: the episode was cut short by turns, tokens, time or output.

use hone_trace::Outcome;

use super::{Detector, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "limit hit",
    about: "A limit ended the episode",
    over: Some(0.0),
    measure: |seen| {
        Some(match &seen.trace.outcome {
            Outcome::Truncated { limit } => Sighting::new(1.0, limit.to_string()),
            _ => Sighting::new(0.0, ""),
        })
    },
};

#[cfg(test)]
mod tests {
    use hone_trace::{Limit, Message};

    use super::super::testing::{measure, trace};
    use super::*;

    #[test]
    fn the_limit_is_named() {
        let said = [Message::assistant("x")];
        let cut = measure(&DETECTOR, &trace(&said, Outcome::Truncated { limit: Limit::Context }, 0.0));
        assert_eq!(cut, Some(Sighting::new(1.0, "context")));
        assert_eq!(measure(&DETECTOR, &trace(&said, Outcome::Finished, 0.0)).unwrap().value, 0.0);
    }
}
