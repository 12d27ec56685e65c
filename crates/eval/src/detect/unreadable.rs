//! Unreadable replies: neither a valid call nor a plain reply.

use super::{Detector, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "unreadable replies",
    about: "Replies that are neither a valid call nor a plain reply",
    over: Some(0.0),
    measure: |seen| {
        let mut failures = seen.trace.turns.iter().filter_map(|turn| turn.failure.as_ref()).peekable();
        let example = failures.peek().map(ToString::to_string).unwrap_or_default();
        Some(Sighting::new(failures.count() as f64, super::excerpt(&example, 160)))
    },
};

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome, ParseFailure, ParseFailureKind};

    use super::super::testing::{is_seen, trace};
    use super::*;

    #[test]
    fn a_parse_failure_is_one() {
        let mut episode = trace(&[Message::assistant("{")], Outcome::Finished, 0.0);
        assert!(!is_seen(&DETECTOR, &episode));
        let kind = ParseFailureKind::MalformedJson;
        episode.turns[0].failure = Some(ParseFailure { kind, message: "m".into(), at: 0, hint: "h".into() });
        assert!(is_seen(&DETECTOR, &episode));
    }
}
