//! Errors of tools by kind: wrong arguments, missing records, refusals, others. Recognised by the words of the answer,
//! since environments have no common codes.

use super::{Detector, Seen, Sighting, excerpt};

pub(super) const ARGUMENT: Detector = Detector {
    name: "argument errors",
    about: "Answers that say the arguments were wrong",
    over: Some(0.0),
    measure: |seen| Some(errors(seen, Kind::Argument)),
};

pub(super) const NOT_FOUND: Detector = Detector {
    name: "not-found errors",
    about: "Answers that say something does not exist",
    over: Some(0.0),
    measure: |seen| Some(errors(seen, Kind::NotFound)),
};

pub(super) const REFUSED: Detector = Detector {
    name: "refusals",
    about: "Answers that say the agent may not do it",
    over: Some(0.0),
    measure: |seen| Some(errors(seen, Kind::Refused)),
};

pub(super) const OTHER: Detector = Detector {
    name: "other errors",
    about: "Answers that are errors of another kind",
    over: Some(0.0),
    measure: |seen| Some(errors(seen, Kind::Other)),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Argument,
    NotFound,
    Refused,
    Other,
}

fn errors(seen: &Seen<'_>, kind: Kind) -> Sighting {
    let found: Vec<String> = seen
        .answers()
        .filter(|(_, text)| kind_of(text) == Some(kind))
        .map(|(name, text)| format!("{name}: {}", excerpt(&text, 120)))
        .collect();
    Sighting::new(found.len() as f64, found.first().cloned().unwrap_or_default())
}

/// `None` for an answer that is not an error.
fn kind_of(text: &str) -> Option<Kind> {
    let start: String = text.trim_start().chars().take(400).collect::<String>().to_lowercase();
    if !start.starts_with("error") && !start.starts_with("{\"error") && !start.starts_with("traceback") {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| start.contains(word));
    Some(if has(&["not found", "no such", "does not exist", "unknown id", "not exist", "404"]) {
        Kind::NotFound
    } else if has(&["unauthorized", "not allowed", "permission", "forbidden", "denied", "401", "403"]) {
        Kind::Refused
    } else if has(&[
        "argument",
        "invalid",
        "missing",
        "required",
        "unexpected",
        "must be",
        "type",
        "parameter",
        "schema",
        "unknown tool",
    ]) {
        Kind::Argument
    } else {
        Kind::Other
    })
}

#[cfg(test)]
mod tests {
    use hone_trace::{Message, Outcome};
    use serde_json::json;

    use super::super::testing::{call, is_seen, trace};
    use super::*;

    #[test]
    fn each_kind_is_told_from_the_others() {
        for (text, expected) in [
            ("Error: order not found", Some("not-found errors")),
            ("Error: missing 1 required positional argument: 'id'", Some("argument errors")),
            ("{\"error\": \"permission denied\"}", Some("refusals")),
            ("Error: gift card balance is not enough", Some("other errors")),
            ("{\"status\": \"no error\"}", None),
        ] {
            let episode = trace(&[call("f", json!({})), Message::tool("f", text)], Outcome::Finished, 0.0);
            let seen: Vec<&str> = [&ARGUMENT, &NOT_FOUND, &REFUSED, &OTHER]
                .into_iter()
                .filter(|detector| is_seen(detector, &episode))
                .map(|detector| detector.name)
                .collect();
            assert_eq!(seen, expected.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}
