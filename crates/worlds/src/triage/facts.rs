//! Gold answer of a triage task, and the judgement of a submission.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer of a task, kept as its `verifier`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gold {
    /// Documents a perfect answer cites. Empty: nothing has the answer.
    pub gold_ids: Vec<String>,
    pub should_escalate: bool,
    /// A perfect answer.
    pub reference: String,
    /// Words that any right answer contains.
    pub key_facts: Vec<String>,
}

/// The arguments of a `submit_resolution`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitted {
    pub resolution: String,
    pub citations: Vec<String>,
    pub confidence: f64,
    pub escalate: bool,
}

impl Submitted {
    /// The perfect submission, with full confidence.
    pub(super) fn right(gold: &Gold) -> Self {
        Self {
            resolution: gold.reference.clone(),
            citations: gold.gold_ids.clone(),
            confidence: 1.0,
            escalate: gold.should_escalate,
        }
    }
}

/// Maximum length of an answer in multiples of the reference's words; otherwise naming everything would count as naming
/// the right thing.
const LONGEST: usize = 3;

impl Gold {
    /// Judges the submission, with the reason. The stated confidence is ignored: calibration needs a test of
    /// correctness that does not depend on it.
    ///
    /// A submission is right if it escalates exactly when it should, with exactly the gold ids cited, every key fact
    /// named, no number that is neither in the ticket nor in the reference, and at most three times the reference's
    /// words.
    pub fn judge(&self, submitted: &Submitted, ticket: &str) -> (bool, String) {
        if submitted.escalate != self.should_escalate {
            let why = if self.should_escalate { "should have been escalated" } else { "needed no escalation" };
            return (false, format!("escalation: the ticket {why}"));
        }
        let cited: BTreeSet<&str> = submitted.citations.iter().map(String::as_str).collect();
        let gold: BTreeSet<&str> = self.gold_ids.iter().map(String::as_str).collect();
        if cited != gold {
            return (false, format!("citations: {} cited, {} wanted", cited.len(), gold.len()));
        }
        let words = words(&submitted.resolution);
        if let Some(missing) = self.key_facts.iter().find(|fact| !words.contains(&fact.to_lowercase())) {
            return (false, format!("facts: {missing} is not named"));
        }
        if let Some(invented) = self.invented_number(&words, ticket) {
            return (false, format!("facts: {invented} comes from nowhere"));
        }
        let length = submitted.resolution.split_whitespace().count();
        let reference = self.reference.split_whitespace().count();
        if length > LONGEST * reference {
            return (false, format!("length: {length} words where the reference has {reference}"));
        }
        (true, "right: escalation, citations and facts".into())
    }

    fn invented_number(&self, words: &HashSet<String>, ticket: &str) -> Option<String> {
        let known: HashSet<String> =
            self.gold_ids.iter().chain([&self.reference]).flat_map(|text| self::words(text)).collect();
        let in_ticket = self::words(ticket);
        let mut numbers: Vec<&String> = words.iter().filter(|word| word.bytes().all(|b| b.is_ascii_digit())).collect();
        numbers.sort_unstable();
        numbers.into_iter().find(|number| !known.contains(*number) && !in_ticket.contains(*number)).cloned()
    }
}

impl Submitted {
    /// Reads the arguments of a call; the error is for the agent.
    pub fn read(arguments: &Map<String, Value>) -> Result<Self, String> {
        let submitted: Self = serde_json::from_value(Value::Object(arguments.clone()))
            .map_err(|error| format!("submit_resolution was not accepted: {error}"))?;
        if !(0.0..=1.0).contains(&submitted.confidence) {
            return Err("submit_resolution was not accepted: confidence must be between 0 and 1".into());
        }
        Ok(submitted)
    }
}

/// Distinct lower-case runs of letters and digits.
fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gold() -> Gold {
        Gold {
            gold_ids: vec!["KB-7".into()],
            should_escalate: false,
            reference: "Set the timer to 3060 seconds on corelinkd.".into(),
            key_facts: vec!["3060".into(), "corelinkd".into()],
        }
    }

    fn submit(resolution: &str, citations: &[&str], escalate: bool) -> Submitted {
        let citations = citations.iter().map(|&id| id.into()).collect();
        Submitted { resolution: resolution.into(), citations, confidence: 0.5, escalate }
    }

    #[test]
    fn judges_what_was_said_and_not_how_sure_it_was() {
        let judge = |submitted: &Submitted| gold().judge(submitted, "host lyo-217");
        let paraphrase = "On corelinkd of lyo-217, make the timer 3060 s (KB-7).";
        assert!(judge(&submit(paraphrase, &["KB-7", "KB-7"], false)).0);
        for confidence in [0.0, 1.0] {
            assert!(judge(&Submitted { confidence, ..submit(paraphrase, &["KB-7"], false) }).0);
        }
        for (wrong, why) in [
            (submit(paraphrase, &["KB-7"], true), "escalation"),
            (submit(paraphrase, &["KB-7", "KB-8"], false), "citations"),
            (submit(paraphrase, &[], false), "citations"),
            (submit("Set the timer to 3000 seconds on corelinkd.", &["KB-7"], false), "facts: 3060"),
            (submit("Set corelinkd to 3000 or 3060.", &["KB-7"], false), "facts: 3000"),
            (submit(&format!("corelinkd 3060 {}", "and so on ".repeat(20)), &["KB-7"], false), "length"),
        ] {
            let (right, said) = judge(&wrong);
            assert!(!right && said.starts_with(why), "{said}");
        }
    }
}
