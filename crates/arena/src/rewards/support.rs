//! Support: the share of the resolution that is backed by the articles it cites.
//!
//! Over distinct trigrams of content words (stop words removed on both sides): the share that occurs in some cited
//! article the agent was shown. Distinct, so that repeating a supported phrase does not dilute an unsupported one.
//! Paraphrase is not seen; this is a floor against filler, not a judge of entailment.

use std::collections::HashSet;

use hone_trace::Verdict;
use serde::Deserialize;

use super::catalogue::{ComponentEntry, plain};
use super::submission::on_submission;
use super::{Case, Context, Measure, Submission, not_applicable, rouge, scored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "support",
    about: "Share of the resolution's content trigrams that occur in the articles it cites, from 0 to 1",
    advice: "Guards against filler beside grounding; it does not recognise paraphrases, so give it little weight",
    paper: None,
    options: Options::NONE,
    make: plain::<Support>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Support {}

impl Measure for Support {
    fn measure(&self, case: &Case) -> Verdict {
        let Some(context @ Context::Texts(_)) = &case.context else {
            return not_applicable("the case has no `context` texts");
        };
        on_submission(case, |submission| support(submission, context, case.gold_ids.as_deref()))
    }
}

/// `gold` only distinguishes a correct escalation without citations from an unsupported answer.
pub fn support(submission: &Submission, context: &Context, gold: Option<&[String]>) -> Verdict {
    if submission.citations.is_empty() {
        return match gold {
            Some([]) if submission.escalate => scored(1.0, "escalated: nothing needs support"),
            _ => scored(0.0, "no_citations: nothing supports the resolution"),
        };
    }
    let resolution = content_words(&submission.resolution);
    let n = resolution.len().min(3);
    if n == 0 {
        return scored(0.0, "empty: the resolution has no content words");
    }
    let Context::Texts(texts) = context else {
        return not_applicable("the articles' texts are not known");
    };
    let articles: Vec<Vec<String>> =
        submission.citations.iter().filter_map(|id| texts.get(id)).map(|text| content_words(text)).collect();
    let backed: HashSet<&[String]> = articles.iter().flat_map(|words| words.windows(n)).collect();
    let claims: HashSet<&[String]> = resolution.windows(n).collect();
    let supported = claims.iter().filter(|claim| backed.contains(*claim)).count();
    scored(
        supported as f64 / claims.len() as f64,
        format!("supported: {supported} of {} content trigrams are in the cited articles", claims.len()),
    )
}

fn content_words(text: &str) -> Vec<String> {
    rouge::tokens(text, false).into_iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).collect()
}

const STOP_WORDS: [&str; 48] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "for", "from", "had", "has",
    "have", "if", "in", "into", "is", "it", "its", "of", "on", "or", "s", "should", "so", "t", "that", "the", "their",
    "then", "there", "these", "they", "this", "to", "was", "we", "were", "will", "with", "would", "you", "your",
];
