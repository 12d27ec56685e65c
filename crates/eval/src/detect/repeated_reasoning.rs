//! Repeated reasoning: the agent repeats a thought, word for word.

use std::collections::HashMap;

use hone_trace::Message;

use super::{Detector, Seen, Sighting, excerpt};

pub(super) const DETECTOR: Detector = Detector {
    name: "repeated reasoning",
    about: "Most often that one paragraph of reasoning was written, less one",
    over: Some(0.0),
    measure,
};

/// Shorter ones ("Let me see.") are filler.
const LEAST_WORDS: usize = 6;

fn measure(seen: &Seen<'_>) -> Option<Sighting> {
    let mut times: HashMap<String, u32> = HashMap::new();
    let thoughts = seen.replies().filter_map(|message| match message {
        Message::Assistant { reasoning: Some(text), .. } => Some(text),
        _ => None,
    });
    for paragraph in thoughts.flat_map(|text| text.lines()) {
        let words: Vec<String> = paragraph.split_whitespace().map(str::to_lowercase).collect();
        if words.len() >= LEAST_WORDS {
            *times.entry(words.join(" ")).or_default() += 1;
        }
    }
    let (text, most) = times.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))?;
    Some(Sighting::new(f64::from(most - 1), format!("{most} times: {}", excerpt(&text, 120))))
}

#[cfg(test)]
mod tests {
    use hone_trace::Outcome;

    use super::super::testing::{is_seen, measure as value, thought, trace};
    use super::*;

    #[test]
    fn the_same_paragraph_again_is_seen() {
        let same = "I should look up the order before I do anything.";
        let again =
            [thought(same, "a"), thought("Something else entirely that is long enough.", "b"), thought(same, "c")];
        assert!(is_seen(&DETECTOR, &trace(&again, Outcome::Finished, 0.0)));
        let short = [thought("Let me see.", "a"), thought("Let me see.", "b")];
        assert_eq!(value(&DETECTOR, &trace(&short, Outcome::Finished, 0.0)), None);
    }
}
