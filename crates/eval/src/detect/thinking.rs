//! Thinking share: the share of the agent's characters that are reasoning.

use hone_trace::Message;

use super::{Detector, Seen, Sighting};

pub(super) const DETECTOR: Detector = Detector {
    name: "thinking share",
    about: "Share of the agent's characters that is reasoning; over a half is a budget that thinking eats",
    over: Some(0.5),
    measure,
};

fn measure(seen: &Seen<'_>) -> Option<Sighting> {
    let (mut thought, mut all) = (0, 0);
    for message in seen.replies() {
        let Message::Assistant { content, reasoning, tool_calls } = message else { continue };
        let own = reasoning.as_ref().map_or(0, |text| text.chars().count());
        let said = content.as_ref().map_or(0, |content| content.text().chars().count());
        let called: usize =
            tool_calls.iter().map(|call| serde_json::to_string(call).map_or(0, |text| text.len())).sum();
        thought += own;
        all += own + said + called;
    }
    (all > 0).then(|| Sighting::new(thought as f64 / all as f64, format!("{thought} of {all} characters")))
}

#[cfg(test)]
mod tests {
    use hone_trace::Outcome;

    use super::super::testing::{is_seen, measure as value, thought, trace};
    use super::*;

    #[test]
    fn mostly_thinking_is_seen() {
        assert!(is_seen(&DETECTOR, &trace(&[thought(&"hm ".repeat(100), "Done.")], Outcome::Finished, 0.0)));
        assert!(!is_seen(&DETECTOR, &trace(&[thought("hm", "All of it is done now.")], Outcome::Finished, 1.0)));
        assert_eq!(value(&DETECTOR, &trace(&[], Outcome::Finished, 0.0)), None);
    }
}
